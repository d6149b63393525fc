/**
 * What the keeper finds and moves: due mail, waiting mail, bags that are not in line, leases that ran out. Each call
 * is one transaction, bounded in rows and found by an index, so its cost does not grow with what is queued.
 */
import type { Bag, BagRow } from "./bags.ts";
import { insertBags, pack } from "./bags.ts";
import type { Sql, Tx } from "./connect.ts";
import { advance, fullest, nextTurn, take, type WaitsFor } from "./ledger.ts";
import { type Account, expectRelease, lockAccounts, saveLedgers } from "./ledgers.ts";
import { shardOf } from "./shards.ts";

const KEEPER_LOCKS = 7_165_100;

export type TickName =
  | "pack"
  | "release"
  | "queue"
  | "leases"
  | "audit"
  | "partitions"
  | "retention"
  | "brake"
  | "erase"
  | "caps"
  | "expiry";
const TICKS: readonly TickName[] = [
  "pack",
  "release",
  "queue",
  "leases",
  "audit",
  "partitions",
  "retention",
  "brake",
  "erase",
  "caps",
  "expiry",
];

/**
 * Runs a tick that does all its work in this transaction, unless another process runs it now; null when it does. A tick
 * that works on other connections takes a lease (ticklease.ts): Postgres ends a transaction that is idle meanwhile.
 */
export async function onlyOne<T>(sql: Sql, tick: TickName, run: (tx: Tx) => Promise<T>): Promise<T | null> {
  const lock = KEEPER_LOCKS + TICKS.indexOf(tick);
  const result = await sql.begin(async (tx) => {
    const [row] = await tx<{ taken: boolean }[]>`select pg_try_advisory_xact_lock(${lock}) as taken`;
    return row?.taken ? { value: await run(tx) } : null;
  });
  return (result as { value: T } | null)?.value ?? null;
}

export type Packed = { bags: Bag[]; moved: number };

type DueRow = { workspaceId: string; emailId: string; bulk: boolean; weight: number; bytes: number };

/** Deferred mail whose time has come goes into bags as it is: its place in the caps was taken long ago. */
export async function packDeferred(tx: Tx, now: number, most: number, newId: () => string): Promise<Packed> {
  const rows = await tx<DueRow[]>`
    delete from due where (workspace_id, email_id) in (
      select workspace_id, email_id from due
      where why = 'deferred' and at <= ${new Date(now)} order by at limit ${most} for update skip locked)
    returning workspace_id as "workspaceId", email_id as "emailId", bulk, weight, bytes`;
  const bags = packRows(rows, newId);
  if (bags.length > 0) await insertBags(tx, bags, new Date(now));
  return { bags, moved: rows.length };
}

/** Scheduled mail whose time has come asks for its place in the caps now; what finds none waits. */
export async function packScheduled(tx: Tx, now: number, most: number, newId: () => string): Promise<Packed> {
  const found = await tx<{ workspaceId: string }[]>`
    select distinct workspace_id as "workspaceId" from (
      select workspace_id from due where why = 'scheduled' and at <= ${new Date(now)} order by at limit ${most}) as ready`;
  if (found.length === 0) return { bags: [], moved: 0 };
  // ledgers before e-mails, as every commit locks them
  const accounts = await lockAccounts(
    tx,
    found.map((row) => row.workspaceId),
  );
  const rows = await tx<DueRow[]>`
    select workspace_id as "workspaceId", email_id as "emailId", bulk, weight, bytes from due
    where why = 'scheduled' and at <= ${new Date(now)} and workspace_id = any(${accounts.map((a) => a.workspaceId)}::uuid[])
    order by email_id limit ${most} for update`;
  const going: DueRow[] = [];
  const waiting: (DueRow & { why: WaitsFor; at: number })[] = [];
  for (const account of accounts) {
    advance(account.ledger, now);
    for (const row of rows.filter(({ workspaceId }) => workspaceId === account.workspaceId)) {
      const why = placeOf(account, row);
      if (why === null) going.push(row);
      else waiting.push({ ...row, why, at: nextTurn(account.ledger, why) });
    }
  }
  const bags = await letGo(tx, going, now, newId);
  if (waiting.length > 0) await letWait(tx, waiting, now);
  await saveLedgers(tx, accounts);
  return { bags, moved: rows.length };
}

