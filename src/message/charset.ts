/**
 * Bytes as text: in the charset they claim, unless it is unknown; then in UTF-8 if they can be, else in
 * Windows-1252.
 */
import { isUtf8 } from "node:buffer";

const numbered = (stem: string, numbers: string) => numbers.split(" ").map((number) => stem + number);
/**
 * All but UTF-8 that the platform reads and mail uses. To ask it about an unknown one costs an exception, and
 * a hostile header holds thousands of names.
 */
const KNOWN = new Set([
  ...numbered("iso-8859-", "1 2 3 4 5 6 7 8 9 10 11 13 14 15"),
  ...numbered("windows-", "874 1250 1251 1252 1253 1254 1255 1256 1257 1258 31j"),
  ...numbered("cp", "1250 1251 1252 1253 1254 1255 1256 1257 1258 866"),
  ...["latin1", "koi8-r", "koi8-u", "ibm866", "macintosh", "x-mac-cyrillic", "tis-620"],
  ...["gb2312", "gbk", "gb18030", "x-gbk", "big5", "big5-hkscs", "euc-kr", "ks_c_5601-1987"],
  ...["euc-jp", "iso-2022-jp", "shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji"],
  ...["utf-16", "utf-16le", "utf-16be"],
]);
type Decoder = InstanceType<typeof TextDecoder>;
const FALLBACK = "windows-1252";
const decoders = new Map<string, Decoder>();

export function textOfBytes(bytes: Buffer, charset: string): string {
  const label = charset.toLowerCase();
  if (KNOWN.has(label)) return decoderOf(label).decode(bytes);
  return isUtf8(bytes) ? withoutMark(bytes.toString("utf8")) : decoderOf(FALLBACK).decode(bytes);
}

function decoderOf(label: string): Decoder {
  const made = decoders.get(label) ?? new TextDecoder(label);
  decoders.set(label, made);
  return made;
}

/** A byte order mark is no text. */
function withoutMark(text: string): string {
  return text.startsWith("\ufeff") ? text.slice(1) : text;
}
