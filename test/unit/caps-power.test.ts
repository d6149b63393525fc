/** src/capacity/power.ts: bad lists are stopped early, and what is shown of it is so. */
import { expect, test } from "vitest";
import { alternativesTo, logEvidence, lowerBound } from "../../src/capacity/policy/evalue.ts";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { powerAt } from "../../src/capacity/power.ts";
import { summaryOf } from "../../src/cli/capstables.ts";

test("a list with twice the limit, or more, is stopped before what a test of 99% at each look let through", () => {
  const sent = (perDay: number, multiple: number) =>
    powerAt(DEFAULT_POLICY, "bounce", perDay, multiple, 41).sentBeforeStep ?? Number.POSITIVE_INFINITY;
  expect(sent(1_500, 2)).toBeLessThan(490);
  expect(sent(1_500, 6.6)).toBeLessThan(69);
});

test("what nobody catches is said to go out whole, not to send nothing", () => {
  const power = (multiple: number, sentBeforeStep: number | null) => ({
    ...{ measure: "bounce" as const, perDay: 200, rate: 0.1, multiple, runs: 10 },
    ...{ heldPer1000: 300, heldLow: 100, heldHigh: 600, sentBeforeStep },
  });
  const said = (sent: number | null) =>
    summaryOf({ days: 60, rates: [power(0.9, null), power(2, sent)], trade: [] });
  expect(said(null)).toContain("before the first step: all of it, since only 30% are caught, at 200 a day.");
  expect(said(312)).toContain("before the first step: 312 e-mails at 200 a day.");
});

test("an e-value grows with events, and its lower bound is where it is just enough", () => {
  const alternatives = alternativesTo(0.05);
  const of = (events: number) => logEvidence({ events, of: 400 }, 0.05, alternatives);
  for (let events = 1; events < 400; events++) expect(of(events)).toBeGreaterThan(of(events - 1));
  const sample = { events: 60, of: 400 };
  const bound = lowerBound(sample, 0.001, alternatives);
  expect(logEvidence(sample, bound, alternatives)).toBeCloseTo(-Math.log(0.001), 3);
  expect(logEvidence(sample, 1, alternatives)).toBe(Number.NEGATIVE_INFINITY);
});

test("what is proven over a high limit is proven over a lower one", () => {
  const alternatives = alternativesTo(0.05);
  for (let events = 5; events < 300; events += 7) {
    const sample = { events, of: 600 };
    const needed = 6;
    if (logEvidence(sample, 0.08, alternatives) < needed) continue;
    expect(logEvidence(sample, 0.06, alternatives)).toBeGreaterThanOrEqual(needed);
    expect(logEvidence(sample, 0.05, alternatives)).toBeGreaterThanOrEqual(needed);
  }
});
