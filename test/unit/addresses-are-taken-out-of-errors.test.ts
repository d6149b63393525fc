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
  ["o'brien@example.net and 'kim@example.net'", "(address) and '(address)'"],
  ['"kim \\"k\\" lee"@example.net is full', "(address) is full"],
  ["kim(home)@example.net, kim@(work)example.net", "(address), (address)"],
  ["kim=40example.net, kim+40example.net, kim%2540example.net", "(address), (address), (address)"],
  ["kim&#64;example.net, kim&#x40;example.net", "(address), (address)"],
  ["用户＠例子.测试 kim﹫example.net", "(address) (address)"],
  ["max=400, rate=40.5/s, 1+40 it's", "max=400, rate=40.5/s, 1+40 it's"],
])("%s", (text, told) => {
  expect(withoutAddresses(text)).toBe(told);
});

test("an error of one long word is read once", () => {
  const ends = ["a", "\\", "a@", "@a", "a@a ", '"', '"a', '"a"', "%40", "a%40", '"a"@[', "a@["];
  const more = ["a'", "'", "a(", "a()", "a@(", '"\\', "a=40", "=40a.", "a.", "+40a", "&#64;", "%25", "a&#"];
  for (const piece of [...ends, ...more])
    expect(costOf(() => withoutAddresses(piece.repeat(50_000)), 20)).toBeLessThan(50);
});
