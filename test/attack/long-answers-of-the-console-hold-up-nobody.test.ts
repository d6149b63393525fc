/**
 * What a member of any workspace can make the console show: mails and versions of templates as long as they
 * may be, of characters that are written longer, and tags that must not connect.
 */
import { expect, test } from "vitest";
import { framed } from "../../src/console/frames.ts";
import { writtenInTurns } from "../../src/console/written.ts";
import { heldBy } from "../rig/held.ts";

const HELD_MS_MAX = 50;
const MAIL_CHARS = 2 * 1024 * 1024;
const filled = (piece: string, chars: number) => piece.repeat(Math.floor(chars / piece.length));

test.each(["<link ", "<object>", "<iframe 中", "<embed/<link\n\ud83d\ude00"])(
  "a mail full of %j in a frame",
  async (tag) => {
    const html = filled(tag, MAIL_CHARS);
    const show = async () => (await framed(html, new URLSearchParams())).body as Buffer;
    const shown = (await show()).toString();
    expect(shown).not.toMatch(/<(?:link|iframe|object|embed)/);
    expect(shown.replaceAll("<no-", "<")).toBe(html);
    expect(await heldBy(show, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
  },
);

test.each(["a", '"', "é", "\u0001", "\ud83d\ude00"])(
  "twenty versions of a template full of %j",
  async (piece) => {
    const text = filled(piece, 500_000);
    const data = Array.from({ length: 20 }, (_, version) => ({ version, html: text, text }));
    const write = () => writtenInTurns({ object: "list", data });
    expect(JSON.parse((await write()).toString())).toEqual({ object: "list", data });
    expect(await heldBy(write, HELD_MS_MAX)).toBeLessThan(HELD_MS_MAX);
  },
  60_000,
);

test.each([
  [{ a: [1, null, undefined, "é", { b: undefined, c: new Date(0) }], d: {}, e: [], '"': true, f: -0.5e300 }],
  [["\ud800", "\u2028", ["x"]]],
  [null],
  [{ __proto__: null, constructor: 1, toString: [2] }],
])("%j is written as ever", async (value) => {
  expect((await writtenInTurns(value)).toString()).toBe(JSON.stringify(value));
});
