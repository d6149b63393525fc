/**
 * Settling: what became of e-mails, written in groups. A settle names the bag's token: only its holder may defer or
 * bounce. A delivery is always noted, however late, since the receiver has the mail; only a bounce or complaint that
 * comes afterwards changes it.
 *
 * Whoever was erased while the mail was on its way (marked x by then) is not brought back: they are not tried again,
 * their address does not enter the history, and with the last open recipient the contents go.
 */

import { plainArray } from "./arrays.ts";
import type { Held } from "./claimbag.ts";
import type { Sql, Statement, Tx } from "./connect.ts";
import type { HistoryEntry } from "./readmail.ts";

export type Settled = {
  bag: Held;
  emailId: string;
  status: "delivered" | "deferred" | "bounced" | "failed" | "suppressed" | "canceled";
  /** One letter per recipient. */
  marks: string;
  /** When this attempt began, in ms; null when nothing was tried. */
  attemptedAt: number | null;
  at: number;
  events: HistoryEntry[];
  /** Whom each event is about: the place of their mark. */
  places: number[];
  /** When it is tried again, in ms: deferred mail only. */
  nextAt: number | null;
  domain: string | null;
  reply: string | null;
};

export type TallyCounts = {
  attempted: number;
  delivered: number;
  deferred: number;
  hardBounced: number;
  softBounced: number;
  blocked: number;
  failed: number;
  /** Delivered where complaints are reported. */
  fblDelivered: number;
};
export type Tally = TallyCounts & { workspaceId: string; day: number };

/** Writes what became of e-mails, ends the bags that are done, and adds to the day's counts, in one transaction. */
export async function settle(
  sql: Sql,
  worker: string,
  settled: readonly Settled[],
  finished: readonly Held[],
  tallies: readonly Tally[],
): Promise<void> {
  // the order in which everyone locks e-mails
  const inOrder = [...settled].sort((a, b) => (a.emailId < b.emailId ? -1 : 1));
  const deferred = inOrder.filter((one) => one.nextAt !== null);
  await sql.begin(async (tx) => {
    // sent in this order, without waiting in between
    const updated = inOrder.length > 0 ? updateEmails(tx, inOrder).execute() : [];
    const writes: Statement[] = [];
    if (deferred.length > 0) writes.push(insertDeferred(tx, deferred).execute());
    if (finished.length > 0) writes.push(deleteBags(tx, finished).execute());
    if (tallies.length > 0) writes.push(addTallies(tx, worker, tallies).execute());
    const [struck] = await Promise.all([updated, ...writes]);
    if (struck.length > 0) await endStruck(tx, struck);
  });
}

/** Hands back those of which somebody was struck out. */
function updateEmails(tx: Tx, settled: readonly Settled[]) {
  const of = (pick: (one: Settled) => string | number | null): string => plainArray(settled.map(pick));
  const ids = of((s) => s.emailId);
  return tx<Struck[]>`
    with done as (
      update email e set
        status = s.status, marks = case when e.marks like '%x%' then ${marksKeptOut(tx)} else s.marks end, updated_at = s.at,
        attempts = e.attempts + case when s.attempted_at is null then 0 else 1 end,
        sent_at = coalesce(e.sent_at, s.attempted_at),
        delivered_at = case when s.status = 'delivered' then s.at else e.delivered_at end,
        delayed_at = case when s.status = 'deferred' then coalesce(e.delayed_at, s.at) else e.delayed_at end,
        bounced_at = case when s.status = 'bounced' then s.at else e.bounced_at end,
        failed_at = case when s.status = 'failed' then s.at else e.failed_at end,
        history = coalesce(e.history, '[]') ||
          case when e.marks like '%x%' then ${eventsKeptOut(tx)} else s.events end
      from (select *, to_timestamp(at_ms / 1000) as at, to_timestamp(attempted_ms / 1000) as attempted_at
        from rows from (
          unnest(${of((s) => s.bag.workspaceId)}::uuid[], ${ids}::uuid[], ${of((s) => s.status)}::text[],
            ${of((s) => s.marks)}::text[], ${of((s) => s.at)}::float8[], ${of((s) => s.attemptedAt)}::float8[],
            ${of((s) => `"{${s.places}}"`)}::text[], ${of((s) => s.bag.id)}::uuid[], ${of((s) => s.bag.token)}::uuid[]),
          jsonb_array_elements(${JSON.stringify(settled.map((s) => s.events))}::text::jsonb)
        ) as r(workspace_id, id, status, marks, at_ms, attempted_ms, places, bag_id, token, events)) as s
      where e.workspace_id = s.workspace_id and e.id = s.id and e.id = any(${ids}::uuid[])
        and case
          when s.status = 'delivered' then e.status in ('accepted', 'deferred', 'failed', 'canceled')
          else e.status in ('accepted', 'deferred') and exists (
            select from bag b where b.workspace_id = s.workspace_id and b.id = s.bag_id and b.token = s.token)
          end
      returning e.workspace_id as "workspaceId", e.id, e.marks)
    select "workspaceId", id from done where marks like '%x%'`;
}

type Struck = { workspaceId: string; id: string };

/** Who was open and is not to be tried again; what came of the others, and of them, stands. */
function marksKeptOut(tx: Tx) {
  return tx`(
    select string_agg(case when was = 'x' and became = 'o' then 'x' else became end, '' order by place)
    from unnest(string_to_array(e.marks, null), string_to_array(s.marks, null)) with ordinality as m(was, became, place))`;
}

