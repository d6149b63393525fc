/** When an event is tried again, and how long an endpoint is left in peace. */
import { expect, test } from "vitest";
import { FAILURES_MAX, pauseAfter, retryAfterMs, TRIES_MAX, waitAfter } from "../../src/rules/webhook.ts";

const HOUR_MS = 3_600_000;
const waits = (random: number) =>
  Array.from({ length: TRIES_MAX - 1 }, (_, n) => waitAfter(n + 1, null, random) as number);
const sum = (all: number[]) => all.reduce((total, one) => total + one, 0);

test("ten tries span more than three days and less than four, whatever the jitter", () => {
  expect(TRIES_MAX).toBe(10);
  expect(sum(waits(0))).toBeGreaterThan(72 * HOUR_MS);
  expect(sum(waits(1))).toBeLessThan(96 * HOUR_MS);
  expect(waits(0).slice(0, 2)).toEqual([5_000, 300_000]);
  expect(waits(0.5)).not.toEqual(waits(0));
});

test("after the tenth there is none", () => {
  expect(waitAfter(TRIES_MAX, null, 0)).toBeNull();
  expect(waitAfter(TRIES_MAX, HOUR_MS, 0)).toBeNull();
});

test("Retry-After lengthens a wait, by a day at most, and shortens none", () => {
  expect(waitAfter(1, 60_000, 0)).toBe(60_000);
  expect(waitAfter(4, 60_000, 0)).toBe(2 * HOUR_MS);
  expect(waitAfter(1, 1_000 * HOUR_MS, 0)).toBe(24 * HOUR_MS);
});

test.each([
  ["120", 120_000],
  [" 0 ", 0],
  ["Wed, 18 Nov 2026 12:00:10 GMT", 10_000],
  ["Wed, 18 Nov 2026 11:00:00 GMT", 0],
  ["1e9", null],
  ["-5", null],
  ["2026-11-18T12:00:10Z", null],
  ["soon", null],
  ["", null],
])("Retry-After: %s", (text, ms) => {
  expect(retryAfterMs(text, Date.UTC(2026, 10, 18, 12))).toBe(ms);
});

test("an endpoint that fails again and again is left in peace for longer and longer, up to minutes", () => {
  expect(pauseAfter(FAILURES_MAX - 1, null, 0)).toBeNull();
  const pauses = [0, 1, 2, 3, 50].map((n) => pauseAfter(FAILURES_MAX + n, null, 0));
  expect(pauses).toEqual([5_000, 10_000, 20_000, 40_000, 300_000]);
});

test("an endpoint that asks for peace has it at once, for an hour at most", () => {
  expect(pauseAfter(1, 7_000, 0)).toBe(7_000);
  expect(pauseAfter(1, 100 * HOUR_MS, 0)).toBe(HOUR_MS);
});
