/**
 * A policy that is tried beside the one in force: the policy, the states that it would have come to, and its
 * steps.
 */

import { newId } from "../../ids.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { integer, json, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const shadowPolicyRow = {
  text,
  digest: text,
  author: text,
  since: timestamp,
};
export type ShadowPolicyRow = RowOf<typeof shadowPolicyRow>;

export async function findShadow(sql: Sql | Tx): Promise<ShadowPolicyRow | null> {
  const [row] = await typed(sql, shadowPolicyRow)`select text, digest, author, since from shadow_policy`;
  return row ?? null;
}

/** null takes it away. What the one before would have done goes with it. */
export async function putShadow(sql: Sql, shadow: ShadowPolicyRow | null): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`select from shadow_policy for update`;
    if (shadow === null) await tx`delete from shadow_policy`;
    else
      await tx`
        insert into shadow_policy (text, digest, author, since)
        values (${shadow.text}, ${shadow.digest}, ${shadow.author}, ${shadow.since})
        on conflict (is_only) do update set text = excluded.text, digest = excluded.digest,
          author = excluded.author,
          since = excluded.since`;
    await tx`
      with old as materialized (select workspace_id from shadow_capacity order by workspace_id for update)
      delete from shadow_capacity c using old where c.workspace_id = old.workspace_id`;
    await tx`
      with old as materialized (select workspace_id, id from shadow_change order by workspace_id,
        id for update)
      delete from shadow_change c using old where c.workspace_id = old.workspace_id and c.id = old.id`;
  });
}

/** By workspace; of another policy than this one nothing is known. */
export async function shadowStates(
  sql: Sql | Tx,
  digest: string,
  workspaceIds: readonly string[],
): Promise<Map<string, unknown>> {
  const rows = await typed(sql, { workspaceId: text, state: orNull(json<unknown>()) })`
    select workspace_id as "workspaceId", state from shadow_capacity
    where workspace_id = any(${[...workspaceIds]}::uuid[]) and digest = ${digest}`;
  return new Map(rows.map(({ workspaceId, state }) => [workspaceId, state]));
}

export type ShadowJudged = {
  workspaceId: string;
  state: unknown;
  change: ShadowChange | null;
};
const shadowChangeRow = {
  dayBefore: integer,
  dayAfter: integer,
  levelBefore: text,
  level: text,
  reason: text,
  counts: orNull(json<unknown>()),
};
export type ShadowChange = RowOf<typeof shadowChangeRow>;

/** Nothing is kept when another policy has come meanwhile. */
export async function saveShadow(
  sql: Sql,
  digest: string,
  judged: readonly ShadowJudged[],
  now: Date,
): Promise<void> {
  if (judged.length === 0) return;
  const states = judged.map(({ workspaceId, state }) => ({ workspace_id: workspaceId, state }));
  const changes = judged.flatMap(({ workspaceId, change }) =>
    change ? [{ workspace_id: workspaceId, id: newId(now.getTime()), ...snake(change) }] : [],
  );
  await sql.begin(async (tx) => {
    const [held] = await tx`select from shadow_policy where digest = ${digest} for update`;
    if (!held) return;
    await tx`
      insert into shadow_capacity (workspace_id, digest, state)
      select workspace_id, ${digest}, state
      from jsonb_to_recordset(${JSON.stringify(states)}::text::jsonb) as n(workspace_id uuid, state jsonb)
      order by workspace_id
      on conflict (workspace_id) do update set digest = excluded.digest, state = excluded.state`;
    if (changes.length > 0)
      await tx`
        insert into shadow_change (workspace_id, id, digest, at, day_before, day_after, level_before, level,
          reason, counts)
        select workspace_id, id, ${digest}, ${now}, day_before, day_after, level_before, level, reason, counts
        from jsonb_to_recordset(${JSON.stringify(changes)}::text::jsonb)
          as n(workspace_id uuid, id uuid, day_before int, day_after int, level_before text, level text,
            reason text, counts jsonb)`;
  });
}

function snake({ dayBefore, dayAfter, levelBefore, level, reason, counts }: ShadowChange) {
  return { day_before: dayBefore, day_after: dayAfter, level_before: levelBefore, level, reason, counts };
}

const listedChangeRow = { ...shadowChangeRow, workspaceId: text, at: timestamp };
export type ShadowChangeRow = RowOf<typeof listedChangeRow>;

/** Newest first. */
export async function listShadowChanges(
  sql: Sql,
  workspaceIds: readonly string[],
  most: number,
): Promise<ShadowChangeRow[]> {
  return typed(sql, listedChangeRow)`
    select workspace_id as "workspaceId", at, day_before as "dayBefore", day_after as "dayAfter",
           level_before as "levelBefore", level, reason, counts
    from shadow_change where workspace_id = any(${[...workspaceIds]}::uuid[])
    order by at desc, id desc limit ${most}`;
}

/** Steps by level, of some workspaces. */
const stepCountsRow = {
  freezes: integer,
  pauses: integer,
  shrinks: integer,
};
export type StepCounts = RowOf<typeof stepCountsRow>;

export async function countShadowSteps(sql: Sql, workspaceIds: readonly string[]): Promise<StepCounts> {
  const [row] = await typed(sql, stepCountsRow)`
    select count(*) filter (where level = 'frozen' and level_before <> 'frozen')::int as freezes,
           count(*) filter (where level = 'paused' and level_before <> 'paused')::int as pauses,
           count(*) filter (where day_after < day_before and level in ('shrunk', 'paused'))::int as shrinks
    from shadow_change where workspace_id = any(${[...workspaceIds]}::uuid[])`;
  return row ?? { freezes: 0, pauses: 0, shrinks: 0 };
}

/** What was really done since, by the policy in force. */
export async function countSteps(
  sql: Sql,
  workspaceIds: readonly string[],
  from: Date,
  to: Date,
): Promise<StepCounts> {
  const [row] = await typed(sql, stepCountsRow)`
    select count(*) filter (where level = 'frozen' and was <> 'frozen')::int as freezes,
           count(*) filter (where level = 'paused' and was <> 'paused')::int as pauses,
           count(*) filter (where day_after < day_before and level in ('shrunk', 'paused')
             and changed_by = 'policy')::int as shrinks
    from (
      select level, day_before, day_after, changed_by, at,
             coalesce(lag(level) over (partition by workspace_id order by id), 'normal') as was
      from cap_change where workspace_id = any(${[...workspaceIds]}::uuid[])) as c
    where at >= ${from} and at <= ${to}`;
  return row ?? { freezes: 0, pauses: 0, shrinks: 0 };
}
