/**
 * What the keeper saw at its looks, and from which states it judged: kept for some days, for `caps replay`.
 */

import { DAY_MS } from "../../clock.ts";
import { fencedNow } from "../cells/moving.ts";
import { plainArray } from "../db/arrays.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { arrayOf, integer, json, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { BulkCounts, DayCounts, DayRow } from "./caps.ts";

/** Of a workspace with mail in every five minutes 288 rows a day, some 200 bytes each. */
const LOOKS_KEPT_DAYS = 8;
const STATES_KEPT_DAYS = 40;
/** However often the keeper looks: five minutes, and a little less for its own drift. */
const LOOK_MS_MIN = 240_000;
/** Bounces and complaints of older days come too late to be told apart. */
const LOOKED_DAYS = 8;

/** In this order in a row. */
const LOOK_COUNTS = [
  "attempted",
  "delivered",
  "bounced",
  "lateBounced",
  "blocked",
  "soft",
  "throttled",
  "complained",
  "fblDelivered",
  "delayed",
  "used",
  "usedBulk",
] as const;
/** Behind those, and behind what waited, where there was mail in the stream `bulk`. */
const BULK_COUNTS = [
  "attempted",
  "delivered",
  "bounced",
  "lateBounced",
  "blocked",
  "complained",
  "fblDelivered",
] as const satisfies (keyof BulkCounts)[];

/** Writes down the counts that have changed since the last look, at most every five minutes. */
export async function noteLooks(sql: Sql | Tx, days: readonly DayRow[], now: number): Promise<void> {
  const today = Math.floor(now / DAY_MS);
  const seen = days.filter(({ day }) => dayNumber(day) > today - LOOKED_DAYS && dayNumber(day) <= today);
  if (seen.length === 0) return;
  const counts = seen.map((day) => `"{${LOOK_COUNTS.map((name) => day[name] ?? 0)}}"`);
  const ofBulk = seen.map(({ bulk }) => `"{${bulk ? BULK_COUNTS.map((name) => bulk[name] ?? 0) : ""}}"`);
  await sql`
    insert into cap_look (workspace_id, day, at, counts)
    select n.workspace_id, n.day, ${new Date(now)}, n.counts from (
      select t.workspace_id, t.day,
             t.counts::int[] || case when t.day = ${today} then array[l.waiting, l.waiting_bulk] else array[0,
             0] end
               || t.bulk::int[] as counts
      from unnest(${plainArray(seen.map(({ workspaceId }) => workspaceId))}::uuid[],
                  ${plainArray(seen.map(({ day }) => dayNumber(day)))}::int[], ${plainArray(counts)}::text[],
                  ${plainArray(ofBulk)}::text[]) as t(workspace_id, day, counts, bulk)
      join ledger l on l.workspace_id = t.workspace_id) as n
    left join lateral (
      select o.counts, o.at from cap_look o where o.workspace_id = n.workspace_id and o.day = n.day
        order by o.at desc limit 1
    ) as last on true
    where last.counts is distinct from n.counts
      and (last.at is null or last.at <= ${new Date(now - LOOK_MS_MIN)}::timestamptz)
    order by n.workspace_id, n.day
    on conflict do nothing`;
}

export type NotedState = { workspaceId: string; state: unknown; override: unknown };

export async function noteStates(sql: Sql | Tx, states: readonly NotedState[], now: number): Promise<void> {
  if (states.length === 0) return;
  const rows = states.map(({ workspaceId, ...one }) => ({ workspace_id: workspaceId, ...one }));
  await sql`
    insert into cap_state (workspace_id, at, state, override)
    select workspace_id, ${new Date(now)}, state, nullif(override, 'null'::jsonb)
    from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as n(workspace_id uuid, state jsonb,
      override jsonb)
    order by workspace_id
    on conflict do nothing`;
}

const stateRow = {
  at: timestamp,
  state: orNull(json<unknown>()),
  override: orNull(json<unknown>()),
};
export type StateRow = RowOf<typeof stateRow>;

/** The newest that is not after `from`, and all later ones until `to`, oldest first. */
export async function statesSince(sql: Sql, workspaceId: string, from: Date, to: Date): Promise<StateRow[]> {
  return typed(sql, stateRow)`
    select at, state, override from cap_state
    where workspace_id = ${workspaceId} and at <= ${to} and at >= coalesce(
      (select max(at) from cap_state where workspace_id = ${workspaceId} and at <= ${from}), ${from})
    order by at`;
}

export type LookRow = { at: number; counts: DayCounts; waiting: number; waitingBulk: number };

export async function looksBetween(sql: Sql, workspaceId: string, from: Date, to: Date): Promise<LookRow[]> {
  const rows = await typed(sql, { at: timestamp, day: text, counts: arrayOf(integer) })`
    select at, to_char(date '1970-01-01' + day, 'YYYY-MM-DD') as day, counts from cap_look
    where workspace_id = ${workspaceId} and at >= ${from} and at <= ${to}
      and day >= ${Math.floor(from.getTime() / DAY_MS) - LOOKED_DAYS}
    order by at, cap_look.day`;
  return rows.map(({ at, day, counts }) => {
    const known = Object.fromEntries(LOOK_COUNTS.map((name, n) => [name, counts[n] ?? 0]));
    const waits = LOOK_COUNTS.length;
    const ofBulk = counts.slice(waits + 2);
    const bulk = Object.fromEntries(BULK_COUNTS.map((name, n) => [name, ofBulk[n] ?? 0]));
    return {
      at: at.getTime(),
      counts: { day, ...known, ...(ofBulk.length > 0 && { bulk }) } as unknown as DayCounts,
      waiting: counts[waits] ?? 0,
      waitingBulk: counts[waits + 1] ?? 0,
    };
  });
}

/** Drops old rows of the next workspaces after one; hands back where to go on, or null at the end. */
export async function dropOldLooks(
  tx: Sql | Tx,
  after: string,
  now: number,
  most: number,
): Promise<string | null> {
  const looksBefore = Math.floor(now / DAY_MS) - LOOKS_KEPT_DAYS;
  const fenced = await fencedNow(tx);
  const workspaces = await typed(tx, { id: text })`
    with page as (
        select id from workspace where id > ${after} and id <> all(${fenced}::uuid[])
          order by id limit ${most}),
      old_looks as (
        select k.workspace_id, k.day, k.at from cap_look k join page on k.workspace_id = page.id
        where k.day < ${looksBefore} for update of k skip locked),
      looks as (
        delete from cap_look k using old_looks o
        where k.workspace_id = o.workspace_id and k.day = o.day and k.at = o.at),
      old_states as (
        select s.workspace_id, s.at from cap_state s join page on s.workspace_id = page.id
        where s.at < ${new Date(now - STATES_KEPT_DAYS * DAY_MS)} for update of s skip locked),
      states as (
        delete from cap_state s using old_states o where s.workspace_id = o.workspace_id and s.at = o.at)
    select id from page order by id`;
  return workspaces.length < most ? null : (workspaces.at(-1)?.id ?? null);
}

function dayNumber(day: string): number {
  return Date.parse(day) / DAY_MS;
}
