/** Ledger rows: read, locked and written in sets. */

import { allowanceOf } from "../../rules/allowance.ts";
import { type Allowance, type Ledger, nextTurn, type StreamUse, type WaitsFor } from "../../rules/ledger.ts";
import { limitsOf, type Overrides, PLANS, type Plan } from "../../rules/plans.ts";
import type { StreamDefinitions, StreamShares } from "../../rules/stream.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { settled } from "../db/groupcommit.ts";
import {
  arrayOf,
  boolean,
  float,
  integer,
  json,
  omit,
  oneOf,
  orNull,
  type RowOf,
  type ShapeFor,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";

const ledgerRow = {
  month: integer,
  monthUsed: integer,
  day: integer,
  dayUsed: integer,
  capDayUsed: integer,
  capDayBulk: integer,
  bucket: integer,
  /** Slot `bucket % HOUR_BUCKETS`. */
  hourUsed: arrayOf(integer),
  hourBulk: arrayOf(integer),
  /** E-mails that wait for the caps, by the kind of their stream. */
  waiting: integer,
  waitingBulk: integer,
  /** What is used by, and waits in, the streams that have a name of their own. */
  streams: json<Record<string, StreamUse>>(),
  /** E-mails that had to wait for the caps today. */
  delayed: integer,
  accepted: integer,
  /** The day before this one, as it ended: for history. */
  closedDay: integer,
  closedUsed: integer,
  closedDelayed: integer,
  closedAccepted: integer,
} satisfies ShapeFor<Ledger>;

export type Account = {
  workspaceId: string;
  handle: string;
  version: number;
  plan: Plan;
  isSuspended: boolean;
  /** Whether there is any address that it does not write to. */
  suppresses: boolean;
  requestsPerSecond: number;
  allowance: Allowance;
  ledger: Ledger;
  /** When the keeper should look for room for what waits, in ms; null while nothing waits. */
  nextReleaseAt: number | null;
};

const accountRow = {
  ...omit(ledgerRow, "streams"),
  workspaceId: text,
  handle: text,
  version: integer,
  plan: oneOf(...PLANS),
  limits: json<Overrides>(),
  isSuspended: boolean,
  suppresses: boolean,
  grownCapDay: integer,
  grownCapHour: integer,
  reservedShare: float,
  streams: json<StreamDefinitions>(),
  streamShares: json<StreamShares>(),
  /** null: none. */
  streamsUsed: orNull(json<Record<string, StreamUse>>()),
  nextReleaseAt: orNull(timestamp),
};
type AccountRow = RowOf<typeof accountRow>;

/**
 * Locks the accounts of some workspaces in the order of their ids, as everyone who locks several does. They
 * are read by a statement of their own, sent together with the lock: one that waited for it would see the
 * limits of before the wait.
 */
export async function lockAccounts(tx: Tx | Sql, workspaceIds: readonly string[]): Promise<Account[]> {
  const ids = [...workspaceIds].sort();
  const [, rows] = await settled([
    tx`select from ledger where workspace_id = any(${ids}::uuid[]) order by workspace_id for update`.execute(),
    typed(tx, accountRow)`
      select ${columns(tx)} from ledger l join workspace w on w.id = l.workspace_id
      where l.workspace_id = any(${ids}::uuid[]) order by l.workspace_id`.execute(),
  ]);
  return rows.map(accountOf);
}

export async function readAccount(sql: Sql, workspaceId: string): Promise<Account | null> {
  const [row] = await typed(sql, accountRow)`
    select ${columns(sql)} from ledger l join workspace w on w.id = l.workspace_id
      where l.workspace_id = ${workspaceId}`;
  return row ? accountOf(row) : null;
}

export function saveLedgers(tx: Tx | Sql, accounts: readonly Account[]): Statement {
  const of = <T>(pick: (account: Account) => T): T[] => accounts.map(pick);
  return tx`
    update ledger l set
      month = v.month, month_used = v.month_used, day = v.day, day_used = v.day_used,
      cap_day_used = v.cap_day_used,
      cap_day_bulk = v.cap_day_bulk, bucket = v.bucket, hour_used = v.hour_used::int[],
      hour_bulk = v.hour_bulk::int[],
      waiting = v.waiting, waiting_bulk = v.waiting_bulk, next_release_at = v.next_release_at,
      streams = v.streams::jsonb, delayed = v.delayed, closed_day = v.closed_day, closed_used = v.closed_used,
      closed_delayed = v.closed_delayed, accepted = v.accepted, closed_accepted = v.closed_accepted
    from unnest(
      ${of((a) => a.workspaceId)}::uuid[], ${of((a) => a.ledger.month)}::int[],
      ${of((a) => a.ledger.monthUsed)}::int[],
      ${of((a) => a.ledger.day)}::int[], ${of((a) => a.ledger.dayUsed)}::int[],
      ${of((a) => a.ledger.capDayUsed)}::int[],
      ${of((a) => a.ledger.capDayBulk)}::int[], ${of((a) => a.ledger.bucket)}::int[],
      ${of((a) => slots(a.ledger.hourUsed))}::text[], ${of((a) => slots(a.ledger.hourBulk))}::text[],
      ${of((a) => a.ledger.waiting)}::int[], ${of((a) => a.ledger.waitingBulk)}::int[],
      ${of((a) => streamsText(a.ledger))}::text[],
      ${of((a) => (a.nextReleaseAt === null ? null : new Date(a.nextReleaseAt).toISOString()))}::timestamptz[],
      ${of((a) => a.ledger.delayed)}::int[], ${of((a) => a.ledger.closedDay)}::int[],
      ${of((a) => a.ledger.closedUsed)}::int[], ${of((a) => a.ledger.closedDelayed)}::int[],
      ${of((a) => a.ledger.accepted)}::int[], ${of((a) => a.ledger.closedAccepted)}::int[]
    ) as v(workspace_id, month, month_used, day, day_used, cap_day_used, cap_day_bulk, bucket, hour_used,
    hour_bulk,
           waiting, waiting_bulk, streams, next_release_at, delayed, closed_day, closed_used, closed_delayed,
           accepted, closed_accepted)
    where l.workspace_id = v.workspace_id`;
}

/** Something waits now: the keeper looks again when room may appear. */
export function expectRelease(account: Account, waitsFor: WaitsFor): void {
  const at = nextTurn(account.ledger, waitsFor);
  account.nextReleaseAt = account.nextReleaseAt === null ? at : Math.min(account.nextReleaseAt, at);
}

function columns(sql: Tx | Sql) {
  return sql`l.workspace_id as "workspaceId", w.handle, w.version::int, w.plan, w.limits,
    w.suspended_at is not null as "isSuspended",
    exists (select from suppressed_address s where s.workspace_id = l.workspace_id
      and s.undone_at is null) as suppresses,
    l.cap_day as "grownCapDay",
    l.cap_hour as "grownCapHour", l.reserved_share as "reservedShare", w.streams,
    l.stream_shares as "streamShares",
    l.streams as "streamsUsed", l.month, l.month_used as "monthUsed", l.day,
    l.day_used as "dayUsed", l.cap_day_used as "capDayUsed", l.cap_day_bulk as "capDayBulk", l.bucket,
    l.hour_used as "hourUsed", l.hour_bulk as "hourBulk", l.waiting, l.waiting_bulk as "waitingBulk",
    l.delayed, l.closed_day as "closedDay", l.closed_used as "closedUsed",
    l.closed_delayed as "closedDelayed", l.accepted, l.closed_accepted as "closedAccepted",
    l.next_release_at as "nextReleaseAt"`;
}

function accountOf(row: AccountRow): Account {
  const {
    workspaceId,
    handle,
    version,
    plan,
    limits,
    isSuspended,
    suppresses,
    grownCapDay,
    grownCapHour,
    reservedShare,
    streams,
    streamShares,
    streamsUsed,
    nextReleaseAt,
    ...counters
  } = row;
  return {
    workspaceId,
    handle,
    version,
    plan,
    isSuspended,
    suppresses,
    requestsPerSecond: limitsOf(plan, limits).requests_per_second,
    allowance: allowanceOf({ plan, limits, grownCapDay, grownCapHour, reservedShare, streams, streamShares }),
    ledger: { ...counters, streams: streamsUsed ?? {} },
    nextReleaseAt: nextReleaseAt?.getTime() ?? null,
  };
}

function streamsText({ streams }: Ledger): string | null {
  for (const _ in streams) return JSON.stringify(streams);
  return null;
}

function slots(values: readonly number[]): string {
  return `{${values.join(",")}}`;
}

/** Capacity may have appeared: what waits is looked at with the keeper's next tick. */
export async function expectReleaseNow(sql: Sql, workspaceId: string, now: Date): Promise<void> {
  await sql`update ledger set next_release_at = ${now} where workspace_id = ${workspaceId} and waiting + waiting_bulk > 0`;
}
