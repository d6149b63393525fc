/** The waits between attempts. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { nextAttempt } from "../../src/outcome/retry.ts";

const DAY_MS = 86_400_000;

test("each attempt waits for its own step, and the last step repeats", () => {
  const waits = [1, 2, 3, 4, 50].map((attempts) => nextAttempt([60, 300, 900], attempts, 0, 1_000) - 1_000);
  expect(waits).toEqual([60_000, 300_000, 900_000, 900_000, 900_000]);
});

test("what was not tried yet waits as after the first attempt", () => {
  expect(nextAttempt([60, 300], 0, 0, 0)).toBe(60_000);
});

test("chance takes up to a fifth off the wait", () => {
  expect(nextAttempt([100], 1, 0.5, 0)).toBe(90_000);
});

test("a step is never longer than a day, never early beyond its jitter, and an empty schedule waits a day", () => {
  expect(nextAttempt([10 * 86_400], 1, 0, 0)).toBe(DAY_MS);
  expect(nextAttempt([], 1, 0, 0)).toBe(DAY_MS);
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 10 ** 6 })),
      fc.nat(100),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      fc.nat(2 ** 40),
      (schedule, attempts, random, now) => {
        const waitMs = nextAttempt(schedule, attempts, random, now) - now;
        const step = schedule[Math.min(Math.max(attempts, 1), schedule.length) - 1] ?? 86_400;
        expect(waitMs).toBeLessThanOrEqual(DAY_MS);
        expect(waitMs).toBeGreaterThanOrEqual(Math.min(step * 1_000, DAY_MS) * 0.8 - 1);
      },
    ),
  );
});
