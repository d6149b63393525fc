/**
 * A time zone may be spelt in many ways, in small letters and capitals, and what a zone needs to be reckoned
 * with takes 32 KB. A document that is refused names as many as one that is kept.
 */
import { expect, test } from "vitest";
import { isTimeZone, momentAfter } from "../../src/rules/spans.ts";

const LETTERS = "copenhagen";
const SPELLINGS = 16 * 2 ** LETTERS.length;
/** All of them would take 500 MB. */
const GROWN_BYTES_MAX = 50 * 1024 * 1024;

function spelling(n: number): string {
  const capitals = (text: string, bits: number) =>
    [...text].map((char, at) => ((bits >> at) & 1 ? char.toUpperCase() : char)).join("");
  return `${capitals("europe", n >> LETTERS.length)}/${capitals(LETTERS, n)}`;
}

test("each spelling is the same zone", () => {
  const before = process.memoryUsage.rss();
  const spellings = new Set(Array.from({ length: SPELLINGS }, (_, n) => spelling(n)));
  expect(spellings.size).toBe(SPELLINGS);
  for (const name of spellings) expect(isTimeZone(name)).toBe(true);
  expect(process.memoryUsage.rss() - before).toBeLessThan(GROWN_BYTES_MAX);
});

test("every zone is reckoned with after all of them were", () => {
  const now = Date.parse("2026-07-01T00:00:00Z");
  const nine = () => new Date(momentAfter("09:00", "europe/COPENHAGEN", now)).toISOString();
  expect(nine()).toBe("2026-07-01T07:00:00.000Z");
  for (const name of Intl.supportedValuesOf("timeZone")) expect(isTimeZone(name)).toBe(true);
  expect(nine()).toBe("2026-07-01T07:00:00.000Z");
});
