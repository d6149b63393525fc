/** Base64 as mailers write it: of several pieces nothing is lost, and what is no letter is passed over. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { bytesOfBase64 } from "../../src/message/base64.ts";

const decoded = (text: string) => bytesOfBase64(Buffer.from(text, "latin1"));

test.each([
  ["", ""],
  ["SGVsbG8=", "Hello"],
  ["SGVsbG8", "Hello"],
  ["SGVsbG8=\r\nSGVsbG8=\r\n", "HelloHello"],
  ["SGVsbG8=SGVsbG8=SGVsbG8", "HelloHelloHello"],
  ["SA==ZQ==bA==bA==bw==", "Hello"],
  ["SA==\r\n\r\nZWxsbw==", "Hello"],
  // one padding where two should be, and three
  ["SA=ZWxsbw==", "Hello"],
  ["SA===ZWxsbw==", "Hello"],
  // padding on a line of its own
  ["SA=\r\n=\r\nZWxsbw==", "Hello"],
  ["=SGVs=bG8=", "Hello"],
  // letters of base64url
  ["-_-_", "\u00fb\u00ff\u00bf"],
  // what somebody has added
  ["SGVsbG8=\r\n____\r\nlist footer\r\n", "Hello"],
  ["SGVsbG8=\r\n\r\nlist footer\r\n", "Hello"],
  ["SGVsbG8=\r\nSGVsbG8=\r\n--\u00a0\r\n", "HelloHello"],
  ["SGVsbG8=S", "Hello"],
  ["S*GV\u00ffsb.G8=\u00ff", "Hello"],
  ["S=-=", ""],
])("%j", (text, expected) => expect(decoded(text).toString("latin1")).toBe(expected));

const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 70 }), { maxLength: 8 });
const ofLine = fc.constantFrom("", "", "\r\n", "\n", " \r\n");

test("however a file is cut into pieces and lines, all of it is there", () => {
  fc.assert(
    fc.property(pieces, fc.array(ofLine, { minLength: 1, maxLength: 40 }), (given, strays) => {
      const text = given.map((bytes) => Buffer.from(bytes).toString("base64")).join("");
      const written = [...text].map((letter, n) => letter + strays[n % strays.length]).join("");
      expect(decoded(written)).toEqual(Buffer.concat(given));
    }),
  );
});

test("of one piece the same is read as by the decoder of Node", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), (text) => {
      const letters = text.replace(/[=_-]/g, "");
      expect(decoded(letters)).toEqual(Buffer.from(letters, "base64"));
    }),
  );
});