/** The address goes, and the reply that may repeat it. An operator's cancellation marks x too, and erases nobody. */
function eventsKeptOut(tx: Tx) {
  return tx`(
    select coalesce(jsonb_agg(
      case when substr(e.marks, (s.places::int[])[n] + 1, 1) = 'x' and ${isErased(tx)}
        then (event - 'detail') || '{"recipient": "erased@erased.invalid"}' else event end order by n), '[]')
    from jsonb_array_elements(s.events) with ordinality as v(event, n))`;
}

function isErased(tx: Tx) {
  return tx`e.head::text like '%@erased.invalid%'`;
}

/** As an erasure ends a mail that is not on its way: when nobody is open any more its contents go. */
async function endStruck(tx: Tx, struck: readonly Struck[]): Promise<void> {
  const ids = struck.map(({ id }) => id);
  const over = await tx<Struck[]>`
    update email e set
      status = case
        when e.status <> 'deferred' then e.status
        when e.marks like '%b%' then 'bounced' when e.marks like '%f%' then 'failed'
        when e.marks like '%s%' then 'suppressed' when e.marks like '%d%' then 'delivered' else 'canceled' end,
      delivered_at = case when e.marks like '%d%' then coalesce(e.delivered_at, e.updated_at) end,
      bounced_at = case when e.marks like '%b%' then coalesce(e.bounced_at, e.updated_at) end,
      head = jsonb_set(e.head::jsonb, '{subject}', '""')::json
    where (e.workspace_id, e.id) in (
        select * from unnest(${struck.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]))
      and e.id = any(${ids}::uuid[]) and e.marks not like '%o%' and ${isErased(tx)}
    returning e.workspace_id as "workspaceId", e.id`;
  const overIds = over.map(({ id }) => id);
  await tx`
    update body set html = null, plain = null, extra = null
    where (workspace_id, id) in (
        select * from unnest(${over.map(({ workspaceId }) => workspaceId)}::uuid[], ${overIds}::uuid[]))
      and id = any(${overIds}::uuid[])`;
}

function insertDeferred(tx: Tx, deferred: readonly Settled[]) {
  const of = <T>(pick: (one: Settled) => T): T[] => deferred.map(pick);
  return tx`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes, domain, reply)
    select d.workspace_id, d.email_id, to_timestamp(d.at_ms / 1000), 'deferred', e.bulk, e.weight, e.bytes, d.domain,
           case when e.marks not like '%x%' then d.reply end
    from unnest(
      ${of((s) => s.bag.workspaceId)}::uuid[], ${of((s) => s.emailId)}::uuid[],
      ${of((s) => s.nextAt as number)}::float8[], ${of((s) => s.domain)}::text[], ${of((s) => s.reply)}::text[],
      ${of((s) => s.bag.id)}::uuid[], ${of((s) => s.bag.token)}::uuid[]
    ) as d(workspace_id, email_id, at_ms, domain, reply, bag_id, token)
    join email e on e.workspace_id = d.workspace_id and e.id = d.email_id and e.id = any(${of((s) => s.emailId)}::uuid[])
    where e.status = 'deferred' and e.marks like '%o%' and exists (
      select from bag b where b.workspace_id = d.workspace_id and b.id = d.bag_id and b.token = d.token)
    on conflict (workspace_id, email_id) do nothing`;
}

function deleteBags(tx: Tx, finished: readonly Held[]) {
  return tx`
    delete from bag b
    using unnest(${finished.map((bag) => bag.workspaceId)}::uuid[], ${finished.map((bag) => bag.id)}::uuid[],
                 ${finished.map((bag) => bag.token)}::uuid[]) as f(workspace_id, id, token)
    where b.workspace_id = f.workspace_id and b.id = f.id and b.token = f.token`;
}

function addTallies(tx: Tx, worker: string, tallies: readonly Tally[]) {
  const of = (pick: (tally: Tally) => number): number[] => tallies.map(pick);
  return tx`
    insert into tally as t (workspace_id, day, worker, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked, failed, fbl_delivered)
    select workspace_id, day, ${worker}, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked, failed,
           fbl_delivered
    from unnest(${tallies.map((tally) => tally.workspaceId)}::uuid[], ${of((t) => t.day)}::int[],
      ${of((t) => t.attempted)}::int[], ${of((t) => t.delivered)}::int[], ${of((t) => t.deferred)}::int[],
      ${of((t) => t.hardBounced)}::int[], ${of((t) => t.softBounced)}::int[], ${of((t) => t.blocked)}::int[],
      ${of((t) => t.failed)}::int[], ${of((t) => t.fblDelivered)}::int[])
      as n(workspace_id, day, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked, failed, fbl_delivered)
    on conflict (workspace_id, day, worker) do update set
      attempted = t.attempted + excluded.attempted, delivered = t.delivered + excluded.delivered,
      deferred = t.deferred + excluded.deferred, hard_bounced = t.hard_bounced + excluded.hard_bounced,
      soft_bounced = t.soft_bounced + excluded.soft_bounced, blocked = t.blocked + excluded.blocked,
      failed = t.failed + excluded.failed, fbl_delivered = t.fbl_delivered + excluded.fbl_delivered`;
}
