/**
 * Header fields as senders write them: unfolded, with blanks for tabs, encoded words (RFC 2047), parameters
 * (RFC 2045, RFC 2231) and lists of addresses (RFC 5322).
 *
 * Promises: nothing here throws but `Malformed`, and the time is linear in the size of the header, which is
 * bounded. What is decoded may hold any character: whoever stores it checks it.
 */
import { formatMailbox, parseMailbox } from "../address.ts";
import { textOfBytes } from "../message/charset.ts";
import { decodeWords } from "../message/encodedwords.ts";
import { Malformed } from "./malformed.ts";

const HEADER_BYTES_MAX = 128 * 1024;
const FIELDS_MAX = 500;
const NAME = /^[!-9;-~]{1,76}$/;
const PARAMETERS_MAX = 100;
/** Of all fields of a name. The API takes fewer; those that are only shown may be more. */
const ADDRESSES_MAX = 1_000;
/**
 * Of a quoted local part, which has at most 64 octets, each perhaps behind a backslash, and blanks around it.
 */
const QUOTED_CHARS_MAX = 320;

export type HeaderField = { name: string; value: string };

/** Of an entity that begins at `from`: its fields, and where its body begins. */
export function fieldsOf(bytes: Buffer, from: number, to: number): { fields: HeaderField[]; bodyAt: number } {
  if (bytes[from] === 0x0d || from >= to) return { fields: [], bodyAt: Math.min(from + 2, to) };
  const blank = bytes.indexOf("\r\n\r\n", from, "latin1");
  const end = blank < 0 || blank >= to ? to : blank;
  if (end - from > HEADER_BYTES_MAX)
    throw new Malformed(`a header may have at most ${HEADER_BYTES_MAX} bytes`);
  const lines = textOfBytes(bytes.subarray(from, end), "").split("\r\n");
  const fields: HeaderField[] = [];
  let value: string[] = [];
  let name = "";
  const keep = () => {
    // a tab is white space like a blank (RFC 5322, 2.2.3), and a control character to the API
    if (name !== "") fields.push({ name, value: value.join("").replaceAll("\t", " ").trim() });
  };
  for (const line of lines) {
    if (line.startsWith(" ") || line.startsWith("\t")) {
      value.push(line);
      continue;
    }
    keep();
    const colon = line.indexOf(":");
    name = line.slice(0, Math.max(0, colon)).trimEnd();
    // the first line without a name is where a body begins whose empty line is missing: nobody may read it
    // otherwise
    if (line !== "" && !NAME.test(name)) throw new Malformed("a line of the header is no field");
    value = [line.slice(colon + 1)];
    if (fields.length >= FIELDS_MAX) throw new Malformed(`a header may have at most ${FIELDS_MAX} fields`);
  }
  keep();
  return { fields, bodyAt: blank < 0 || blank >= to ? to : blank + 4 };
}

export function valuesOf(fields: readonly HeaderField[], name: string): string[] {
  return fields.filter((field) => field.name.toLowerCase() === name).map(({ value }) => value);
}

export type StructuredValue = { value: string; parameters: ReadonlyMap<string, string> };

/**
 * `text/plain; charset="utf-8"`: the value in lower case, without a comment behind it, and its parameters, of
 * which the first of a name counts.
 */
export function structured(text: string): StructuredValue {
  const pieces = splitAt(text, ";").slice(0, PARAMETERS_MAX);
  const given = new Map<string, string>();
  for (const piece of pieces.slice(1)) {
    const equals = piece.indexOf("=");
    const name = piece.slice(0, Math.max(0, equals)).trim().toLowerCase();
    if (name !== "" && !given.has(name)) given.set(name, unquoted(piece.slice(equals + 1).trim()));
  }
  const parameters = new Map<string, string>();
  for (const [name, value] of given) {
    const star = name.indexOf("*");
    if (star < 0) parameters.set(name, decodeWords(value));
  }
  const bases = [...given.keys()].map((name) => name.slice(0, Math.max(0, name.indexOf("*"))));
  // what is said in the extended form is said more exactly
  for (const base of new Set(bases)) if (base !== "") parameters.set(base, extended(given, base));
  const [value = ""] = (pieces[0] ?? "").split("(", 1);
  return { value: value.trim().toLowerCase(), parameters };
}

