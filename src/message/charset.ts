/**
 * Bytes as text: in the charset they claim, unless it is unknown; then in UTF-8 if they can be, else in
 * Windows-1252.
 */
import { isUtf8 } from "node:buffer";

const named = (name: string, others: string) => others.split(" ").map((other) => [other, name] as const);
const numbered = (stem: string, numbers: string) => numbers.split(" ").map((number) => stem + number);
/**
 * All but UTF-8 that the platform reads and mail uses. To ask it about an unknown one costs an exception, and
 * a hostile header holds thousands of names.
 */
const KNOWN = new Set([
  ...numbered("iso-8859-", "2 3 4 5 6 7 8 9 10 11 13 14 15"),
  ...numbered("windows-", "874 1250 1251 1253 1254 1255 1256 1257 1258 31j"),
  ...numbered("cp", "1250 1251 1253 1254 1255 1256 1257 1258 866"),
  ...["koi8-r", "koi8-u", "ibm866", "macintosh", "x-mac-cyrillic", "tis-620"],
  ...["gb2312", "gbk", "gb18030", "x-gbk", "big5", "big5-hkscs", "euc-kr", "ks_c_5601-1987"],
  ...["euc-jp", "iso-2022-jp", "shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji"],
  ...["utf-16", "utf-16le", "utf-16be"],
]);
/** Other names that mail has for some of these. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ...named("iso-8859-2", "latin2 iso8859-2 iso_8859-2"),
  ...named("iso-8859-8", "iso-8859-8-i iso-8859-8-e"),
  ...named("iso-8859-9", "latin5 iso8859-9 iso_8859-9"),
  ...named("iso-8859-15", "latin9 latin-9 iso8859-15 iso_8859-15"),
  ...named("windows-1251", "windows1251 cp-1251 win-1251"),
  ...named("koi8-r", "koi8 koi"),
  ...named("euc-kr", "windows-949 cp949 ms949 uhc ks_c_5601 ks_c_5601-1989 ksc5601 korean"),
  ...named("gbk", "cp936 windows-936 ms936 gb_2312-80 gb_2312 euc-cn chinese"),
  ...named("shift_jis", "cp932 windows-932 ms932"),
  ...named("euc-jp", "x-euc-jp eucjp"),
  ...named("big5", "cp950 windows-950 x-x-big5"),
]);
type Decoder = InstanceType<typeof TextDecoder>;
/** Mail that claims Latin-1 means this, as every browser takes it. */
const NAMES_OF_WINDOWS_1252 = new Set(["windows-1252", "cp1252", "iso-8859-1", "latin1"]);
/** Where Latin-1 has the controls from 128 to 159. */
export const WINDOWS_1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ";
const decoders = new Map<string, Decoder>();

export function textOfBytes(bytes: Buffer, charset: string): string {
  const given = charset.toLowerCase();
  const label = ALIASES.get(given) ?? given;
  if (KNOWN.has(label)) return decoderOf(label).decode(bytes);
  if (NAMES_OF_WINDOWS_1252.has(label) || !isUtf8(bytes)) return textOfWindows1252(bytes);
  return withoutMark(bytes.toString("utf8"));
}

/**
 * The decoder of Node 20 and others takes it for Latin-1 (nodejs/node#56542). A table, since a hostile
 * message is megabytes of such characters.
 */
function textOfWindows1252(bytes: Buffer): string {
  const latin = bytes.toString("latin1");
  if (!/[\u0080-\u009f]/.test(latin)) return latin;
  const units = Uint16Array.from(bytes);
  for (let at = 0; at < units.length; at++) units[at] = UNITS[units[at] as number] as number;
  return Buffer.from(units.buffer).toString("utf16le");
}

const UNITS = Uint16Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x80 && byte <= 0x9f ? WINDOWS_1252.charCodeAt(byte - 0x80) : byte,
);

function decoderOf(label: string): Decoder {
  const made = decoders.get(label) ?? new TextDecoder(label);
  decoders.set(label, made);
  return made;
}

/** A byte order mark is no text. */
function withoutMark(text: string): string {
  return text.startsWith("\ufeff") ? text.slice(1) : text;
}
