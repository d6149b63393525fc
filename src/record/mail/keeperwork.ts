/**
 * What the keeper finds and moves: due mail, waiting mail, bags that are not queued, expired leases. Each
 * call is one transaction, bounded in rows and found by an index, so its cost does not grow with what is
 * queued.
 */

import { isOpen } from "../../rules/email.ts";
import {
  addWaiting,
  advance,
  fullest,
  GRANT_LIVES_MS,
  giveBack,
  isLapsed,
  letPass,
  nextTurn,
  take,
  type WaitsFor,
  waitingIn,
  waitingStreams,
} from "../../rules/ledger.ts";
import type { MailStream } from "../../rules/stream.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { boolean, integer, oneOf, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import { nowIn, transactionTime } from "../db/time.ts";
import { type Account, expectRelease, lockAccounts, saveLedgers } from "../workspaces/ledgers.ts";
import { resumedIn, suspendedOf } from "../workspaces/suspension.ts";
import { type HeldBag, LEASE_SECONDS } from "./bagleases.ts";
import {
  type Bag,
  type Bagging,
  type BagRow,
  bagOfEach,
  bagRow,
  insertBags,
  isNotNew,
  pack,
} from "./bags.ts";
import { deleteDue, holdDue } from "./due.ts";
import { type EmailKey, emailKeyRow, lockEmails, privateMails } from "./emails.ts";
import { stopLifetimes } from "./lifetime.ts";
import { mailStreamRow } from "./mailstream.ts";

const KEEPER_LOCKS = 7_165_100;
const ID_FIRST = "00000000-0000-0000-0000-000000000000";

export type TickName =
  | "pack"
  | "release"
  | "queue"
  | "leases"
  | "audit"
  | "partitions"
  | "retention"
  | "overload"
  | "erase"
  | "caps"
  | "expiry"
  | "domains"
  | "events"
  | "holds"
  | "search";
const TICKS: readonly TickName[] = [
  "pack",
  "release",
  "queue",
  "leases",
  "audit",
  "partitions",
  "retention",
  "overload",
  "erase",
  "caps",
  "expiry",
  "domains",
  "events",
  "holds",
  "search",
];

/**
 * Runs a tick that does all its work in this transaction, unless another process runs it now; null when it
 * does. A tick that works on other connections takes a lease (ticklease.ts): Postgres ends a transaction that
 * is idle meanwhile. The time of the transaction (unless a test gives another) is the time of the tick.
 */
export async function onlyOne<T>(
  sql: Sql,
  tick: TickName,
  given: number,
  run: (tx: Tx, now: number) => Promise<T>,
): Promise<T | null> {
  const lock = KEEPER_LOCKS + TICKS.indexOf(tick);
  const result = await sql.begin(async (tx) => {
    const [row] = await typed(tx, { taken: boolean, now: timestamp })`
      select pg_try_advisory_xact_lock(${lock}) as taken, now() as now`;
    return row?.taken ? { value: await run(tx, given || row.now.getTime()) } : null;
  });
  return (result as { value: T } | null)?.value ?? null;
}

/** Whether mail has come due, or was held in a workspace that was resumed. */
export function hasDue(sql: Sql, now: Statement) {
  return sql`(
    exists (select from due where why in ('scheduled', 'deferred') and not is_held and at <= ${now})
    or exists (${resumedIn(sql, "due")}) or exists (${resumedIn(sql, "run")}))`;
}

/** `hasLeft`: something was left for the next step, however little was moved. */
export type Packed = { bags: Bag[]; moved: number; hasLeft?: boolean };

/** Ledgers that one step locks: thousands of them would take too long to read in one turn. */
const ACCOUNTS_MAX = 500;

/** The first of these, as far as they are of so many workspaces. */
function ofFewWorkspaces<Key extends EmailKey>(found: readonly Key[]): readonly Key[] {
  const workspaceIds = new Set<string>();
  const end = found.findIndex(({ workspaceId }) => workspaceIds.add(workspaceId).size > ACCOUNTS_MAX);
  return end < 0 ? found : found.slice(0, end);
}

