/** A study for programs. */
import { MEASURE_NAMES, type MeasureName, type Measures, meaningOf } from "../measures.ts";
import type { Study } from "../study.ts";
import { summarise } from "./summary.ts";
import { sayMeasured } from "./words.ts";

/** For programs: every number, but of the runs only the days and changes of the first. */
export function plainStudy(found: Study) {
  const { outcomes, policies: _policies, threads: _threads, scenario, ...rest } = found;
  return {
    scenario: scenario.name,
    summary: summarise(found),
    ...rest,
    outcomes: outcomes.map(
      ({ delays: _delays, watched: _watched, closeUps: _closeUps, shown, ...outcome }) => ({
        ...outcome,
        shown: { seed: shown.seed, days: shown.days, changes: shown.changes, bursts: shown.bursts },
      }),
    ),
  };
}

/** For a page that people read: the measures besides in words, as in the report. */
export function readableStudy(found: Study) {
  const plain = plainStudy(found);
  return { ...plain, outcomes: plain.outcomes.map((one) => ({ ...one, told: toldMeasures(one.measures) })) };
}

type ToldMeasure = { name: MeasureName; says: string; typical: string; range: string; worst: string };

function toldMeasures(measures: Measures): ToldMeasure[] {
  return MEASURE_NAMES.filter((name) => measures[name].worst !== null && !IN_RANGE.includes(name)).map(
    (name) => {
      const { typical, low, high, worst } = measures[name];
      const say = (value: number | null) => sayMeasured(name, value);
      return {
        ...{ name, says: meaningOf(name) },
        ...{ typical: say(typical), range: `${say(low)} to ${say(high)}`, worst: say(worst) },
      };
    },
  );
}
/** The range of `false_freezes_per_1000` has these. */
const IN_RANGE: readonly MeasureName[] = ["false_freezes_low", "false_freezes_high"];
