/** `postrider caps why`: what the cap of a workspace is, why, what would change it and when. */
import { countsToJudge, overrideOf, stateOf } from "../capacity/caps.ts";
import { heardWith } from "../capacity/heard.ts";
import { policyInForce } from "../capacity/inforce.ts";
import { whyCap } from "../capacity/why.ts";
import { findCapacity, findLevelChange, listCapChanges, noteCapUse } from "../record/workspaces/caps.ts";
import { readAccount } from "../record/workspaces/ledgers.ts";
import { advance, sum, waitingByStream } from "../rules/ledger.ts";
import type { Context } from "./context.ts";
import { type OutputOptions, say, unknownWorkspace } from "./print.ts";

type WhyOptions = OutputOptions & { workspace: string };

export async function why({ sql, clock, config }: Context, options: WhyOptions) {
  const { workspace } = options;
  const now = clock.now();
  const row = await findCapacity(sql, workspace);
  const account = await readAccount(sql, workspace);
  if (!row || !account) throw unknownWorkspace(workspace);
  const { ledger, allowance } = account;
  advance(ledger, now);
  const { policy, version } = await policyInForce(sql);
  await noteCapUse(sql, [workspace]);
  const [lastChange] = await listCapChanges(sql, workspace, 1);
  const state = stateOf(row, policy);
  const { dayLimit, monthLimit } = allowance;
  const answer = whyCap({
    policy,
    policyVersion: version,
    plan: row.plan,
    state,
    override: overrideOf(row),
    days: await countsToJudge(sql, policy, row, now),
    heard: heardWith(config),
    now,
    used: { day: ledger.capDayUsed, hour: sum(ledger.hourUsed) },
    waiting: { transactional: ledger.waiting, automation: ledger.waitingBulk },
    waitingIn: waitingByStream(ledger),
    quota: {
      monthLeft: Math.max(0, monthLimit - ledger.monthUsed),
      dayLeft: dayLimit === null ? null : Math.max(0, dayLimit - ledger.dayUsed),
    },
    lastChange: lastChange ?? null,
    levelChange: await findLevelChange(sql, workspace, state.level),
  });
  const { is, why: reasons, changes } = answer;
  say(options, answer, [...is, "", "Why:", ...reasons, "", "What would change it:", ...changes].join("\n"));
}