const dueRow = { ...mailStreamRow, workspaceId: text, emailId: text, weight: integer, bytes: integer };
type DueRow = RowOf<typeof dueRow>;
const lockedDueRow = { ...dueRow, grantedAt: orNull(timestamp) };
type LockedDue = RowOf<typeof lockedDueRow>;
/** `grantedAt`: when it got its place in the caps, in ms. */
type Going = DueRow & { grantedAt: number };
type WaitingWorkspace = DueRow & { why: WaitsFor; at: number };

/**
 * Deferred mail whose time has come goes into bags. Its place in the caps is the one it had, or another when
 * that has lapsed; what finds none waits.
 */
export async function packDeferred(tx: Tx, now: number, most: number, bagging: Bagging): Promise<Packed> {
  const [from, to] = [new Date(now - GRANT_LIVES_MS), new Date(now + GRANT_LIVES_MS)];
  const due = await typed(tx, { ...emailKeyRow, isLapsed: boolean })`
    select workspace_id as "workspaceId", email_id as "emailId",
      coalesce(granted_at not between ${from} and ${to}, true) as "isLapsed"
    from due where why = 'deferred' and at <= ${new Date(now)} and not is_held order by at limit ${most}`;
  const found = ofFewWorkspaces(due);
  if (found.length === 0) return { bags: [], moved: 0 };
  const held = await holdSuspended(tx, found);
  // the others are taken at once: at the next look more of that workspace would be due
  if (held > 0) return { bags: [], moved: held, hasLeft: true };
  const lapsed = found.filter(({ isLapsed }) => isLapsed).map(({ workspaceId }) => workspaceId);
  const accounts = lapsed.length > 0 ? await lockAccounts(tx, [...new Set(lapsed)]) : [];
  const locked = await lockEmails(tx, found, "skip");
  const open = locked.filter(({ status }) => status === "deferred");
  const rows = await lockDue(tx, open, "deferred", now);
  // a late answer has settled what is not deferred any more
  if (open.length < locked.length)
    await deleteDue(
      tx,
      locked.filter(({ status }) => isFinal(status)),
    );
  const accountOf = byWorkspace(accounts, now);
  const free = accounts.length > 0 ? await privateMails(tx, rows) : NONE;
  const going: Going[] = [];
  const waiting: WaitingWorkspace[] = [];
  for (const { grantedAt, ...row } of rows) {
    const at = grantedAt?.getTime() ?? 0;
    const account = accountOf.get(row.workspaceId);
    if (!isLapsed(at, now) || !account) going.push({ ...row, grantedAt: at });
    else {
      giveBack(account.ledger, row, row.weight, at);
      place(account, row, now, going, waiting, free);
    }
  }
  const [bags] = await Promise.all([letGo(tx, going, now, bagging, "deferred"), deleteDue(tx, going)]);
  if (waiting.length > 0) await letWait(tx, waiting, now);
  if (accounts.length > 0) await saveLedgers(tx, accounts);
  return { bags, moved: rows.length, hasLeft: rows.length > 0 && found.length < due.length };
}

/** Sets aside what came due in suspended workspaces, so that it is not met again; says how much. */
async function holdSuspended(tx: Tx, found: readonly EmailKey[]): Promise<number> {
  const suspended = await suspendedOf(
    tx,
    found.map(({ workspaceId }) => workspaceId),
  );
  if (suspended.size === 0) return 0;
  return holdDue(
    tx,
    found.filter(({ workspaceId }) => suspended.has(workspaceId)),
  );
}

