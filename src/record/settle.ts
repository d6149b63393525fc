/**
 * Settling: what became of e-mails, written in groups. A settle names the bag's token: only its holder may defer or
 * bounce. A delivery is always noted, however late, since the receiver has the mail; only a bounce or complaint that
 * comes afterwards changes it.
 */

import type { Held } from "./claimbag.ts";
import { type Sql, type Tx, truth } from "./connect.ts";
import type { HistoryEntry } from "./readmail.ts";

export type Settled = {
  bag: Held;
  emailId: string;
  bulk: boolean;
  weight: number;
  bytes: number;
  status: "delivered" | "deferred" | "bounced" | "failed" | "suppressed" | "canceled";
  /** One letter per recipient. */
  marks: string;
  /** When this attempt began, in ms; null when nothing was tried. */
  attemptedAt: number | null;
  at: number;
  events: HistoryEntry[];
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
  await sql.begin((tx) => {
    const writes = [];
    if (inOrder.length > 0) writes.push(updateEmails(tx, inOrder));
    if (deferred.length > 0) writes.push(insertDeferred(tx, deferred));
    if (finished.length > 0) writes.push(deleteBags(tx, finished));
    if (tallies.length > 0) writes.push(addTallies(tx, worker, tallies));
    return writes;
  });
}

function updateEmails(tx: Tx, settled: readonly Settled[]) {
  const of = <T>(pick: (one: Settled) => T): T[] => settled.map(pick);
  return tx`
    update email e set
      status = s.status, marks = s.marks, updated_at = s.at,
      attempts = e.attempts + case when s.attempted_at is null then 0 else 1 end,
      sent_at = coalesce(e.sent_at, s.attempted_at),
      delivered_at = case when s.status = 'delivered' then s.at else e.delivered_at end,
      delayed_at = case when s.status = 'deferred' then coalesce(e.delayed_at, s.at) else e.delayed_at end,
      bounced_at = case when s.status = 'bounced' then s.at else e.bounced_at end,
      failed_at = case when s.status = 'failed' then s.at else e.failed_at end,
      history = coalesce(e.history, '[]') || s.events::jsonb
    from unnest(
      ${of((s) => s.bag.workspaceId)}::uuid[], ${of((s) => s.emailId)}::uuid[], ${of((s) => s.status)}::text[],
      ${of((s) => s.marks)}::text[], ${of((s) => iso(s.at))}::timestamptz[],
      ${of((s) => (s.attemptedAt === null ? null : iso(s.attemptedAt)))}::timestamptz[],
      ${of((s) => JSON.stringify(s.events))}::text[], ${of((s) => s.bag.id)}::uuid[], ${of((s) => s.bag.token)}::uuid[]
    ) as s(workspace_id, id, status, marks, at, attempted_at, events, bag_id, token)
    where e.workspace_id = s.workspace_id and e.id = s.id and e.id = any(${of((s) => s.emailId)}::uuid[])
      and case
        when s.status = 'delivered' then e.status in ('accepted', 'deferred', 'failed', 'canceled')
        else e.status in ('accepted', 'deferred') and exists (
          select from bag b where b.workspace_id = s.workspace_id and b.id = s.bag_id and b.token = s.token)
        end`;
}

function insertDeferred(tx: Tx, deferred: readonly Settled[]) {
  const of = <T>(pick: (one: Settled) => T): T[] => deferred.map(pick);
  return tx`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes, domain, reply)
    select d.workspace_id, d.email_id, d.at, 'deferred', d.bulk, d.weight, d.bytes, d.domain, d.reply
    from unnest(
      ${of((s) => s.bag.workspaceId)}::uuid[], ${of((s) => s.emailId)}::uuid[],
      ${of((s) => iso(s.nextAt as number))}::timestamptz[], ${of((s) => truth(s.bulk))}::text[]::bool[],
      ${of((s) => s.weight)}::int[], ${of((s) => s.bytes)}::int[], ${of((s) => s.domain)}::text[],
      ${of((s) => s.reply)}::text[], ${of((s) => s.bag.id)}::uuid[], ${of((s) => s.bag.token)}::uuid[]
    ) as d(workspace_id, email_id, at, bulk, weight, bytes, domain, reply, bag_id, token)
    where exists (
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

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
