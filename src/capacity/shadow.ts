/**
 * The shadow policy: judged beside the policy in force, on the same evidence, from the state that the
 * workspace has when it begins. It writes what it would have done, and changes no cap.
 */

import type { Sql } from "../record/db/connect.ts";
import type { CapacityRow } from "../record/workspaces/caps.ts";
import { findShadow, type ShadowJudged, saveShadow, shadowStates } from "../record/workspaces/shadow.ts";
import {
  type CapState,
  type DayCounts,
  evaluate,
  type Heard,
  type Override,
  type Policy,
  watchAnew,
} from "./policy.ts";

export type ShadowPolicy = { digest: string; policy: Policy; author: string; since: Date };

/** null: there is none, or this release cannot use it. */
export async function shadowInForce(sql: Sql): Promise<ShadowPolicy | null> {
  const row = await findShadow(sql);
  if (!row) return null;
  const { text, ...about } = row;
  const { parsePolicy } = await import("./policyfile.ts");
  try {
    return { ...about, policy: parsePolicy(text) };
  } catch {
    return null;
  }
}

/** A workspace with the evidence that it is judged on. */
export type JudgedWorkspace = {
  row: CapacityRow;
  state: CapState;
  override: Override | null;
  days: readonly DayCounts[];
  /** A part of the mail was held back at this look: that evidence is used up, whoever judges. */
  hasSteppedInParts: boolean;
};

export async function judgeShadow(
  sql: Sql,
  { digest, policy }: ShadowPolicy,
  cases: readonly JudgedWorkspace[],
  heard: Heard,
  now: number,
): Promise<void> {
  const ids = cases.map(({ row }) => row.workspaceId);
  const states = await shadowStates(sql, digest, ids);
  const judged = cases.flatMap(({ row, state, override, days, hasSteppedInParts }): ShadowJudged[] => {
    const stored = states.get(row.workspaceId) as CapState | undefined;
    const known = stored ?? state;
    const watched = hasSteppedInParts ? watchAnew(known, days, now) : known;
    const done = evaluate(policy, row.plan, watched, days, override, now, heard);
    if (done.state === stored) return [];
    const change = done.changed
      ? {
          dayBefore: known.capDay,
          dayAfter: done.state.capDay,
          levelBefore: known.level,
          level: done.state.level,
          reason: done.reason,
          counts: done.numbers,
        }
      : null;
    return [{ workspaceId: row.workspaceId, state: done.state, change }];
  });
  await saveShadow(sql, digest, judged, new Date(now));
}
