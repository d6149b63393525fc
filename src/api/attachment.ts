/** The contents of an attachment as callers write them: base64, or the bytes as older clients send them. */
import { createHash } from "node:crypto";

const BYTE_ARRAY_MAX = 5 * 1024 * 1024;

export type GivenContent = string | { type: "Buffer"; data: number[] } | number[];
export type Decoded =
  | { kind: "content"; bytes: Buffer; hash: string }
  | { kind: "not base64" }
  | { kind: "too large" };

const [LETTER, PADDING, BLANK] = [1, 2, 3];
const KIND_OF = new Uint8Array(128);
for (const letter of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
  KIND_OF[letter.charCodeAt(0)] = LETTER;
for (const blank of "\r\n\t ") KIND_OF[blank.charCodeAt(0)] = BLANK;
KIND_OF["=".charCodeAt(0)] = PADDING;

export function decode(content: GivenContent): Decoded {
  if (typeof content !== "string") {
    const bytes = Array.isArray(content) ? content : content.data;
    return bytes.length > BYTE_ARRAY_MAX ? { kind: "too large" } : known(Buffer.from(bytes));
  }
  return isBase64(content) ? known(Buffer.from(content, "base64")) : { kind: "not base64" };
}

/** Of either alphabet, with blanks and line ends anywhere. Copies nothing: a text may be 38 MB. */
function isBase64(text: string): boolean {
  let letters = 0;
  let padding = 0;
  for (let i = 0; i < text.length; i++) {
    const kind = KIND_OF[text.charCodeAt(i)];
    if (kind === LETTER && padding === 0) letters++;
    else if (kind === PADDING) padding++;
    else if (kind !== BLANK) return false;
  }
  return padding <= 2 && letters % 4 !== 1;
}

function known(bytes: Buffer): Decoded {
  return { kind: "content", bytes, hash: createHash("sha256").update(bytes).digest("hex") };
}

/** Contents that the JSON thread has decoded, by their attachment. */
const decodedAside = new WeakMap<object, Decoded>();

export function noteDecoded(attachment: object, decoded: Decoded): void {
  decodedAside.set(attachment, decoded);
}

export function decodedOf(attachment: { content: GivenContent }): Decoded {
  return decodedAside.get(attachment) ?? decode(attachment.content);
}
