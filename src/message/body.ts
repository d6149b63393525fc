/**
 * Text as the body of a MIME part (RFC 2045), in ASCII whatever the text holds.
 *
 * Promises: a carriage return, a line feed and both together are each one line break and leave as CRLF; all
 * else is decoded as it was given (a lone surrogate as U+FFFD). No line has over 998 octets, none of an
 * encoded body over 76. 7bit where the text allows, else whichever of quoted-printable and base64 is shorter.
 */
import { concatInTurns, turn } from "../turn.ts";

const LINE_OCTETS_MAX = 998;
const ENCODED_LINE_OCTETS = 76;

/** A few ms of work. */
const SLICE_CHARS = 128 * 1024;
/** Whole lines of base64; about 3 ms of work. */
const STEP_OCTETS = 16_384 * 57;
const CRLF = Buffer.from("\r\n");

export type Encoded = {
  encoding: "7bit" | "quoted-printable" | "base64";
  content: string;
};

const SEVEN_BIT = /^[\t\r\n\x20-\x7e]*$/;

/** A part of text: its fields with their line ends, and its body. */
export function textPart(type: string, text: string): { fields: string; body: string } {
  const { encoding, content } = encodeBody(text);
  return { fields: textFields(type, encoding), body: content };
}

function textFields(type: string, encoding: Encoded["encoding"]): string {
  return `Content-Type: ${type}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n`;
}

function encodeBody(text: string): Encoded {
  const lines = withCrlf(text);
  if (SEVEN_BIT.test(lines) && linesFit(lines)) return { encoding: "7bit", content: lines };
  const octets = Buffer.from(lines);
  const escapes = escapesIn(octets);
  return quotedIsShorter(escapes, octets)
    ? { encoding: "quoted-printable", content: quotedPrintable(octets, escapes).content }
    : { encoding: "base64", content: base64Lines(octets) };
}

/** Three octets for each escape in the one, four for each three in the other. */
function quotedIsShorter(escapes: number, octets: Buffer): boolean {
  return escapes * 6 < octets.length;
}

/** As `textPart`, for a text of any length: others have their turn between two slices. */
export async function textPartInTurns(
  type: string,
  text: string,
): Promise<{ fields: string; body: Buffer[] }> {
  const slices: Buffer[] = [];
  let [escapes, line, isSevenBit] = [0, "", true];
  for (let at = 0; at < text.length; ) {
    const end = sliceEnd(text, at);
    const lines = withCrlf(text.slice(at, end));
    const octets = Buffer.from(lines);
    slices.push(octets);
    escapes += escapesIn(octets);
    isSevenBit &&= SEVEN_BIT.test(lines) && linesFit(line + lines);
    line = isSevenBit ? (line + lines).slice((line + lines).lastIndexOf("\n") + 1) : "";
    at = end;
    await turn();
  }
  if (isSevenBit) return { fields: textFields(type, "7bit"), body: slices };
  const octets = await concatInTurns(slices);
  if (quotedIsShorter(escapes, octets))
    return { fields: textFields(type, "quoted-printable"), body: await quotedInTurns(octets) };
  return { fields: textFields(type, "base64"), body: await base64InTurns(octets) };
}

/** Neither a line break nor a character of two units is torn. */
function sliceEnd(text: string, at: number): number {
  const end = at + SLICE_CHARS;
  return /^(?:\r\n|[\ud800-\udbff][\udc00-\udfff])/.test(text.slice(end - 1, end + 1)) ? end + 1 : end;
}

async function quotedInTurns(octets: Buffer): Promise<Buffer[]> {
  const pieces: Buffer[] = [];
  let column = 0;
  for (let at = 0; at < octets.length; at += SLICE_CHARS) {
    if (at > 0) await turn();
    const end = Math.min(at + SLICE_CHARS, octets.length);
    const slice = quotedPrintable(octets, end - at, at, end, column);
    pieces.push(Buffer.from(slice.content, "latin1"));
    column = slice.column;
  }
  return pieces;
}

/** Without a line end after the last line. */
export async function base64InTurns(octets: Buffer): Promise<Buffer[]> {
  const pieces: Buffer[] = [];
  for (let at = 0; at < octets.length; at += STEP_OCTETS) {
    if (at > 0) await turn();
    if (at > 0) pieces.push(CRLF);
    pieces.push(Buffer.from(base64Lines(octets.subarray(at, at + STEP_OCTETS)), "latin1"));
  }
  return pieces;
}

function escapesIn(octets: Buffer): number {
  let escapes = 0;
  for (let at = 0; at < octets.length; at++) escapes += ESCAPED[octets[at] as number] as number;
  return escapes;
}

function withCrlf(text: string): string {
  if (text.includes("\r")) return text.replace(/\r\n?|\n/g, "\r\n");
  return text.includes("\n") ? text.replaceAll("\n", "\r\n") : text;
}

function linesFit(text: string): boolean {
  if (text.length <= LINE_OCTETS_MAX) return true;
  for (let start = 0, end = 0; end >= 0; start = end + 2) {
    end = text.indexOf("\r\n", start);
    if ((end < 0 ? text.length : end) - start > LINE_OCTETS_MAX) return false;
  }
  return true;
}

/** Without a line end after the last line. */
function base64Lines(octets: Buffer): string {
  const text = octets.toString("base64");
  let lines = text.slice(0, ENCODED_LINE_OCTETS);
  for (let at = ENCODED_LINE_OCTETS; at < text.length; at += ENCODED_LINE_OCTETS) {
    lines += `\r\n${text.slice(at, at + ENCODED_LINE_OCTETS)}`;
  }
  return lines;
}

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const EQUALS = 0x3d;
const HEX = Buffer.from("0123456789ABCDEF");

/** 1 for each octet that quoted-printable does not write as it is. */
const ESCAPED = Uint8Array.from({ length: 256 }, (_, octet) => {
  if (octet < SPACE) return octet === TAB || octet === LF || octet === CR ? 0 : 1;
  return octet < 0x7f && octet !== EQUALS ? 0 : 1;
});

function quotedPrintable(
  octets: Buffer,
  escapes: number,
  from = 0,
  end = octets.length,
  column = 0,
): { content: string; column: number } {
  const length = end - from + 2 * escapes;
  const out = Buffer.allocUnsafe(2 * length + 8); // also when each line ends in white space, and for soft breaks
  let to = 0;
  for (let at = from; at < end; at++) {
    const octet = octets[at] as number;
    if (octet === CR || octet === LF) {
      out[to++] = octet;
      column = 0;
      continue;
    }
    const next = octets[at + 1] ?? CR;
    const atLineEnd = next === CR && (octet === SPACE || octet === TAB);
    const width = atLineEnd || ESCAPED[octet] === 1 ? 3 : 1;
    if (column + width >= ENCODED_LINE_OCTETS) {
      out[to++] = EQUALS;
      out[to++] = CR;
      out[to++] = LF;
      column = 0;
    }
    if (width === 1) {
      out[to++] = octet;
    } else {
      out[to++] = EQUALS;
      out[to++] = HEX[octet >> 4] as number;
      out[to++] = HEX[octet & 15] as number;
    }
    column += width;
  }
  return { content: out.toString("latin1", 0, to), column };
}