/** null: it may go, and is counted; otherwise what it waits for, and it counts as waiting. */
function placeOf({ ledger, allowance, ...account }: Account, { bulk, weight }: DueRow): WaitsFor | null {
  const waits = bulk ? ledger.waitingBulk : ledger.waiting;
  if (waits === 0 && take(ledger, allowance, bulk, [weight]) === 1) return null;
  if (bulk) ledger.waitingBulk++;
  else ledger.waiting++;
  ledger.delayed++;
  const why = fullest(ledger, allowance, bulk);
  expectRelease({ ledger, allowance, ...account }, why);
  return why;
}

/** The workspaces for which room may have appeared. */
export async function accountsToRelease(sql: Sql | Tx, now: number, most: number): Promise<string[]> {
  const rows = await sql<{ workspaceId: string }[]>`
    select workspace_id as "workspaceId" from ledger where next_release_at <= ${new Date(now)}
    order by next_release_at limit ${most}`;
  return rows.map((row) => row.workspaceId);
}

/** Lets out what waits in one workspace, as far as there is room: transactional first, oldest first. */
export async function release(
  tx: Tx,
  workspaceId: string,
  now: number,
  most: number,
  newId: () => string,
): Promise<Packed & { handle: string | null }> {
  const [account] = await lockAccounts(tx, [workspaceId]);
  if (!account) return { bags: [], moved: 0, handle: null };
  const { ledger, allowance } = account;
  advance(ledger, now);
  account.nextReleaseAt = null;
  const going: DueRow[] = [];
  for (const bulk of [false, true]) {
    const rows = await tx<(DueRow & { why: WaitsFor })[]>`
      select workspace_id as "workspaceId", email_id as "emailId", bulk, weight, bytes, why from due
      where workspace_id = ${workspaceId} and bulk = ${bulk} and why in ('cap_hour', 'cap_day', 'quota_month')
      order by email_id limit ${most} for update`;
    const inMonth = withinMonth(account, rows);
    const count = take(
      ledger,
      allowance,
      bulk,
      rows.slice(0, inMonth).map((row) => row.weight),
    );
    for (const row of rows.slice(0, count)) if (row.why === "quota_month") ledger.monthUsed += row.weight;
    going.push(...rows.slice(0, count));
    const remain =
      rows.length < most
        ? rows.length - count
        : Math.max(0, (bulk ? ledger.waitingBulk : ledger.waiting) - count);
    if (bulk) ledger.waitingBulk = remain;
    else ledger.waiting = remain;
    if (remain > 0) {
      const isHeldByMonth = count === inMonth && inMonth < rows.length;
      expectRelease(account, isHeldByMonth ? "quota_month" : fullest(ledger, allowance, bulk));
    }
  }
  // a full transaction leaves the rest to the next tick; a full cap, to the next turn of its window
  if (ledger.waiting + ledger.waitingBulk > 0 && going.length >= most) account.nextReleaseAt = now;
  const bags = await letGo(tx, going, now, newId);
  await saveLedgers(tx, [account]);
  return { bags, moved: going.length, handle: account.handle };
}

/** How many of these, from the first on, the month has room for; only what waited for the month is not counted yet. */
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

async function letGo(tx: Tx, going: readonly DueRow[], now: number, newId: () => string): Promise<Bag[]> {
  if (going.length === 0) return [];
  const workspaceIds = going.map((row) => row.workspaceId);
  const emailIds = going.map((row) => row.emailId);
  const bags = packRows(going, newId);
  await Promise.all([
    tx`delete from due d using unnest(${workspaceIds}::uuid[], ${emailIds}::uuid[]) as g(workspace_id, email_id)
       where d.workspace_id = g.workspace_id and d.email_id = g.email_id`,
    tx`update email e set status = 'accepted', updated_at = ${new Date(now)}
       from unnest(${workspaceIds}::uuid[], ${emailIds}::uuid[]) as g(workspace_id, id)
       where e.workspace_id = g.workspace_id and e.id = g.id and e.id = any(${emailIds}::uuid[])`,
    insertBags(tx, bags, new Date(now)),
  ]);
  return bags;
}

async function letWait(
  tx: Tx,
  waiting: readonly (DueRow & { why: WaitsFor; at: number })[],
  now: number,
): Promise<void> {
  const at = new Date(now).toISOString();
  const workspaceIds = waiting.map((row) => row.workspaceId);
  const emailIds = waiting.map((row) => row.emailId);
  const event = JSON.stringify([{ type: "delivery_delayed", at }]);
  await Promise.all([
    tx`update due d set why = w.why, at = w.at
       from unnest(${workspaceIds}::uuid[], ${emailIds}::uuid[], ${waiting.map((row) => row.why)}::text[],
                   ${waiting.map((row) => new Date(row.at).toISOString())}::timestamptz[]) as w(workspace_id, email_id, why, at)
       where d.workspace_id = w.workspace_id and d.email_id = w.email_id`,
    tx`update email e set status = 'waiting', updated_at = ${at}, delayed_at = ${at},
         history = coalesce(e.history, '[]') || ${event}::text::jsonb
       from unnest(${workspaceIds}::uuid[], ${emailIds}::uuid[]) as w(workspace_id, id)
       where e.workspace_id = w.workspace_id and e.id = w.id and e.id = any(${emailIds}::uuid[])`,
  ]);
}

