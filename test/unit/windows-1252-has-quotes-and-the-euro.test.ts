/**
 * Most mail that is not in UTF-8 is in Windows-1252, which has quotes, dashes and the euro where Latin-1 has
 * controls. The decoder of some versions of Node reads it as Latin-1 (nodejs/node#56542).
 */
import { describe, expect, test } from "vitest";
import { textOfBytes } from "../../src/message/charset.ts";
import { decodeWords } from "../../src/message/encodedwords.ts";
import { readMail } from "../../src/submission/mail.ts";

const BYTES = Buffer.from(Array.from({ length: 128 }, (_, n) => n + 128));
/** In its order; five bytes mean nothing, and stay what they are. */
const HIGH = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ";

describe("under each of its names, and where a charset is unknown", () => {
  test.each(["windows-1252", "Windows-1252", "cp1252", "iso-8859-1", "latin1", "us-ascii", "x-nonsense", ""])(
    "%s",
    (charset) => {
      const text = textOfBytes(BYTES, charset);
      expect(text.slice(0, 32)).toBe(HIGH);
      expect(text.slice(32)).toBe(BYTES.toString("latin1", 32));
    },
  );
});

test("in encoded words, and in a submitted mail", () => {
  expect(decodeWords("=?Windows-1252?Q?=93Order=94_=96_5_=80?=")).toBe("“Order” – 5 €");
  const mail = Buffer.from(
    "From: a@example.com\r\nTo: one@example.net\r\nSubject: \x93Order\x94\r\n" +
      "Content-Type: text/html; charset=windows-1252\r\n\r\n<p>5 \x80</p>",
    "latin1",
  );
  expect(readMail(mail, ["one@example.net"]).body).toMatchObject({ subject: "“Order”", html: "<p>5 €</p>" });
});
