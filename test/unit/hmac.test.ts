import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ShortHmac } from "../../src/hmac.ts";

test("the MAC of short texts is that of OpenSSL", () => {
  const bytes = (maxLength: number) => fc.uint8Array({ maxLength });
  fc.assert(
    fc.property(bytes(64), bytes(55), fc.integer({ min: 0, max: 40 }), (key, text, room) => {
      const signed = new Uint8Array(text.length + room);
      signed.set(text);
      new ShortHmac(key).sign(signed, text.length);
      const wanted = createHmac("sha256", key).update(text).digest().subarray(0, room);
      expect(Buffer.from(signed.subarray(0, text.length))).toEqual(Buffer.from(text));
      expect(signed.subarray(text.length, text.length + wanted.length)).toEqual(new Uint8Array(wanted));
    }),
    { numRuns: 1_000 },
  );
});

test("what is too long is refused", () => {
  expect(() => new ShortHmac(new Uint8Array(65))).toThrow("a key of 65 bytes is too long");
  expect(() => new ShortHmac(new Uint8Array(64)).sign(new Uint8Array(90), 56)).toThrow("56 bytes");
});