/** Scheduled mail whose time has come asks for its place in the caps now; what finds none waits. */
export async function packScheduled(tx: Tx, now: number, most: number, bagging: Bagging): Promise<Packed> {
  const due = await typed(tx, emailKeyRow)`
    select workspace_id as "workspaceId", email_id as "emailId" from due
    where why = 'scheduled' and at <= ${new Date(now)} and not is_held order by at limit ${most}`;
  const found = ofFewWorkspaces(due);
  if (found.length === 0) return { bags: [], moved: 0 };
  const held = await holdSuspended(tx, found);
  if (held > 0) return { bags: [], moved: held, hasLeft: true };
  const accounts = await lockAccounts(tx, [...new Set(found.map((row) => row.workspaceId))]);
  const open = (await lockEmails(tx, found, "skip")).filter(({ status }) => status === "scheduled");
  const rows = await lockDue(tx, open, "scheduled", now);
  const accountOf = byWorkspace(accounts, now);
  const going: Going[] = [];
  const waiting: WaitingWorkspace[] = [];
  for (const row of rows) {
    const account = accountOf.get(row.workspaceId);
    if (account) place(account, row, now, going, waiting);
  }
  const [bags] = await Promise.all([letGo(tx, going, now, bagging), deleteDue(tx, going)]);
  if (waiting.length > 0) await letWait(tx, waiting, now);
  await saveLedgers(tx, accounts);
  return { bags, moved: rows.length, hasLeft: rows.length > 0 && found.length < due.length };
}

/**
 * The place of a bag in the caps has lapsed before it could leave. Its e-mails take another; what finds none
 * leaves the bag and waits. The time for which they have been tried stops, so whoever has read them reads
 * them again. Hands back the ids of those that may go; null: somebody else holds the bag.
 */
export async function renewGrant(
  sql: Sql,
  bag: HeldBag,
  emailIds: readonly string[],
  given: number,
): Promise<Set<string> | null> {
  const { workspaceId, id, token } = bag;
  const renewed = sql.begin(async (tx) => {
    const accounts = await lockAccounts(tx, [workspaceId]);
    const keys = emailIds.map((emailId) => ({ workspaceId, emailId }));
    const open = (await lockEmails(tx, keys)).filter(
      ({ status, bagId }) => bagId === id && (status === "accepted" || status === "deferred"),
    );
    const [held] = await typed(tx, { grantedAt: timestamp, createdAt: timestamp })`
      select granted_at as "grantedAt", created_at as "createdAt" from bag
      where workspace_id = ${workspaceId} and id = ${id} and token = ${token}`;
    if (!held) return null;
    const now = await transactionTime(tx, given);
    const account = byWorkspace(accounts, now).get(workspaceId);
    if (!account) return new Set(emailIds); // its workspace is gone
    const rows = open.map(({ open: weight, ...email }) => ({ ...email, weight }));
    for (const row of rows) giveBack(account.ledger, row, row.weight, held.grantedAt.getTime());
    const going: Going[] = [];
    const waiting: WaitingWorkspace[] = [];
    const free = await privateMails(tx, rows);
    for (const row of rows) place(account, row, now, going, waiting, free);
    // since it was packed nobody was asked: its worker or the smarthost was away, or others were before it
    await stopLifetimes(tx, rows, held.createdAt);
    if (waiting.length > 0) await letWait(tx, waiting, now);
    const goingIds = going.map(({ emailId }) => emailId);
    const kept = await tx`
      update bag set email_ids = ${goingIds}::uuid[], granted_at = ${new Date(now)}
      where workspace_id = ${workspaceId} and id = ${id} and token = ${token}`;
    if (kept.count === 0)
      throw new LeaseEnded("the lease of a bag ended while its place in the caps was renewed");
    await saveLedgers(tx, [account]);
    return new Set(goingIds);
  });
  return renewed.catch((error) => {
    if (error instanceof LeaseEnded) return null;
    throw error;
  });
}

/** Undoes the transaction: its bag has been locked last, and somebody else was faster. */
class LeaseEnded extends Error {}

const NONE: ReadonlySet<string> = new Set();

/** It leaves and counts towards the caps, or it waits and counts as waiting. `free`: who wait for no cap. */
function place(
  account: Account,
  row: DueRow,
  now: number,
  going: Going[],
  waiting: WaitingWorkspace[],
  free = NONE,
): void {
  const { ledger, allowance } = account;
  if (free.has(row.emailId)) {
    letPass(ledger, row, [row.weight]);
    going.push({ ...row, grantedAt: now });
    return;
  }
  if (waitingIn(ledger, row) === 0 && take(ledger, allowance, row, [row.weight]) === 1) {
    going.push({ ...row, grantedAt: now });
    return;
  }
  addWaiting(ledger, row, 1);
  ledger.delayed++;
  const why = fullest(ledger, allowance, row);
  expectRelease(account, why);
  waiting.push({ ...row, why, at: nextTurn(ledger, why) });
}

