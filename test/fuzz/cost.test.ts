/**
 * What a template may cost by its price is what it takes by the clock: each filter and tag of the engine is
 * repeated with odd and long values until it is refused. No piece of that may hold the event loop too long,
 * and the whole may not take much more than was paid.
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
import { costOf, costOfLongest } from "../rig/held.ts";
import { atOnce } from "../rig/rendering.ts";

/** Of the 50 ms of a turn, what others worked in it before is 10. */
const PIECE_MS_MAX = 40;
const WHOLE_MS_MAX = 100;
const RUNS = Number(process.env.COST_RUNS ?? 5);

function costs(cases: fc.Arbitrary<CostCase>): void {
  const property = fc.property(cases, (one) => {
    const longest = costOfLongest(() => renderCase(one), PIECE_MS_MAX);
    if (longest > PIECE_MS_MAX) throw new Error(`${longest.toFixed(0)} ms in one piece: ${one.name}`);
    const whole = costOf(() => atOnce(renderCase(one)), WHOLE_MS_MAX);
    if (whole > WHOLE_MS_MAX) throw new Error(`${whole.toFixed(0)} ms: ${one.name}`);
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
