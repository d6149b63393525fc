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
  ['<"kim lee"@example.net> is full', "<(address)> is full"],
  ["kim@[192.0.2.1] and kim@[IPv6:2001:db8::1]: full", "(address) and (address): full"],
  ["see https://example.org/why?to=kim%40example.net&code=1", "see https://example.org/(address)"],
  ['"quoted" words', '"quoted" words'],
  ["100%40", "100%40"],
])("%s", (text, told) => {
  expect(withoutAddresses(text)).toBe(told);
});

test("an error of one long word is read once", () => {
  for (const piece of ["a", "\\", "a@", "@a", "a@a ", '"', '"a', '"a"', "%40", "a%40", '"a"@[', "a@["])
    expect(costOf(() => withoutAddresses(piece.repeat(50_000)), 20)).toBeLessThan(50);
});
