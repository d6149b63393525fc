/** A study for programs. */
import { isSure, MEASURE_NAMES, type MeasureName, meaningOf } from "../measures.ts";
import type { Study, StudyResult } from "../study.ts";
import { NARROW } from "./chart.ts";
import { delayFigure, figuresOf } from "./figures.ts";
import { sayDifference, summarise } from "./summary.ts";
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

/** For a page that people read: the measures in words and side by side, and the charts of the report. */
export function readableStudy(found: Study) {
  const { scenario, summary, days, runs, outcomes } = plainStudy(found);
  return {
    ...{ scenario, summary, days, runs },
    measures: toldMeasures(found.outcomes),
    delays: delayFigure(found.outcomes, NARROW),
    outcomes: outcomes.map(({ name, shown: { changes } }, n) => ({
      ...{ name, changes },
      figures: figuresOf(found.outcomes[n] as StudyResult, days, runs, NARROW),
    })),
  };
}

/** `differs`: by how much the second policy surely differs from the first; null: nothing shows it. */
function toldMeasures(outcomes: readonly StudyResult[]) {
  const difference = outcomes[1]?.difference;
  return MEASURE_NAMES.filter(
    (name) => !IN_RANGE.includes(name) && outcomes.some(({ measures }) => measures[name].worst !== null),
  ).map((name) => {
    const say = (value: number | null) => sayMeasured(name, value);
    const told = outcomes.map(({ measures }) => {
      const { typical, low, high, worst } = measures[name];
      return { typical: say(typical), range: `${say(low)} to ${say(high)}`, worst: say(worst) };
    });
    const by = difference && isSure(difference[name]) ? sayDifference(name, difference[name]) : "";
    return { name, says: meaningOf(name), told, differs: by === "" ? null : by };
  });
}
/** The range of `false_freezes_per_1000` has these. */
const IN_RANGE: readonly MeasureName[] = ["false_freezes_low", "false_freezes_high"];
