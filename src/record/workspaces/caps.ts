/**
 * What the policy of sending caps reads and writes: states, overrides, daily counts, and every change as a
 * row.
 */

import { DAY_MS } from "../../clock.ts";
import { newId } from "../../ids.ts";
import type { Overrides } from "../../rules/plans.ts";
import { PLANS } from "../../rules/plans.ts";
import { BULK, type StreamDefinitions, type StreamShares } from "../../rules/stream.ts";
import { fencedNow } from "../cells/moving.ts";
import type { Sql, Tx } from "../db/connect.ts";
import {
  boolean,
  float,
  integer,
  json,
  oneOf,
  orNull,
  pick,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import { type SenderLimit, savePartLimits } from "./senderlimits.ts";

export const COUNTS_KEPT_DAYS = 400;
const SOURCES_KEPT_DAYS = 40;
/** Workspaces that are looked through for the mail that has waited longest. */
const OLDEST_OF_MAX = 1_000;

const capacityRow = {
  workspaceId: text,
  handle: text,
  plan: oneOf(...PLANS),
  limits: json<Overrides>(),
  /** In force, unless the workspace has a limit of its own. */
  capDay: integer,
  capHour: integer,
  reservedShare: float,
  streams: json<StreamDefinitions>(),
  streamShares: json<StreamShares>(),
  /** CapState and Override as JSON; null: never evaluated, nothing set. */
  state: orNull(json<unknown>()),
  override: orNull(json<unknown>()),
};
export type CapacityRow = RowOf<typeof capacityRow>;

/** Of one UTC day, in recipients; bounces and complaints that come later count on the day of the send. */
export type DayCounts = {
  /** `2026-11-21` */
  day: string;
  /** Tried for the first time. */
  attempted: number;
  delivered: number;
  /** For good, for reasons that lie with the address; in the session or later. */
  bounced: number;
  /** Of these, reported after the e-mail had been taken. */
  lateBounced?: number;
  /** Refused for the sender's address or content: says nothing about the list. */
  blocked: number;
  /** Refused for good for other reasons. */
  soft?: number;
  /** Told at the first attempt to come back later, for the sender's reputation or rate. */
  throttled?: number;
  complained: number;
  /** Delivered to domains that report complaints, the only mail a complaint can come from. */
  fblDelivered: number;
  /** The last two without what providers counted themselves, where these have been put together. */
  reported?: { complained: number; fblDelivered: number };
  /** Mail that waited for a cap. */
  delayed: number;
  /** Of the daily cap. */
  used: number;
  /** Of that, mail that is not transactional. */
  usedBulk?: number;
  /** Of all this, the mail of the stream `bulk`; left out: none. */
  bulk?: BulkCounts;
  /** What came of single sources, where that is known: strangers act over few of them. */
  sources?: readonly SourceCounts[];
  /**
   * The shares of mail to sources without any mail before the day: as is usual, and of late. Left out: not
   * known.
   */
  newSources?: { usual: number; latest: number };
  /** What providers say of the day on their pages for senders, as an operator imported it. */
  postmaster?: readonly PostmasterDay[];
};

export const bulkCountsRow = {
  attempted: integer,
  delivered: integer,
  bounced: integer,
  lateBounced: integer,
  blocked: integer,
  complained: integer,
  fblDelivered: integer,
};
export type BulkCounts = Pick<
  DayCounts,
  "attempted" | "delivered" | "bounced" | "lateBounced" | "blocked" | "complained" | "fblDelivered"
>;

/** Of one domain of the workspace, by one provider. */
const postmasterDayRow = {
  domain: text,
  /** Whose page it is; null: the file did not say. */
  provider: orNull(text),
  complaintRate: orNull(float),
  /**
   * Over how much mail the rate was taken; null: it does not say, so that the rate slows growth and proves
   * nothing.
   */
  delivered: orNull(integer),
  reputation: orNull(oneOf("high", "medium", "low", "bad")),
};
export type PostmasterDay = RowOf<typeof postmasterDayRow>;

/**
 * A source is where events come from that somebody else may cause: the domain of a receiver. What was
 * attempted is the share that the source has in the latest mail, which `latest` is where it is known; `usual`
 * its share of the mail before the day, left out without such mail. `isRest`: domains without usual mail, too
 * many to be told apart.
 */
export type SourceCounts = { name: string; latest?: number; usual?: number; isRest?: true } & Pick<
  DayCounts,
  "attempted" | "bounced" | "complained" | "fblDelivered"
>;

export type DayRow = DayCounts & { workspaceId: string };

/**
 * The next workspaces that may have something to decide: with mail lately, in trouble, or not yet seen today.
 */
export async function capacitiesToJudge(
  sql: Sql | Tx,
  after: string,
  now: number,
  most: number,
): Promise<CapacityRow[]> {
  const today = Math.floor(now / DAY_MS);
  return typed(sql, capacityRow)`
    select ${columns(sql)}
    from workspace w join ledger l on l.workspace_id = w.id left join capacity c on c.workspace_id = w.id
    where w.id > ${after}
      and (c.workspace_id is null or c.is_troubled or c.override is not null
        or c.evaluated_on < ${new Date(now)}::timestamptz::date
        or exists (select from tally t where t.workspace_id = w.id and t.day >= ${today - 1}))
    order by w.id limit ${most}`;
}

export async function findCapacity(sql: Sql | Tx, workspaceId: string): Promise<CapacityRow | null> {
  const [row] = await typed(sql, capacityRow)`
    select ${columns(sql)}
    from workspace w join ledger l on l.workspace_id = w.id left join capacity c on c.workspace_id = w.id
    where w.id = ${workspaceId}`;
  return row ?? null;
}

/** Writes down what the ledgers know of today and of the day before. */
export async function noteCapUse(sql: Sql | Tx, workspaceIds: readonly string[]): Promise<void> {
  await sql`
    insert into cap_use as known (workspace_id, day, used, used_bulk, delayed, accepted)
    select workspace_id, day, max(used), max(used_bulk), max(delayed), max(accepted) from (
      select workspace_id, day, cap_day_used as used, cap_day_bulk as used_bulk, delayed, accepted
      from ledger where workspace_id = any(${[...workspaceIds]}::uuid[])
      union all
      select workspace_id, closed_day, closed_used, 0, closed_delayed, closed_accepted from ledger
      where workspace_id = any(${[...workspaceIds]}::uuid[])
    ) as seen where day > 0 group by workspace_id, day order by workspace_id, day
    on conflict (workspace_id, day) do update
      set used = greatest(known.used, excluded.used), used_bulk = greatest(known.used_bulk,
        excluded.used_bulk),
          delayed = greatest(known.delayed, excluded.delayed),
          accepted = greatest(known.accepted, excluded.accepted)
      where known.used < excluded.used or known.delayed < excluded.delayed
        or known.accepted < excluded.accepted`;
}

/**
 * The last days of some workspaces, oldest first, with what is known of single sources and from elsewhere.
 */
export async function dailyCounts(
  sql: Sql | Tx,
  workspaceIds: readonly string[],
  now: number,
  days: number,
): Promise<DayRow[]> {
  const since = Math.floor(now / DAY_MS) - days + 1;
  const [rows, bulk, sources, postmaster] = await Promise.all([
    countsByDay(sql, workspaceIds, now, days),
    bulkOf(sql, workspaceIds, since),
    sourcesOf(sql, workspaceIds, since),
    postmasterOf(sql, workspaceIds, since),
  ]);
  return rows.map((row) => {
    const key = `${row.workspaceId} ${row.day}`;
    const [ofBulk, ofSources, ofPostmaster] = [bulk.get(key), sources.get(key), postmaster.get(key)];
    return {
      ...row,
      ...(ofBulk && { bulk: ofBulk[0] }),
      ...(ofSources && { sources: ofSources }),
      ...(ofPostmaster && { postmaster: ofPostmaster }),
    };
  });
}

const ofDayRow = {
  workspaceId: text,
  day: text,
};
type OfDay = RowOf<typeof ofDayRow>;
const sourceCountsRow = {
  ...ofDayRow,
  ...pick(bulkCountsRow, "attempted", "bounced", "complained", "fblDelivered"),
  name: text,
};
const dayRow = {
  ...ofDayRow,
  ...bulkCountsRow,
  soft: integer,
  throttled: integer,
  delayed: integer,
  used: integer,
  usedBulk: integer,
};

/** Of the mail of the built-in stream: bulk streams with a name are judged by themselves. */
async function bulkOf(
  sql: Sql | Tx,
  workspaceIds: readonly string[],
  since: number,
): Promise<Map<string, BulkCounts[]>> {
  const rows = await typed(sql, { ...ofDayRow, ...bulkCountsRow })`
    select workspace_id as "workspaceId", to_char(date '1970-01-01' + day, 'YYYY-MM-DD') as day,
           sum(attempted)::int as attempted, sum(delivered)::int as delivered,
           sum(hard_bounced)::int as bounced,
           sum(late_bounced)::int as "lateBounced", sum(blocked)::int as blocked,
           sum(complained)::int as complained,
           sum(fbl_delivered)::int as "fblDelivered"
    from part_tally where workspace_id = any(${[...workspaceIds]}::uuid[]) and day >= ${since}
      and stream = ${BULK}
    group by workspace_id, part_tally.day`;
  return byDay(rows);
}

/** Of those that complained: of the others nothing has to be known. */
async function sourcesOf(
  sql: Sql | Tx,
  workspaceIds: readonly string[],
  since: number,
): Promise<Map<string, SourceCounts[]>> {
  const rows = await typed(sql, sourceCountsRow)`
    select workspace_id as "workspaceId", to_char(date '1970-01-01' + day, 'YYYY-MM-DD') as day,
      source as name,
           0 as attempted, 0 as bounced, sum(complained)::int as complained,
           sum(fbl_delivered)::int as "fblDelivered"
    from cap_source s
    where workspace_id = any(${[...workspaceIds]}::uuid[]) and day >= ${since}
      and exists (select from cap_source c where c.workspace_id = s.workspace_id and c.source = s.source
                  and c.day >= ${since} and c.complained > 0)
    group by workspace_id, s.day, source order by workspace_id, s.day, source`;
  return byDay(rows);
}

async function postmasterOf(
  sql: Sql | Tx,
  workspaceIds: readonly string[],
  since: number,
): Promise<Map<string, PostmasterDay[]>> {
  const rows = await typed(sql, { ...ofDayRow, ...postmasterDayRow })`
    select workspace_id as "workspaceId", to_char(date '1970-01-01' + day, 'YYYY-MM-DD') as day, domain,
           provider, complaint_rate as "complaintRate", delivered, reputation
    from (
      select workspace_id, day, domain, null as provider, complaint_rate, delivered, reputation
      from postmaster_day where workspace_id = any(${[...workspaceIds]}::uuid[]) and day >= ${since}
      union all
      select workspace_id, day, domain, provider, complaint_rate, delivered, reputation
      from provider_day where workspace_id = any(${[...workspaceIds]}::uuid[]) and day >= ${since}) as known
    order by workspace_id, known.day, domain, provider nulls first`;
  return byDay(rows);
}

function byDay<T>(rows: readonly (OfDay & T)[]): Map<string, Omit<OfDay & T, keyof OfDay>[]> {
  const found = new Map<string, Omit<OfDay & T, keyof OfDay>[]>();
  for (const { workspaceId, day, ...one } of rows) {
    const key = `${workspaceId} ${day}`;
    const known = found.get(key);
    if (known) known.push(one);
    else found.set(key, [one]);
  }
  return found;
}

/** A day on which nobody noted the use counts what was tried. */
async function countsByDay(
  sql: Sql | Tx,
  workspaceIds: readonly string[],
  now: number,
  days: number,
): Promise<DayRow[]> {
  const since = Math.floor(now / DAY_MS) - days + 1;
  return typed(sql, dayRow)`
    select workspace_id as "workspaceId", to_char(date '1970-01-01' + day, 'YYYY-MM-DD') as day,
           sum(attempted)::int as attempted, sum(delivered)::int as delivered,
           sum(hard_bounced)::int as bounced,
           sum(late_bounced)::int as "lateBounced",
           sum(blocked)::int as blocked, sum(soft_bounced)::int as soft, sum(throttled)::int as throttled,
           sum(complained)::int as complained, sum(fbl_delivered)::int as "fblDelivered",
           max(delayed)::int as delayed, coalesce(max(used), sum(attempted))::int as used,
           max(used_bulk)::int as "usedBulk"
    from (
      select workspace_id, day, attempted, delivered, hard_bounced, late_bounced, blocked, soft_bounced,
        throttled,
             complained, fbl_delivered, 0 as delayed, null::int as used, 0 as used_bulk
      from tally where workspace_id = any(${[...workspaceIds]}::uuid[]) and day >= ${since}
      union all
      select workspace_id, day, 0, 0, 0, 0, 0, 0, 0, 0, 0, delayed, used, used_bulk
      from cap_use where workspace_id = any(${[...workspaceIds]}::uuid[]) and day >= ${since}
    ) as counted
    group by workspace_id, counted.day order by workspace_id, counted.day`;
}

/** A day of one workspace, as `caps fit` reads it. */
const countedDayRow = {
  workspaceId: text,
  attempted: integer,
  delivered: integer,
  deferred: integer,
  bounced: integer,
  blocked: integer,
  complained: integer,
  fblDelivered: integer,
};
export type CountedDay = RowOf<typeof countedDayRow>;

/** The last days of all workspaces, those of each in order. */
export async function countsOfAll(sql: Sql, now: number, days: number): Promise<CountedDay[]> {
  return typed(sql, countedDayRow)`
    select workspace_id as "workspaceId", sum(attempted)::int as attempted, sum(delivered)::int as delivered,
           sum(deferred)::int as deferred, sum(hard_bounced)::int as bounced, sum(blocked)::int as blocked,
           sum(complained)::int as complained, sum(fbl_delivered)::int as "fblDelivered"
    from tally where day > ${Math.floor(now / DAY_MS) - days}
    group by workspace_id, day order by workspace_id, day`;
}

export type CapChange = {
  before: { day: number; hour: number };
  after: { day: number; hour: number };
  level: string;
  reason: string;
  /** The numbers that decided. */
  counts: unknown;
  policyVersion: string | null;
  by: string;
};

export type Decision = {
  workspaceId: string;
  /** What it was decided on: it does not hold when somebody has decided since. */
  known: Pick<CapacityRow, "state" | "override">;
  state: unknown;
  override: unknown;
  isTroubled: boolean;
  policyVersion: string;
  caps: { day: number; hour: number; reservedShare: number };
  /** What parts of the mail are held back to; null: as before. */
  parts: { shares: StreamShares; limits: readonly SenderLimit[] } | null;
  /** Whether the caps in force change: every copy elsewhere is out of date then. */
  isNew: boolean;
  changes: readonly CapChange[];
};

/** `version` is the workspace's new one when its caps changed. Overtaken: nothing is kept. */
export type Saved = { kind: "saved"; version: number | null } | { kind: "overtaken" };

/** Keeps what was decided, in one transaction, under the lock of the ledger. */
export async function saveDecision(sql: Sql, decision: Decision, now: Date): Promise<Saved> {
  const { workspaceId, known, state, override, isTroubled, policyVersion, caps, parts, isNew, changes } =
    decision;
  return sql.begin(async (tx): Promise<Saved> => {
    await tx`select from ledger where workspace_id = ${workspaceId} for update`;
    const [held] = await typed(tx, { isKnown: boolean })`
      select c.state is not distinct from ${jsonOf(known.state)}::text::jsonb
        and c.override is not distinct from ${jsonOf(known.override)}::text::jsonb as "isKnown"
      from workspace w left join capacity c on c.workspace_id = w.id where w.id = ${workspaceId}`;
    if (!held?.isKnown) return { kind: "overtaken" };
    await tx`
      insert into capacity (workspace_id, state, override, policy_version, is_troubled, evaluated_on)
      values (${workspaceId}, ${jsonOf(state)}::text::jsonb, ${jsonOf(override)}::text::jsonb,
              ${policyVersion}, ${isTroubled}, ${now}::timestamptz::date)
      on conflict (workspace_id) do update set state = excluded.state, override = excluded.override,
        policy_version = excluded.policy_version, is_troubled = excluded.is_troubled,
        evaluated_on = excluded.evaluated_on`;
    for (const change of changes) await insertCapChange(tx, workspaceId, change, now);
    if (parts) await savePartLimits(tx, workspaceId, parts.shares, parts.limits, now);
    if (!isNew) return { kind: "saved", version: null };
    // what waits may go now
    await tx`
      update ledger set cap_day = ${caps.day}, cap_hour = ${caps.hour},
        reserved_share = ${caps.reservedShare},
        next_release_at = case when waiting + waiting_bulk > 0 then ${now}::timestamptz
          else next_release_at end
      where workspace_id = ${workspaceId}`;
    const [row] = await typed(tx, { version: integer })`
      update workspace set version = version + 1, changed_at = ${now} where id = ${workspaceId}
        returning version::int`;
    return { kind: "saved", version: row?.version ?? null };
  });
}

function jsonOf(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value);
}