/** Moves the windows of all accounts to this time. */
function byWorkspace(accounts: readonly Account[], now: number): Map<string, Account> {
  for (const { ledger } of accounts) advance(ledger, now);
  return new Map(accounts.map((account) => [account.workspaceId, account]));
}

/**
 * The due rows of e-mails that are locked already, in the order of their keys: those that are due for this
 * reason.
 */
async function lockDue(
  tx: Tx,
  keys: readonly EmailKey[],
  why: "scheduled" | "deferred",
  now: number,
): Promise<LockedDue[]> {
  return typed(tx, lockedDueRow)`
    select d.workspace_id as "workspaceId", d.email_id as "emailId", d.bulk, d.stream, d.weight, d.bytes,
      d.granted_at as "grantedAt"
    from due d
    join unnest(${keys.map((key) => key.workspaceId)}::uuid[], ${keys.map((key) => key.emailId)}::uuid[])
      as k(workspace_id, email_id) using (workspace_id, email_id)
    where d.why = ${why} and d.at <= ${new Date(now)}
    order by d.workspace_id, d.email_id for update of d`;
}

/** Whether room may have appeared for a workspace. */
export function hasRoomed(sql: Sql, now: Statement) {
  return sql`exists (select from ledger where next_release_at <= ${now})`;
}

/** The workspaces for which room may have appeared. */
export async function accountsToRelease(sql: Sql | Tx, given: number, most: number): Promise<string[]> {
  const rows = await typed(sql, { workspaceId: text })`
    select workspace_id as "workspaceId" from ledger where next_release_at <= ${nowIn(sql, given)}
    order by next_release_at limit ${most}`;
  return rows.map((row) => row.workspaceId);
}

/** Queues waiting mail of one workspace, as far as there is room: transactional first, oldest first. */
export async function release(
  tx: Tx,
  workspaceId: string,
  now: number,
  most: number,
  bagging: Bagging,
): Promise<Packed & { handle: string | null }> {
  const [account] = await lockAccounts(tx, [workspaceId]);
  if (!account) return { bags: [], moved: 0, handle: null };
  const { ledger, allowance } = account;
  advance(ledger, now);
  account.nextReleaseAt = null;
  if (account.isSuspended) {
    await saveLedgers(tx, [account]);
    return { bags: [], moved: 0, handle: null };
  }
  const going: DueRow[] = [];
  for (const stream of waitingStreams(ledger)) {
    const rows = await waitingRows(tx, workspaceId, stream, { most, isPaid: false, after: ID_FIRST });
    const inMonth = withinMonth(account, rows);
    const paid = rows.slice(0, inMonth);
    const held = rows[inMonth];
    // what waits for the month keeps back nothing that the month has counted
    if (held) {
      const behind = { most: most - inMonth, isPaid: true, after: held.emailId };
      paid.push(...(await waitingRows(tx, workspaceId, stream, behind)));
    }
    const count = take(
      ledger,
      allowance,
      stream,
      paid.map((row) => row.weight),
    );
    for (const row of paid.slice(0, count)) if (row.why === "quota_month") ledger.monthUsed += row.weight;
    going.push(...paid.slice(0, count));
    const known = waitingIn(ledger, stream);
    const remain = rows.length < most ? rows.length - count : Math.max(0, known - count);
    addWaiting(ledger, stream, remain - known);
    if (remain > 0) {
      const isHeldByMonth = held !== undefined && count === paid.length;
      expectRelease(account, isHeldByMonth ? "quota_month" : fullest(ledger, allowance, stream));
    }
  }
  // a full transaction leaves the rest to the next tick; a full cap, to the next turn of its window
  if (ledger.waiting + ledger.waitingBulk > 0 && going.length >= most) account.nextReleaseAt = now;
  const locked = await lockEmails(tx, going);
  const waiting = new Set(locked.filter(({ status }) => status === "waiting").map(({ emailId }) => emailId));
  // a late answer may have settled one that waits
  const ready = going.filter(({ emailId }) => waiting.has(emailId));
  const granted = ready.map((row) => ({ ...row, grantedAt: now }));
  const [bags] = await Promise.all([letGo(tx, granted, now, bagging), deleteDue(tx, going)]);
  await saveLedgers(tx, [account]);
  return { bags, moved: going.length, handle: account.handle };
}

