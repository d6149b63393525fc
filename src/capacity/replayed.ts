/** A workspace's days again under another policy, from what the record keeps of them. */

import { DAY_MS } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import { looksBetween, statesSince } from "../record/workspaces/caplooks.ts";
import { type CapacityRow, dailyCounts, findCapacity } from "../record/workspaces/caps.ts";
import { turn } from "../turn.ts";
import { daysOf, overrideOf, stateOf } from "./caps.ts";
import { policyInForceAt } from "./inforce.ts";
import {
  type CapState,
  COUNTED_DAYS_MAX,
  type Heard,
  type Override,
  type Policy,
  startState,
} from "./policy.ts";
import { daysBetween, type Replay, replayInTurns } from "./replay.ts";

/** Counts are kept no longer. */
export const REPLAYED_DAYS_MAX = 400;

export type ReplayAsked = { workspaceId: string; policy: Policy; from: number; to: number; heard: Heard };

/** null: there is no such workspace. */
export async function replayWorkspace(
  sql: Sql,
  { workspaceId, policy, from, to, heard }: ReplayAsked,
): Promise<Replay | null> {
  const row = await findCapacity(sql, workspaceId);
  if (!row) return null;
  const span = [new Date(from), new Date(to)] as const;
  // what had gone of the first day, and what waited since the day before
  const looksFrom = new Date(Math.floor(from / DAY_MS) * DAY_MS - DAY_MS);
  const earlier = Math.min(daysBetween(from, to) + COUNTED_DAYS_MAX, REPLAYED_DAYS_MAX);
  const [states, days, looks, policyThen] = await Promise.all([
    statesSince(sql, workspaceId, ...span),
    dailyCounts(sql, [workspaceId], to, earlier),
    looksBetween(sql, workspaceId, looksFrom, span[1]),
    policyInForceAt(sql, span[0]),
  ]);
  const first = states[0];
  // a limit of the workspace stands above what anybody set for the caps
  const hasLimit = row.limits.cap_day !== undefined || row.limits.cap_hour !== undefined;
  const overrides = hasLimit
    ? [{ at: 0, override: overrideOf(row) }]
    : states.map(({ at, override }) => ({ at: at.getTime(), override: override as Override | null }));
  const state = first ? (first.state as CapState) : unknownState(row, policy, from);
  const input = { policy, plan: row.plan, state, overrides, days: daysOf(days), looks, from, to, heard };
  const isEarlier = first !== undefined && first.at.getTime() <= from;
  return replayInTurns(
    isEarlier ? { ...input, stateAt: first.at.getTime(), policyThen: policyThen ?? policy } : input,
    turn,
  );
}

/** Nobody wrote down how it was then: it begins as a new workspace, unless nothing has been decided since. */
function unknownState(row: CapacityRow, policy: Policy, from: number): CapState {
  const known = stateOf(row, policy);
  const isOlder = known.changedAt === null || known.changedAt < from;
  return row.state !== null && isOlder ? { ...known, evaluatedOn: null } : startState(policy, row.plan);
}