export async function insertCapChange(
  sql: Sql | Tx,
  workspaceId: string,
  change: CapChange,
  now: Date,
): Promise<void> {
  const { before, after, level, reason, counts, policyVersion, by } = change;
  await sql`
    insert into cap_change (workspace_id, id, at, day_before, day_after, hour_before, hour_after, level,
      reason, counts,
                            policy_version, changed_by)
    values (${workspaceId}, ${newId(now.getTime())}, ${now}, ${before.day}, ${after.day}, ${before.hour},
      ${after.hour}, ${level},
            ${reason}, ${counts === null ? null : JSON.stringify(counts)}::text::jsonb, ${policyVersion},
            ${by})`;
}

const capChangeRow = {
  id: text,
  at: timestamp,
  dayBefore: integer,
  dayAfter: integer,
  hourBefore: integer,
  hourAfter: integer,
  level: text,
  reason: text,
  counts: orNull(json<unknown>()),
  policyVersion: orNull(text),
  /** The number of that version, if it was applied by `caps policy`. */
  version: orNull(integer),
  by: text,
};
export type CapChangeRow = RowOf<typeof capChangeRow>;

export type TimeSpan = { from: Date | null; to: Date | null };

/** Newest first, from `from` on, before `to`; `after`: older than the one with this id. */
export async function listCapChanges(
  sql: Sql,
  workspaceId: string,
  most: number,
  { from, to, after = null }: TimeSpan & { after?: string | null } = { from: null, to: null },
): Promise<CapChangeRow[]> {
  return typed(sql, capChangeRow)`
    select id, at, day_before as "dayBefore", day_after as "dayAfter", hour_before as "hourBefore",
      hour_after as "hourAfter",
           level, reason, counts, policy_version as "policyVersion", changed_by as by,
           (select max(p.version) from cap_policy p where p.digest = c.policy_version
             and p.applied_at <= c.at) as version
    from cap_change c
    where workspace_id = ${workspaceId} and (${from}::timestamptz is null or at >= ${from})
      and (${to}::timestamptz is null or at < ${to}) and (${after}::uuid is null or id < ${after})
    order by id desc limit ${most}`;
}

