/**
 * The auditor: everything that was noted goes in, what is wrong comes out. Pure, and outside of the engine:
 * it believes callers, the sink, and the clock of the campaign, and compares with them what the engine says.
 *
 * While the campaign runs only that is judged which no later event can excuse.
 */
import type { Aftermath, History, Violation } from "./history.ts";
import { judgeAnswers } from "./rules/answers.ts";
import { judgeCaps } from "./rules/caps.ts";
import { judgeFates, judgeRefused } from "./rules/fates.ts";
import { judgeLives } from "./rules/lives.ts";
import { judgeMoves } from "./rules/moves.ts";
import { judgePeople } from "./rules/people.ts";
import { judgeQuotas } from "./rules/quotas.ts";
import { findRepeats, type Repeat, unexplained } from "./rules/repeats.ts";
import { judgeRuns } from "./rules/runs.ts";
import { judgeTallies } from "./rules/tallies.ts";
import { judgeTimes } from "./rules/times.ts";

export type Verdict = {
  /** Accepted and neither kept nor delivered as it says. */
  lost: number;
  /** Recipients beyond a quota, and beyond a cap. */
  overQuota: number;
  overCap: number;
  repeats: Repeat[];
  violations: Violation[];
};

export function audit(history: History, after: Aftermath | null): Verdict {
  const repeats = findRepeats(history.copies, history.lives, history.spells);
  const quotas = judgeQuotas(history, after);
  const caps = judgeCaps(history, after);
  const fates = after ? judgeFates(history, after) : { lost: 0, violations: judgeRefused(history) };
  return {
    lost: fates.lost,
    overQuota: quotas.over,
    overCap: caps.over,
    repeats,
    violations: [
      ...fates.violations,
      ...quotas.violations,
      ...caps.violations,
      ...unexplained(repeats),
      ...judgeTimes(history),
      ...judgeAnswers(history),
      ...judgeLives(history),
      ...(after ? judgeTallies(history, after) : []),
      ...(after ? judgeRuns(history, after) : []),
      ...(after ? judgePeople(history, after) : []),
      ...(after ? judgeMoves(history, after) : []),
      ...(after ? judgeLeftovers(after) : []),
    ],
  };
}

function judgeLeftovers({ leftBags, leftDue }: Aftermath): Violation[] {
  if (leftBags + leftDue === 0) return [];
  const what = `${leftBags} bags and ${leftDue} due rows are left, and nothing is on its way`;
  return [{ rule: "left over", subject: "the record", what, evidence: [] }];
}
