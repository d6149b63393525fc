/**
 * A message as a list of its parts, for reading reports that anybody may have written.
 *
 * Promises: nothing throws. The time is linear in the size of the message, times the depth allowed; what is
 * beyond a limit is left out, and what is broken is read as far as it can be. Text is one byte per character
 * until it is decoded. postal-mime, which is a dependency already, builds all parts of any depth in memory
 * and decodes all of them.
 */

import { isUtf8 } from "node:buffer";
import { bytesOfBase64 } from "../message/base64.ts";
import { textOfBytes } from "../message/charset.ts";
import { decodeWords } from "../message/encodedwords.ts";

export type Fields = ReadonlyMap<string, readonly string[]>;

export type Part = {
  /** Of the message itself 0. */
  depth: number;
  /** Within a message that is attached to the message. */
  isQuoted: boolean;
  /** In lower case, as `text/plain`. */
  type: string;
  fields: Fields;
  /** Still encoded. */
  body: string;
};

const PARTS_MAX = 50;
const DEPTH_MAX = 8;
const FIELDS_MAX = 200;
const HEADER_CHARS_MAX = 65_536;
const FIELD_CHARS_MAX = 4_096;
const BOUNDARY_CHARS_MAX = 200;
const DECODED_CHARS_MAX = 65_536;

type Open = { text: string; depth: number; isQuoted: boolean; assumed: string };

/** The parts in their order; containers stand before what they contain. */
export function partsOf(message: Buffer): Part[] {
  const parts: Part[] = [];
  const open: Open[] = [
    {
      text: inLines(message.toString("latin1")),
      depth: 0,
      isQuoted: false,
      assumed: "text/plain",
    },
  ];
  for (let next = open.pop(); next && parts.length < PARTS_MAX; next = open.pop()) {
    const part = readPart(next);
    parts.push(part);
    if (part.depth < DEPTH_MAX) open.push(...inside(part).reverse());
  }
  return parts;
}

/** Some systems end lines with a carriage return alone. */
function inLines(text: string): string {
  return text.includes("\n") ? text.replaceAll("\r\n", "\n") : text.replaceAll("\r", "\n");
}

/** Of several fields of a name the first. */
export function field(fields: Fields, name: string): string {
  return fields.get(name)?.[0] ?? "";
}

/** A field of words for people, decoded. */
export function wordsIn(fields: Fields, name: string): string {
  return decodeWords(textOfBytes(Buffer.from(field(fields, name), "latin1"), ""));
}

/** `Name: value` lines up to the first empty one, unfolded; and where the text goes on. */
export function readFields(text: string, from = 0): { fields: Fields; end: number } {
  const fields = new Map<string, string[]>();
  let count = 0;
  let at = from;
  let last: { name: string; value: string } | null = null;
  const keep = () => {
    if (!last || count++ >= FIELDS_MAX) return;
    const values = fields.get(last.name);
    if (values) values.push(last.value.trim());
    else fields.set(last.name, [last.value.trim()]);
  };
  const stop = Math.min(text.length, from + HEADER_CHARS_MAX);
  while (at < stop) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline;
    const line = text.slice(at, Math.min(end, at + FIELD_CHARS_MAX));
    at = newline < 0 ? text.length : newline + 1;
    if (line.trim() === "") break;
    if (line.startsWith(" ") || line.startsWith("\t")) {
      if (last && last.value.length < FIELD_CHARS_MAX) last.value += ` ${line.trim()}`;
      continue;
    }
    keep();
    const colon = line.indexOf(":");
    last =
      colon > 0 && colon <= NAME_CHARS_MAX
        ? { name: line.slice(0, colon).trim().toLowerCase(), value: line.slice(colon + 1) }
        : null;
  }
  keep();
  return { fields, end: at };
}
const NAME_CHARS_MAX = 76;

/** What a part holds. */
export function bytesOf({ fields, body }: Pick<Part, "fields" | "body">, charsMax = body.length): Buffer {
  const encoding = wordOf(field(fields, "content-transfer-encoding"));
  const encoded = body.slice(0, charsMax);
  if (encoding === "base64") return bytesOfBase64(Buffer.from(encoded, "latin1"));
  return Buffer.from(encoding === "quoted-printable" ? unquoted(encoded) : encoded, "latin1");
}

/** What a part says, as text: at most so many characters of it. */
export function textOf({ fields, body, type }: Pick<Part, "fields" | "body" | "type">): string {
  const bytes = bytesOf({ fields, body }, 2 * DECODED_CHARS_MAX);
  const charset = parameter(field(fields, "content-type"), "charset");
  // many claim an 8-bit charset and write UTF-8, which hardly happens by accident; nobody writes these two so
  const isTrusted = /^(?:iso-2022|utf-16)/i.test(charset);
  const text = textOfBytes(bytes, isUtf8(bytes) && !isTrusted ? "" : charset).replaceAll("\r\n", "\n");
  return (type === "text/html" ? withoutTags(text) : text).slice(0, DECODED_CHARS_MAX);
}