/** The first change of those that the level has stayed the same since; null: none says how it became so. */
export async function findLevelChange(
  sql: Sql,
  workspaceId: string,
  level: string,
): Promise<Pick<CapChangeRow, "at" | "reason" | "by"> | null> {
  const { at, reason, by } = capChangeRow;
  const [row] = await typed(sql, { at, reason, by })`
    select at, reason, changed_by as by from cap_change
    where workspace_id = ${workspaceId} and level = ${level}
      and id > coalesce((select id from cap_change where workspace_id = ${workspaceId} and level <> ${level}
        order by id desc limit 1), '00000000-0000-0000-0000-000000000000')
    order by id limit 1`;
  return row ?? null;
}

/** Those that sent most in a span, and how many sent anything. */
export async function busiestWorkspaces(
  sql: Sql,
  from: number,
  to: number,
  most: number,
): Promise<{ ids: string[]; total: number }> {
  const rows = await typed(sql, { id: text, total: integer })`
    select workspace_id as id, count(*) over ()::int as total from cap_use
    where day between ${Math.floor(from / DAY_MS)} and ${Math.floor(to / DAY_MS)}
    group by workspace_id having sum(used) > 0 order by sum(used) desc, workspace_id limit ${most}`;
  return { ids: rows.map(({ id }) => id), total: rows[0]?.total ?? 0 };
}

