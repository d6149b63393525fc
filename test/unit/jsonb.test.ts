import fc from "fast-check";
import { expect, test } from "vitest";
import { isJsonbOver } from "../../src/rules/jsonb.ts";
import { costOf } from "../rig/held.ts";

test("counts what compact JSON has, to the byte", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      // numbers with an exponent are longer in a jsonb than in JSON
      const json = JSON.stringify(value);
      fc.pre(!/\de[+-]?\d/.test(json.replace(/"(?:[^"\\]|\\.)*"/g, "")));
      const bytes = Buffer.byteLength(json);
      expect(isJsonbOver(value, bytes)).toBe(false);
      expect(isJsonbOver(value, bytes - 1)).toBe(true);
    }),
  );
});

test.each([
  ["a number with 309 digits", { a: 1e308 }, 300, true],
  ["the same with room for them", { a: 1e308 }, 400, false],
  ["a small one", { a: 1.5e-7 }, 10, true],
  ["what no number can hold", { a: Number.POSITIVE_INFINITY }, 1_000_000, true],
  ["a field without a value", { a: undefined }, 2, false],
])("%s", (_, value, most, isOver) => {
  expect(isJsonbOver(value, most)).toBe(isOver);
});

test("what is far too long takes no longer", () => {
  const long = { a: '"'.repeat(20_000_000), b: Array(1_000_000).fill({ c: 1 }) };
  expect(isJsonbOver(long, 16_384)).toBe(true);
  const often = () => {
    for (let n = 0; n < 100; n++) isJsonbOver(long, 16_384);
  };
  expect(costOf(often, 20)).toBeLessThan(20);
});
