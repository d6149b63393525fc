/** The console's own QR codes, of every size, are read by a library that others wrote. */
import { expect, test } from "vitest";
import { qrCode } from "../../console/parts/qrcode.ts";
import { newTotpSecret, totpUri } from "../../src/console/totp.ts";
import { type ReadCode, readQrCode } from "../rig/qrreader.ts";

const SCALE = 3;
const QUIET = 4;
/** More bytes than version 20 holds. */
const TOO_LONG = 859;

/** As a camera would see it: light and dark pixels, with the quiet zone around the code. */
function readByOthers(rows: readonly boolean[][]): ReadCode | null {
  const width = (rows.length + 2 * QUIET) * SCALE;
  const pixels = new Uint8ClampedArray(width * width * 4).fill(255);
  for (let y = 0; y < width; y++)
    for (let x = 0; x < width; x++)
      if (rows[Math.floor(y / SCALE) - QUIET]?.[Math.floor(x / SCALE) - QUIET])
        pixels.fill(0, (y * width + x) * 4, (y * width + x) * 4 + 3);
  return readQrCode(pixels, width);
}

test("texts of every length that fits", () => {
  const versions = new Set<number>();
  for (let length = 1; length < TOO_LONG; length += 7) {
    const text = Array.from({ length }, (_, n) => String.fromCharCode(33 + ((n * 31 + length) % 94))).join(
      "",
    );
    const read = readByOthers(qrCode(text));
    expect(read?.text, `${length} characters`).toBe(text);
    versions.add(read?.version ?? 0);
  }
  expect([...versions]).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
});

test("what an authenticator is given, with letters of any script", () => {
  for (const email of [
    "ada@example.com",
    "zoë.müller@例え.jp",
    `${"a".repeat(64)}@${"b".repeat(180)}.example`,
  ]) {
    const uri = totpUri(newTotpSecret(), email);
    expect(readByOthers(qrCode(uri))?.text).toBe(uri);
  }
});

test("a text that is too long is refused", () => {
  expect(qrCode("x".repeat(TOO_LONG - 1)).length).toBe(97);
  expect(() => qrCode("x".repeat(TOO_LONG))).toThrow("too long");
});