const capUseRow = {
  workspaceId: text,
  capDay: integer,
  capHour: integer,
  used: integer,
  waiting: integer,
  oldest: orNull(timestamp),
};
export type CapUse = RowOf<typeof capUseRow>;

/** The workspaces with the most waiting, and the most sent today. */
export async function busiestCaps(sql: Sql, now: number, most: number): Promise<CapUse[]> {
  const today = Math.floor(now / DAY_MS);
  return typed(sql, capUseRow)`
    select l.workspace_id as "workspaceId", coalesce((w.limits ->> 'cap_day')::int, l.cap_day) as "capDay",
           coalesce((w.limits ->> 'cap_hour')::int, l.cap_hour) as "capHour",
           case when l.day = ${today} then l.cap_day_used else 0 end as used,
             l.waiting + l.waiting_bulk as waiting,
           (select e.created_at from due d join email e on e.workspace_id = d.workspace_id
             and e.id = d.email_id
            where d.workspace_id = l.workspace_id and d.why in ('cap_hour', 'cap_day', 'quota_month')
            order by d.email_id limit 1) as oldest
    from ledger l join workspace w on w.id = l.workspace_id
    order by l.waiting + l.waiting_bulk desc, case when l.day = ${today} then l.cap_day_used
      else 0 end desc limit ${most}`;
}

