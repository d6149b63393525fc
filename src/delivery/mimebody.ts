/**
 * Text as the body of a MIME part (RFC 2045), in ASCII whatever the text holds.
 *
 * Promises: a carriage return, a line feed and both together are each one line break and leave as CRLF; all else is decoded
 * as it was given (a lone surrogate as U+FFFD). No line has over 998 octets, none of an encoded body over 76. 7bit where the
 * text allows, else whichever of quoted-printable and base64 is shorter.
 */
const LINE_OCTETS_MAX = 998;
const ENCODED_LINE_OCTETS = 76;

export type Encoded = {
  encoding: "7bit" | "quoted-printable" | "base64";
  content: string;
};

const SEVEN_BIT = /^[\t\r\n\x20-\x7e]*$/;

/** A part of text: its fields with their line ends, and its body. */
export function textPart(type: string, text: string): { fields: string; body: string } {
  const { encoding, content } = encodeBody(text);
  return {
    fields: `Content-Type: ${type}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n`,
    body: content,
  };
}

export function encodeBody(text: string): Encoded {
  const lines = withCrlf(text);
  if (SEVEN_BIT.test(lines) && linesFit(lines)) return { encoding: "7bit", content: lines };
  const octets = Buffer.from(lines);
  let escapes = 0;
  for (let at = 0; at < octets.length; at++) escapes += ESCAPED[octets[at] as number] as number;
  // Three octets for each escape in the one, four for each three in the other.
  return escapes * 6 < octets.length
    ? { encoding: "quoted-printable", content: quotedPrintable(octets, escapes) }
    : { encoding: "base64", content: base64Lines(octets) };
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
export function base64Lines(octets: Buffer): string {
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

function quotedPrintable(octets: Buffer, escapes: number): string {
  const length = octets.length + 2 * escapes;
  const out = Buffer.allocUnsafe(2 * length + 8); // also when each line ends in white space, and for soft breaks
  let to = 0;
  let column = 0;
  for (let at = 0; at < octets.length; at++) {
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
  return out.toString("latin1", 0, to);
}