function packRows(rows: readonly DueRow[], newId: () => string): Bag[] {
  const byWorkspace = new Map<string, DueRow[]>();
  for (const row of rows) {
    const some = byWorkspace.get(row.workspaceId);
    if (some) some.push(row);
    else byWorkspace.set(row.workspaceId, [row]);
  }
  return [...byWorkspace].flatMap(([workspaceId, some]) => {
    const emails = some
      .map(({ emailId, bytes }) => ({ id: emailId, bytes }))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    return pack(workspaceId, shardOf(workspaceId), emails, newId);
  });
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
      where shard = ${shard} and token is null and epoch is not null and epoch <> ${epoch} limit ${most} for update skip locked)
    returning 1`;
  return rows.length;
}

/**
 * Workspaces with bags that are not in line, in the order of their ids, after one or from the first on: a walk over the
 * index that skips from one to the next.
 */
export async function workspacesWithStrays(
  sql: Sql | Tx,
  shard: number,
  after: string | null,
  most: number,
): Promise<string[]> {
  const rows = await sql<{ workspaceId: string }[]>`
    with recursive hop as (
      (select workspace_id from bag where shard = ${shard} and token is null and epoch is null
         ${after === null ? sql`` : sql`and workspace_id > ${after}`}
       order by workspace_id limit 1)
      union all
      select (select b.workspace_id from bag b where b.shard = ${shard} and b.token is null and b.epoch is null
                and b.workspace_id > hop.workspace_id order by b.workspace_id limit 1)
      from hop where hop.workspace_id is not null
    )
    select workspace_id as "workspaceId" from hop where workspace_id is not null limit ${most}`;
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
  return sql<(BagRow & { emails: number })[]>`
    select workspace_id as "workspaceId", id, generation, shard, cardinality(email_ids) as emails from bag
    where shard = ${shard} and workspace_id = ${workspaceId} and token is null and epoch is null and created_at < ${before}
    order by id limit ${most}`;
}

/** Takes back the leases that ran out: another generation of those bags may be queued. */
export async function endExpiredLeases(tx: Sql | Tx, most: number): Promise<number> {
  const rows = await tx`
    update bag set token = null, lease_until = null, epoch = null, generation = generation + 1
    where (workspace_id, id) in (
      select workspace_id, id from bag where token is not null and lease_until < now()
      order by lease_until limit ${most} for update skip locked)
    returning 1`;
  return rows.length;
}

/** The next bags that should be in line, after a position; for the audit that looks whether they are. */
export async function queuedAfter(
  sql: Sql | Tx,
  shard: number,
  after: { workspaceId: string; id: string },
  before: Date,
  most: number,
): Promise<BagRow[]> {
  return sql<BagRow[]>`
    select workspace_id as "workspaceId", id, generation, shard from bag
    where shard = ${shard} and token is null and epoch is not null
      and (workspace_id, id) > (${after.workspaceId}, ${after.id}) and created_at < ${before}
    order by workspace_id, id limit ${most}`;
}

/** These bags are not in line after all. */
export async function unqueue(sql: Sql | Tx, bags: readonly BagRow[]): Promise<void> {
  await sql`
    update bag b set epoch = null, generation = b.generation + 1
    from unnest(${bags.map((bag) => bag.workspaceId)}::uuid[], ${bags.map((bag) => bag.id)}::uuid[],
                ${bags.map((bag) => bag.generation)}::int[]) as q(workspace_id, id, generation)
    where b.workspace_id = q.workspace_id and b.id = q.id and b.generation = q.generation and b.token is null`;
}

/** How many bags of each workspace stand in line under an epoch. */
export async function countQueued(sql: Sql | Tx, shard: number, epoch: string): Promise<Map<string, number>> {
  const rows = await sql<{ workspaceId: string; count: number }[]>`
    select workspace_id as "workspaceId", count(*)::int from bag where shard = ${shard} and epoch = ${epoch} group by 1`;
  return new Map(rows.map((row) => [row.workspaceId, row.count]));
}