/** `oldest`: of the workspaces with the most waiting, when the mail that has waited longest was accepted. */
export async function totalWaiting(
  sql: Sql,
): Promise<{ waiting: number; workspaces: number; oldest: Date | null }> {
  const [row] = await typed(sql, { waiting: integer, workspaces: integer, oldest: orNull(timestamp) })`
    select coalesce(sum(waiting + waiting_bulk), 0)::int as waiting,
           count(*) filter (where waiting + waiting_bulk > 0)::int as workspaces,
           (select min(first.created_at) from (
              select workspace_id from ledger where waiting + waiting_bulk > 0
              order by waiting + waiting_bulk desc limit ${OLDEST_OF_MAX}) as l
            cross join lateral (
              select e.created_at from due d join email e on e.workspace_id = d.workspace_id
                and e.id = d.email_id
              where d.workspace_id = l.workspace_id and d.why in ('cap_hour', 'cap_day', 'quota_month')
              order by d.email_id limit 1) as first) as oldest
    from ledger`;
  return row ?? { waiting: 0, workspaces: 0, oldest: null };
}

/** Workspaces by level, and those of them whose cap or level changed since a time. */
export async function capLevels(
  sql: Sql,
  since: number,
): Promise<{ level: string; workspaces: number; changed: number }[]> {
  return typed(sql, { level: text, workspaces: integer, changed: integer })`
    select coalesce(state ->> 'level', 'normal') as level, count(*)::int as workspaces,
           count(*) filter (where (state ->> 'changedAt')::float8 >= ${since})::int as changed
    from capacity group by 1`;
}