/** The first word of a field, in lower case and without comments: `base64` of `(as ever) Base64;`. */
function wordOf(text: string): string {
  let rest = text;
  for (let depth = 0; depth < COMMENT_DEPTH_MAX && rest.includes("("); depth++)
    rest = rest.replace(/\([^()]*\)/g, " ");
  return /^[\s"']*([^\s;"'(]*)/.exec(rest)?.[1]?.toLowerCase() ?? "";
}
const COMMENT_DEPTH_MAX = 3;

/** The value of a parameter of a field: `boundary` of `multipart/mixed; boundary="x"`. */
export function parameter(value: string, name: string): string {
  const found = value.toLowerCase().search(new RegExp(`;\\s{0,100}${name}\\s{0,100}=`));
  if (found < 0) return "";
  const given = value.slice(value.indexOf("=", found) + 1).trimStart();
  if (!given.startsWith('"')) return (/^[^;\s]*/.exec(given)?.[0] ?? "").slice(0, BOUNDARY_CHARS_MAX);
  const close = given.indexOf('"', 1);
  return given.slice(1, close < 0 ? BOUNDARY_CHARS_MAX : Math.min(close, BOUNDARY_CHARS_MAX));
}

function readPart({ text, depth, isQuoted, assumed }: Open): Part {
  const { fields, end } = readFields(text);
  const type = wordOf(field(fields, "content-type").split(";", 1)[0] ?? "") || assumed;
  return { depth, isQuoted, type, fields, body: text.slice(end) };
}

function inside(part: Part): Open[] {
  const { type, fields, body, depth, isQuoted } = part;
  if (type === "message/rfc822" || type === "message/global") {
    const encoding = wordOf(field(fields, "content-transfer-encoding"));
    const text = encoding === "base64" || encoding === "quoted-printable" ? textOf(part) : body;
    return [{ text, depth: depth + 1, isQuoted: true, assumed: "text/plain" }];
  }
  if (!type.startsWith("multipart/")) return [];
  const assumed = type === "multipart/digest" ? "message/rfc822" : "text/plain";
  const pieces = piecesOf(body, parameter(field(fields, "content-type"), "boundary"));
  const found = pieces.length > 0 ? pieces : piecesOf(body, boundarySeen(body));
  return found.map((text) => ({ text, depth: depth + 1, isQuoted, assumed }));
}

/** Of a header that names none, or another one than stands in the body: the first line that begins a part. */
function boundarySeen(body: string): string {
  return (
    /^--([^\s]{1,200})[ \t]{0,20}\ncontent-[a-z-]{1,40}:/im.exec(body.slice(0, HEADER_CHARS_MAX))?.[1] ?? ""
  );
}

/** What stands between the lines of the boundary; a last one may be missing. */
function piecesOf(body: string, boundary: string): string[] {
  if (boundary === "") return [];
  const text = `\n${body}`;
  const pieces: string[] = [];
  let line = nextLine(text, boundary, 0);
  while (line && !line.isLast && pieces.length < PARTS_MAX) {
    const next = nextLine(text, boundary, line.end);
    pieces.push(text.slice(line.end + 1, next?.start ?? text.length));
    line = next;
  }
  return pieces;
}

type BoundaryLine = { start: number; end: number; isLast: boolean };

/** `end` is its line feed. Another boundary may begin with the same letters. */
function nextLine(text: string, boundary: string, from: number): BoundaryLine | null {
  const line = `\n--${boundary}`;
  for (let start = text.indexOf(line, from); start >= 0; start = text.indexOf(line, start + 1)) {
    const newline = text.indexOf("\n", start + line.length);
    const end = newline < 0 ? text.length : newline;
    const rest = text
      .slice(start + line.length, Math.min(end, start + line.length + BOUNDARY_CHARS_MAX))
      .trimEnd();
    if (rest === "" || rest === "--") return { start, end, isLast: rest === "--" };
  }
  return null;
}

function unquoted(text: string): string {
  return text
    .replace(/=\n/g, "")
    .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const ENTITIES: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', nbsp: " ", "#39": "'" };

function withoutTags(html: string): string {
  return html
    .replace(/<(?:br|p|div|tr|li)\b[^<>]{0,500}>/gi, "\n")
    .replace(/<[a-z/!][^<>]{0,1000}>/gi, " ")
    .replace(/&(lt|gt|amp|quot|nbsp|#39);/g, (_, name: string) => ENTITIES[name] ?? " ");
}