const waitingRow = { ...dueRow, why: oneOf("cap_hour", "cap_day", "quota_month") };
type WaitingRow = RowOf<typeof waitingRow>;

/**
 * What waits in a stream, oldest first; the lock on the ledger protects it. `isPaid`: only what the month has
 * counted.
 */
async function waitingRows(
  tx: Tx,
  workspaceId: string,
  { bulk, stream }: MailStream,
  { most, isPaid, after }: { most: number; isPaid: boolean; after: string },
): Promise<WaitingRow[]> {
  const reasons = isPaid ? tx`('cap_hour', 'cap_day')` : tx`('cap_hour', 'cap_day', 'quota_month')`;
  return typed(tx, waitingRow)`
    select workspace_id as "workspaceId", email_id as "emailId", bulk, stream, weight, bytes, why from due
    where workspace_id = ${workspaceId} and bulk = ${bulk} and stream = ${stream} and why in ${reasons}
      and email_id > ${after}
    order by email_id limit ${most}`;
}

/**
 * How many of these, from the first on, the month has room for; only what waited for the month is not counted
 * yet.
 */
function withinMonth(
  { ledger, allowance }: Account,
  rows: readonly { why: WaitsFor; weight: number }[],
): number {
  let room = allowance.monthLimit - ledger.monthUsed;
  for (const [n, { why, weight }] of rows.entries()) {
    if (why !== "quota_month") continue;
    room -= weight;
    if (room < 0) return n;
  }
  return rows.length;
}

function isFinal(status: string): boolean {
  return !isOpen(status);
}

/** Into bags. The e-mails are locked and open; their due rows are the caller's to delete. */
async function letGo(
  tx: Tx,
  going: readonly Going[],
  now: number,
  bagging: Bagging,
  from: "deferred" | "held back" = "held back",
): Promise<Bag[]> {
  if (going.length === 0) return [];
  const bags = packRows(going, bagging);
  const bagOf = bagOfEach(bags);
  const emailIds = [...bagOf.keys()];
  const workspaceIds = bags.flatMap((bag) => bag.emailIds.map(() => bag.workspaceId));
  // to callers a retry stays deferred until it is answered
  const accepted = from === "deferred" ? tx`` : tx`, status = 'accepted', updated_at = ${new Date(now)}`;
  await Promise.all([
    tx`update email e set bag_id = g.bag_id ${accepted}
       from unnest(${workspaceIds}::uuid[], ${emailIds}::uuid[],
         ${[...bagOf.values()]}::uuid[]) as g(workspace_id, id, bag_id)
       where e.workspace_id = g.workspace_id and e.id = g.id and e.id = any(${emailIds}::uuid[])`,
    insertBags(tx, bags, new Date(now)),
  ]);
  return bags;
}

