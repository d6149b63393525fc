/** Encoded words (RFC 2047) as anybody may have written them: linear time, nothing throws. */
import { bytesOfBase64 } from "./base64.ts";
import { textOfBytes } from "./charset.ts";

/** More than any field that the API takes. */
const WORDS_CHARS_MAX = 32 * 1024;
const WORD = /=\?([^?\s*]{1,40})(?:\*[^?\s]{0,40})?\?([bq])\?([^?]*)\?=/gi;

/** Encoded words decoded. What is split between two words of one charset is put together first. */
export function decodeWords(text: string): string {
  if (!text.includes("=?") || text.length > WORDS_CHARS_MAX) return text;
  let decoded = "";
  let at = 0;
  let open: { charset: string; bytes: Buffer[] } | null = null;
  const close = () => {
    if (open) decoded += textOfBytes(Buffer.concat(open.bytes), open.charset);
    open = null;
  };
  for (const { 0: word, 1: charset = "", 2: encoding = "", 3: content = "", index } of text.matchAll(WORD)) {
    const between = text.slice(at, index);
    const continues: { charset: string; bytes: Buffer[] } | null = open;
    if (continues === null || between.trim() !== "") {
      close();
      decoded += between;
    } else if (continues.charset !== charset.toLowerCase()) close();
    open ??= { charset: charset.toLowerCase(), bytes: [] };
    open.bytes.push(
      encoding.toLowerCase() === "b" ? bytesOfBase64(Buffer.from(content, "latin1")) : bytesOfQ(content),
    );
    at = index + word.length;
  }
  close();
  return decoded + text.slice(at);
}

function bytesOfQ(content: string): Buffer {
  const plain = content
    .replaceAll("_", " ")
    .replace(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(plain, "latin1");
}