/** RFC 2231: `name*=utf-8''a%20b`, or numbered sections of it. */
function extended(given: ReadonlyMap<string, string>, base: string): string {
  const whole = given.get(`${base}*`);
  if (whole !== undefined) return percentDecoded(whole, true).text();
  const bytes: Buffer[] = [];
  let charset = "";
  for (let n = 0; n < PARAMETERS_MAX; n++) {
    const encoded = given.get(`${base}*${n}*`);
    const plain = given.get(`${base}*${n}`);
    if (encoded !== undefined) {
      const section = percentDecoded(encoded, n === 0);
      if (n === 0) charset = section.charset;
      bytes.push(section.bytes);
    } else if (plain !== undefined) bytes.push(Buffer.from(plain));
    else break;
  }
  return textOfBytes(Buffer.concat(bytes), charset);
}

function percentDecoded(value: string, hasCharset: boolean) {
  const [, charset = "", rest = value] = (hasCharset && /^([^']*)'[^']*'(.*)$/s.exec(value)) || [];
  const latin1 = rest.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  const bytes = Buffer.from(latin1, "latin1");
  return { charset, bytes, text: () => textOfBytes(bytes, charset) };
}

function unquoted(text: string): string {
  return /^"(.*)"$/s.exec(text)?.[1]?.replace(/\\(.)/gs, "$1") ?? text.replace(/^"/, "");
}

/** Outside of quotes. */
function splitAt(text: string, separator: string): string[] {
  const pieces: string[] = [];
  let from = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "\\" && isQuoted) at++;
    else if (character === '"') isQuoted = !isQuoted;
    else if (character === separator && !isQuoted) {
      pieces.push(text.slice(from, at));
      from = at + 1;
    }
  }
  pieces.push(text.slice(from));
  return pieces;
}

/**
 * The addresses of the fields of a name, as the API takes them: `a@x.com` or `Name <a@x.com>`. Comments and
 * names of groups are left out. What is no address stays as it is, for the API to refuse.
 */
export function listed(fields: readonly HeaderField[], name: string): string[] {
  const all: string[] = [];
  for (const value of valuesOf(fields, name)) all.push(...addressesIn(value, ADDRESSES_MAX - all.length));
  return all;
}

export function addressesIn(text: string, most = ADDRESSES_MAX): string[] {
  if (most > 0 && !text.includes("=?") && !text.includes('"') && parseMailbox(text)) return [text.trim()];
  const found: string[] = [];
  let name = "";
  let address: string | null = null;
  let comments = 0;
  let isQuoted = false;
  const keep = () => {
    const spec = (address ?? name).trim();
    if (found.length >= most)
      throw new Malformed(`a header may name at most ${ADDRESSES_MAX} addresses in all fields of one name`);
    if (spec !== "" || address !== null) found.push(written(address === null ? "" : name, spec));
    name = "";
    address = null;
  };
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    if (character === "\\" && (isQuoted || comments > 0)) {
      at++;
      if (comments === 0) name += text[at] ?? "";
    } else if (character === '"' && comments === 0) {
      isQuoted = !isQuoted;
      // a quoted local part stays quoted; a name is quoted anew where it must be. What is longer is no
      // address, and to quote it again and again would take quadratic time
      const isLocal = !isQuoted && text[at + 1] === "@" && name.length <= QUOTED_CHARS_MAX;
      if (isLocal) name = `"${name.trim()}"`;
    } else if (isQuoted) name += character;
    else if (character === "(") comments++;
    else if (character === ")" && comments > 0) comments--;
    else if (comments > 0) continue;
    else if (character === "<") {
      const end = text.indexOf(">", at);
      address = text.slice(at + 1, end < 0 ? text.length : end);
      at = end < 0 ? text.length : end;
    } else if (character === ":") name = "";
    else if (character === "," || character === ";") keep();
    else name += character;
  }
  keep();
  return found;
}

function written(name: string, spec: string): string {
  const mailbox = parseMailbox(spec);
  if (!mailbox) return name.trim() === "" ? spec : `${name.trim()} <${spec}>`;
  const said = decodeWords(name)
    .replace(/[ \t]+/g, " ")
    .trim();
  return formatMailbox({ ...mailbox, name: said === "" ? null : said });
}