/** The e-mails are locked. They leave the bag they may be in, and are not tried while they wait. */
async function letWait(tx: Tx, waiting: readonly WaitingWorkspace[], now: number): Promise<void> {
  const at = new Date(now).toISOString();
  const workspaceIds = waiting.map((row) => row.workspaceId);
  const emailIds = waiting.map((row) => row.emailId);
  const event = JSON.stringify([{ type: "delivery_delayed", at }]);
  await Promise.all([
    stopLifetimes(tx, waiting, new Date(now)),
    tx`update email e set status = 'waiting', bag_id = null, updated_at = ${at}, delayed_at = ${at},
         history = coalesce(e.history, '[]') || ${event}::text::jsonb
       from unnest(${workspaceIds}::uuid[], ${emailIds}::uuid[]) as w(workspace_id, id)
       where e.workspace_id = w.workspace_id and e.id = w.id and e.id = any(${emailIds}::uuid[])`,
    tx`insert into due (workspace_id, email_id, at, why, bulk, stream, weight, bytes)
       select * from unnest(${workspaceIds}::uuid[], ${emailIds}::uuid[],
         ${waiting.map((row) => new Date(row.at).toISOString())}::timestamptz[],
         ${waiting.map((row) => row.why)}::text[],
         ${waiting.map((row) => String(row.bulk))}::text[]::bool[],
         ${waiting.map((row) => row.stream)}::text[], ${waiting.map((row) => row.weight)}::int[],
         ${waiting.map((row) => row.bytes)}::int[])
       on conflict (workspace_id, email_id) do update set why = excluded.why, at = excluded.at,
         weight = excluded.weight,
         domain = null, reply = null, held_by = null, granted_at = null`,
  ]);
}

function packRows(rows: readonly Going[], bagging: Bagging): Bag[] {
  const ofWorkspace = new Map<string, Going[]>();
  for (const row of rows) {
    const some = ofWorkspace.get(row.workspaceId);
    if (some) some.push(row);
    else ofWorkspace.set(row.workspaceId, [row]);
  }
  return [...ofWorkspace].flatMap(([workspaceId, some]) => {
    const emails = some
      .map(({ emailId, bytes, grantedAt }) => ({ id: emailId, bytes, grantedAt }))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    return pack(workspaceId, emails, bagging);
  });
}

/** Whether there are bags that nobody has taken: each may have lost its job, or never had one. */
export function hasUntaken(sql: Sql) {
  return sql`(exists (select from bag where token is null and epoch is null) or ${hasQueued(sql)})`;
}

export function hasQueued(sql: Sql) {
  return sql`exists (select from bag where token is null and epoch is not null)`;
}

/** By the clock of Postgres, as leases are renewed. */
export function hasExpiredLeases(sql: Sql) {
  return sql`(exists (select from bag where token is not null and lease_until < now())
    or exists (select from bag where token is not null
      and lease_until > now() + make_interval(secs => ${LEASE_SECONDS_MAX})))`;
}

/** Bags that were put in line under another epoch are not in this one: they have to be queued again. */
export async function unqueueOtherEpochs(
  tx: Sql | Tx,
  shard: number,
  epoch: string,
  most: number,
): Promise<number> {
  const rows = await tx`
    update bag set epoch = null, generation = generation + 1 where (workspace_id, id) in (
      select workspace_id, id from bag
      where shard = ${shard} and token is null and epoch is not null and epoch <> ${epoch}
      order by workspace_id, id limit ${most} for update skip locked)
    returning 1`;
  return rows.length;
}

/**
 * Workspaces with bags that are not in line, in the order of their ids, after one or from the first on: a
 * walk over the index that skips from one to the next. Suspended ones keep theirs.
 */
export async function workspacesWithStrays(
  sql: Sql | Tx,
  shard: number,
  after: string | null,
  most: number,
): Promise<string[]> {
  const rows = await typed(sql, { workspaceId: text })`
    with recursive hop as (
      (select workspace_id from bag where shard = ${shard} and token is null and epoch is null
         ${after === null ? sql`` : sql`and workspace_id > ${after}`}
       order by workspace_id limit 1)
      union all
      select (select b.workspace_id from bag b where b.shard = ${shard} and b.token is null
        and b.epoch is null
                and b.workspace_id > hop.workspace_id order by b.workspace_id limit 1)
      from hop where hop.workspace_id is not null
    )
    select workspace_id as "workspaceId" from hop
    where workspace_id is not null
      -- asked of one after the other: a join would put them in another order, and walk to the end
      and (select w.suspended_at from workspace w where w.id = hop.workspace_id) is null
    limit ${most}`;
  return rows.map((row) => row.workspaceId);
}

