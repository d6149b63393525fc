/** A study for programs. */
import type { Study } from "../study.ts";
import { summarise } from "./summary.ts";

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