/**
 * Counts by day are kept for a year and a little. Looks at the next workspaces after one, each by its key;
 * hands back where to go on, or null at the end.
 */
export async function dropOldCounts(
  tx: Sql | Tx,
  after: string,
  now: number,
  most: number,
): Promise<string | null> {
  const before = Math.floor(now / DAY_MS) - COUNTS_KEPT_DAYS;
  const fenced = await fencedNow(tx);
  const workspaces = await typed(tx, { id: text })`
    with page as (
        select id from workspace where id > ${after} and id <> all(${fenced}::uuid[])
          order by id limit ${most}),
      old_uses as (
        select u.workspace_id, u.day from cap_use u join page on u.workspace_id = page.id
        where u.day < ${before} for update of u skip locked),
      uses as (
        delete from cap_use u using old_uses o where u.workspace_id = o.workspace_id and u.day = o.day),
      old_tallies as (
        select t.workspace_id, t.day, t.worker from tally t join page on t.workspace_id = page.id
        where t.day < ${before} for update of t skip locked),
      tallies as (
        delete from tally t using old_tallies o
        where t.workspace_id = o.workspace_id and t.day = o.day and t.worker = o.worker),
      old_parts as (
        select p.ctid from part_tally p join page on p.workspace_id = page.id
        where p.day < ${before} for update of p skip locked),
      parts as (
        delete from part_tally p where p.ctid in (select ctid from old_parts) and p.day < ${before}),
      old_sources as (
        select s.workspace_id, s.day, s.source, s.worker from cap_source s join page
          on s.workspace_id = page.id
        where s.day < ${Math.floor(now / DAY_MS) - SOURCES_KEPT_DAYS} for update of s skip locked),
      sources as (
        delete from cap_source s using old_sources o
        where s.workspace_id = o.workspace_id and s.day = o.day and s.source = o.source
          and s.worker = o.worker),
      old_postmaster as (
        select p.workspace_id, p.domain, p.day from postmaster_day p join page on p.workspace_id = page.id
        where p.day < ${before} for update of p skip locked),
      postmaster as (
        delete from postmaster_day p using old_postmaster o
        where p.workspace_id = o.workspace_id and p.domain = o.domain and p.day = o.day),
      old_provider as (
        select p.workspace_id, p.domain, p.day, p.provider from provider_day p join page
          on p.workspace_id = page.id
        where p.day < ${before} for update of p skip locked),
      of_provider as (
        delete from provider_day p using old_provider o
        where p.workspace_id = o.workspace_id and p.domain = o.domain and p.day = o.day
          and p.provider = o.provider)
    select id from page order by id`;
  return workspaces.length < most ? null : (workspaces.at(-1)?.id ?? null);
}

function columns(sql: Sql | Tx) {
  return sql`w.id as "workspaceId", w.handle, w.plan, w.limits, l.cap_day as "capDay", l.cap_hour as "capHour",
    l.reserved_share as "reservedShare", w.streams, l.stream_shares as "streamShares", c.state, c.override`;
}