/** The oldest bags of a workspace that are not in line; those just made are left to whoever made them. */
export async function strays(
  sql: Sql | Tx,
  shard: number,
  workspaceId: string,
  before: Date,
  most: number,
): Promise<(BagRow & { emails: number })[]> {
  return typed(sql, { ...bagRow, emails: integer })`
    select workspace_id as "workspaceId", id, generation, shard, cardinality(email_ids) as emails from bag
    where shard = ${shard} and workspace_id = ${workspaceId} and token is null and epoch is null
      and ${isNotNew(sql, before)}
    order by id limit ${most}`;
}

/**
 * Takes back leases that had run out at `seenAt`, when the caller last saw Postgres: another generation of
 * those bags may be queued. Takes back nothing when it is executed much later, since holders may have been
 * unable to renew meanwhile, nor when the clock was set back since. A lease that ends later than any that was
 * renewed by this clock is of a holder that died before the clock was set back: the caller has seen Postgres
 * for a lease period.
 */
export async function endExpiredLeases(tx: Sql | Tx, seenAt: Date, most: number): Promise<number> {
  const latest = new Date(seenAt.getTime() + LEASE_SECONDS_MAX * 1_000);
  const rows = await tx`
    with expired as materialized (
      (select workspace_id, id from bag where token is not null and lease_until < ${seenAt}
       order by lease_until limit ${most})
      union all
      (select workspace_id, id from bag where token is not null and lease_until > ${latest}
       order by lease_until desc limit ${most})
      limit ${most}
    ), held as materialized (
      select b.workspace_id, b.id from bag b join expired using (workspace_id, id)
      where b.token is not null and (b.lease_until < ${seenAt} or b.lease_until > ${latest})
        and clock_timestamp() between ${seenAt}
          and ${seenAt}::timestamptz + make_interval(secs => ${SEEN_SECONDS})
      order by b.workspace_id, b.id for update of b skip locked
    )
    update bag b set token = null, lease_until = null, epoch = null, generation = generation + 1
    from held where b.workspace_id = held.workspace_id and b.id = held.id
    returning 1`;
  return rows.length;
}

/** How long Postgres counts as seen. */
const SEEN_SECONDS = 2;
/** No lease that a living holder has renewed ends so far ahead, also when a statement takes its time. */
const LEASE_SECONDS_MAX = 2 * LEASE_SECONDS;

/** The next bags that should be in line, after a position; for the audit that looks whether they are. */
export async function queuedAfter(
  sql: Sql | Tx,
  shard: number,
  after: { workspaceId: string; id: string },
  before: Date,
  most: number,
): Promise<BagRow[]> {
  return typed(sql, bagRow)`
    select workspace_id as "workspaceId", id, generation, shard from bag
    where shard = ${shard} and token is null and epoch is not null
      and (workspace_id, id) > (${after.workspaceId}, ${after.id}) and ${isNotNew(sql, before)}
    order by workspace_id, id limit ${most}`;
}

const countRow = { workspaceId: text, count: integer };

/** How many bags of these workspaces stand in line under an epoch; of those that are not named, none. */
export async function countQueued(
  sql: Sql | Tx,
  shard: number,
  epoch: string,
  workspaceIds: readonly string[],
): Promise<Map<string, number>> {
  return byId(
    await typed(sql, countRow)`
      select workspace_id as "workspaceId", count(*)::int from bag
      where workspace_id = any(${[...workspaceIds]}::uuid[]) and shard = ${shard} and epoch = ${epoch}
      group by workspace_id`,
  );
}

/** The same of the next workspaces that have any, by their ids, after one or from the first on. */
export async function countQueuedAfter(
  sql: Sql | Tx,
  shard: number,
  epoch: string,
  after: string | null,
  most: number,
): Promise<Map<string, number>> {
  return byId(
    await typed(sql, countRow)`
      select workspace_id as "workspaceId", count(*)::int from bag
      where workspace_id > ${after ?? ID_FIRST} and shard = ${shard} and epoch = ${epoch}
      group by workspace_id order by workspace_id limit ${most}`,
  );
}

function byId(rows: readonly RowOf<typeof countRow>[]): Map<string, number> {
  return new Map(rows.map((row) => [row.workspaceId, row.count]));
}
