/** The console's words for a time seen from now. */
import { expect, test } from "vitest";
import { ago } from "../../console/words.ts";

const NOW = Date.parse("2026-03-29T12:00:00Z");
const [MINUTE, HOUR, DAY] = [60, 3_600, 86_400];

test.each([
  [0, "now"],
  [4, "now"],
  [-4, "now"],
  [-59, "59s ago"],
  [59, "in 59s"],
  [-119, "1m ago"],
  [-(HOUR - 1), "59m ago"],
  [-(DAY - 1), "23h ago"],
  // what has just begun
  [5 * DAY - 2, "in 5d"],
  [DAY - 2, "in 1d"],
  [HOUR - 2, "in 1h"],
  [2 * MINUTE - 2, "in 2m"],
])("%i s from now: %s", (seconds, words) => {
  expect(ago(NOW + seconds * 1000, NOW)).toBe(words);
});

test("36 hours are no day of the calendar: neither yesterday nor tomorrow", () => {
  expect(ago(NOW - 1.9 * DAY * 1000, NOW)).toBe("1d ago");
  expect(ago(NOW + 1.4 * DAY * 1000, NOW)).toBe("in 1d");
});

test("times at the ends of the calendar", () => {
  expect(ago("9999-12-31T23:59:59Z", NOW)).toMatch(/^in [\d,]+d$/);
  expect(ago("0001-01-01T00:00:00Z", NOW)).toMatch(/^[\d,]+d ago$/);
});

test("what is no time is shown as it is", () => {
  expect(ago("soon", NOW)).toBe("soon");
});
