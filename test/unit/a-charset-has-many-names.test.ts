import { expect, test } from "vitest";
import { textOfBytes } from "../../src/message/charset.ts";

test.each([
  ["iso-8859-8-i", "f9ec", "של"],
  ["ISO-8859-8-E", "f9ec", "של"],
  ["windows-949", "b0a1", "가"],
  ["cp949", "b0a1", "가"],
  ["cp936", "c4e3", "你"],
  ["GB_2312-80", "c4e3", "你"],
  ["cp932", "82a0", "あ"],
  ["x-euc-jp", "a4a2", "あ"],
  ["cp950", "a7da", "我"],
  ["koi8", "c1", "а"],
  ["windows1251", "e0", "а"],
  ["latin2", "b1", "ą"],
  ["iso_8859-2", "b1", "ą"],
  ["latin5", "f0", "ğ"],
  ["latin9", "a4", "€"],
])("%s is read as what mail means by it", (charset, hex, text) => {
  expect(textOfBytes(Buffer.from(hex, "hex"), charset)).toBe(text);
});
