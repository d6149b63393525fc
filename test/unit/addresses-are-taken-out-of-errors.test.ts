import { expect, test } from "vitest";
import { withoutAddresses } from "../../src/address.ts";
import { costOf } from "../rig/held.ts";

test.each([
  ["a@example.net", "(address)"],
  ["to <a.b+c@example.net>: refused", "to <(address)>: refused"],
  ["a@b@c d@e", "(address)@c (address)"],
  ["@a", "@a"],
  ["a: @b", "a: @b"],
  ["no address", "no address"],
])("%s", (text, told) => {
  expect(withoutAddresses(text)).toBe(told);
});

test("an error of one long word is read once", () => {
  for (const piece of ["a", "\\", "a@", "@a", "a@a "])
    expect(costOf(() => withoutAddresses(piece.repeat(50_000)), 20)).toBeLessThan(50);
});
