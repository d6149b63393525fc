/**
 * What a template may cost by its price is what it takes by the clock: each filter and tag of the engine is
 * repeated with odd and long values until it is refused, and must not have held the event loop too long until
 * then.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  COMPILED,
  type CostCase,
  compiledCase,
  FILTERS,
  filterCase,
  renderCase,
  TAGS,
  tagCase,
} from "../rig/costs.ts";
import { costOf } from "../rig/held.ts";

const HELD_MS_MAX = 50;
const RUNS = Number(process.env.COST_RUNS ?? 5);

function costs(cases: fc.Arbitrary<CostCase>): void {
  const property = fc.property(cases, (one) => {
    const ms = costOf(() => renderCase(one), HELD_MS_MAX);
    if (ms > HELD_MS_MAX) throw new Error(`${ms.toFixed(0)} ms: ${one.name}`);
  });
  fc.assert(property, { numRuns: RUNS, endOnFailure: true });
}

test("the engine has filters and tags", () => {
  expect(FILTERS.length).toBeGreaterThan(50);
  expect(TAGS.length).toBeGreaterThan(10);
});

test.each(FILTERS)("the filter %s costs no more than its price", (name) => costs(filterCase(name)), 120_000);

test.each(TAGS)("the tag %s costs no more than its price", (name) => costs(tagCase(name)), 120_000);

test.each(COMPILED)(
  "compiling %s costs no more than its price",
  (name) => costs(compiledCase(name)),
  120_000,
);
