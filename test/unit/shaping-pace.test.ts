import fc from "fast-check";
import { expect, test } from "vitest";
import { type DueTimes, spacingOf, takeTurns } from "../../src/shaping/pacing.ts";

test("no span of a limit's length holds more than the limit, however messages are asked for", () => {
  fc.assert(
    fc.property(
      fc.record({
        most: fc.integer({ min: 1, max: 500 }),
        ms: fc.constantFrom(1_000, 60_000, 3_600_000, 86_400_000),
        asks: fc.array(
          fc.record({
            wanted: fc.integer({ min: 1, max: 400 }),
            gap: fc.double({ min: 0, max: 1, noNaN: true }),
          }),
          {
            minLength: 1,
            maxLength: 200,
          },
        ),
      }),
      ({ most, ms, asks }) => {
        const spacing = spacingOf({ most, ms });
        const due: DueTimes = new Map();
        const sent: { at: number; count: number }[] = [];
        let now = 1_000_000;
        for (const { wanted, gap } of asks) {
          const { granted, waitMs } = takeTurns(due, [spacing], wanted, now);
          sent.push({ at: now, count: granted });
          now += gap < 0.5 ? waitMs : (gap - 0.5) * ms;
        }
        for (const { at: begin } of sent) {
          const within = sent.filter(({ at }) => at >= begin && at < begin + ms - 0.001);
          expect(within.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(most);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test("when a rate is raised, nobody waits for the turn that the slower one gave", () => {
  const due: DueTimes = new Map();
  const limit = { most: 10, ms: 3_600_000 };
  expect(takeTurns(due, [spacingOf(limit, 0.01)], 1, 0).waitMs).toBeGreaterThan((30 * limit.ms) / 4);
  const usual = spacingOf(limit);
  const { granted, waitMs } = takeTurns(due, [usual], 1, 1_000);
  expect([granted, waitMs]).toEqual([0, usual.everyMs]);
});

test("who asks all the time gets nearly all of the limit", () => {
  for (const [most, ms] of [
    [1, 1_000],
    [50, 60_000],
    [1_000, 3_600_000],
    [50, 86_400_000],
  ] as const) {
    const due: DueTimes = new Map();
    const spacing = spacingOf({ most, ms });
    let [now, count] = [0, 0];
    while (now < 20 * ms) {
      const { granted, waitMs } = takeTurns(due, [spacing], 10, now);
      count += granted;
      now += Math.max(1, waitMs);
    }
    expect(count / 20).toBeGreaterThan(0.95 * most);
  }
});

test("slowed down, a limit may let one go in several of its spans", () => {
  const { burst, everyMs } = spacingOf({ most: 10, ms: 60_000 }, 0.01);
  expect([burst, Math.round(everyMs)]).toEqual([1, 618_000]);
});
