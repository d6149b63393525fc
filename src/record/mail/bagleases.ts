/**
 * The lease on a bag. Whoever holds it (token and generation) may send what is open in it, and renews it
 * every few seconds. When it has run out by the clock of Postgres, the keeper ends it and queues another
 * generation.
 */

import type { Head } from "../../rules/email.ts";
import { GRANT_LIVES_MS } from "../../rules/ledger.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import {
  arrayOf,
  boolean,
  integer,
  json,
  oneOf,
  onlyRow,
  orNull,
  type RowOf,
  text,
  typed,
} from "../db/rowshape.ts";
import { nowIn } from "../db/time.ts";
import { type Extra, lockEmails } from "./emails.ts";
import { lifetimeColumns } from "./lifetime.ts";
import { mailStreamRow } from "./mailstream.ts";

export const LEASE_SECONDS = 20;
/** A holder that has not been able to renew for so long starts no message any more. */
export const FRESH_SECONDS = 10;
const HEARD_LOOK_MS = 100;
/** The answer to a renewal that is written has still to arrive. */
const HEARD_AFTER_MS = 250;

export type BagKey = { workspaceId: string; id: string; generation: number };
export type HeldBag = BagKey & { token: string };

/** Of a mail whose link to confirm leads nowhere any more. */
export const UNASKED = "not asked to confirm any more";

/** An e-mail of a bag that is still open, with all that is needed to send it. */
const openEmailRow = {
  ...mailStreamRow,
  id: text,
  head: json<Head>(),
  bytes: integer,
  /** One letter per recipient. */
  marks: text,
  attempts: integer,
  /** When the first attempt began, in ms; null: no receiver was asked so far. */
  sentAt: orNull(integer),
  /** From when on it has been tried, in ms; null: it was not, or that is stopped (see lifetime.ts). */
  triedSince: orNull(integer),
  /** For how long it was tried until that was stopped; null: it is not. */
  triedMs: orNull(integer),
  html: orNull(text),
  plain: orNull(text),
  extra: orNull(json<Extra>()),
  /** Of the source addresses of its stream, where that names one. */
  pool: orNull(text),
  /** Why it must not leave: whom an automation wrote to may have changed their mind since. */
  barred: orNull(oneOf("unsubscribed", "pending", "archived", "erased", UNASKED)),
};
export type OpenEmail = RowOf<typeof openEmailRow>;

const claimedRow = {
  emailIds: arrayOf(text),
  /** How often the bag was taken, this time included. */
  claims: integer,
  /** How often its one e-mail may have ended a worker that composed it. */
  composing: integer,
  /**
   * How long its place in the caps still holds; when it has lapsed, another is needed before anything leaves.
   */
  lapsesInMs: integer,
  /** Whether there is any address that the workspace does not write to. */
  suppresses: boolean,
};
export type Claimed = RowOf<typeof claimedRow>;

/**
 * Takes the lease of a bag that nobody holds and whose workspace is not suspended. A lease that has run out
 * is ended by the keeper, which knows whether its holder was able to renew it; nobody else may take it.
 * `given`: the time that a test says it is, in ms; 0: Postgres'.
 */
export async function claimBag(
  sql: Sql,
  { workspaceId, id, generation, token }: HeldBag,
  given: number,
): Promise<Claimed | null> {
  const [row] = await typed(sql, claimedRow)`
    update bag set token = ${token}, lease_until = now() + make_interval(secs => ${LEASE_SECONDS}),
      claims = claims + 1
    where workspace_id = ${workspaceId} and id = ${id} and generation = ${generation} and token is null
      and not exists (select from workspace w where w.id = ${workspaceId} and w.suspended_at is not null)
    returning email_ids as "emailIds", claims, composing,
      exists (select from suppressed_address s where s.workspace_id = ${workspaceId}
        and s.undone_at is null) as suppresses,
      round(date_part('epoch',
        granted_at - ${nowIn(sql, given)}) * 1000) + ${GRANT_LIVES_MS} as "lapsesInMs"`;
  // one of the future was given before the clock was set back, who knows when
  return row ? { ...row, lapsesInMs: row.lapsesInMs > 2 * GRANT_LIVES_MS ? 0 : row.lapsesInMs } : null;
}

/** The open e-mails of a bag: those whose rows say that they travel in it. */
export async function loadOpen(
  sql: Sql,
  { workspaceId, id: bagId }: Pick<HeldBag, "workspaceId" | "id">,
  emailIds: readonly string[],
): Promise<OpenEmail[]> {
  return typed(sql, openEmailRow)`
    select e.id, e.head, e.bulk, e.stream, e.bytes, coalesce(e.marks, repeat('o', e.weight)) as marks,
      e.attempts,
           round(date_part('epoch', e.sent_at) * 1000) as "sentAt",
           ${lifetimeColumns(sql, workspaceId)},
           b.html, b.plain, b.extra,
           case when e.stream <> '' then
             (select w.streams -> e.stream ->> 'pool' from workspace w
               where w.id = ${workspaceId}) end as pool,
           case when e.contact_id is not null then nullif(coalesce((select case
             when c.archived_at is not null then 'archived'
                                           when c.status = 'subscribed' then '' else c.status end
                               from contact c
                               join audience a on a.workspace_id = c.workspace_id and a.id = c.audience_id
                                 and a.deleted_at is null
                               where c.workspace_id = e.workspace_id and c.id = e.contact_id),
                                 'erased'), '')
           end as barred
    from email e
    join body b on b.workspace_id = e.workspace_id and b.id = e.id and b.id = any(${emailIds}::uuid[])
    where e.workspace_id = ${workspaceId} and e.id = any(${emailIds}::uuid[])
      and e.status in ('accepted', 'deferred')
      and e.bag_id = ${bagId}
    order by e.id`;
}

/**
 * Names the bag in the rows of e-mails that name none: a process of an older version packed them. Hands back
 * how many there were.
 */
export async function adoptUnnamed(
  sql: Sql,
  { workspaceId, id: bagId }: HeldBag,
  emailIds: readonly string[],
): Promise<number> {
  const adopted = await sql`
    with unnamed as materialized (
      select e.workspace_id, e.id from email e
      where e.workspace_id = ${workspaceId} and e.id = any(${emailIds}::uuid[])
        and e.status in ('accepted', 'deferred')
        and e.bag_id is null
        and not exists (select from due d where d.workspace_id = e.workspace_id and d.email_id = e.id)
      order by e.id for update
    )
    update email e set bag_id = ${bagId} from unnamed
    where e.workspace_id = unnamed.workspace_id and e.id = unnamed.id and e.id = any(${emailIds}::uuid[])`;
  return adopted.count;
}

/** Part of the bag is done: only the rest counts from now on, and its claims begin anew. */
export async function narrowBag(
  sql: Sql,
  { workspaceId, id, token }: HeldBag,
  emailIds: readonly string[],
): Promise<void> {
  await sql`
    update bag set email_ids = ${emailIds}::uuid[], claims = 1
    where workspace_id = ${workspaceId} and id = ${id} and token = ${token}`;
}

/** Its one e-mail is about to be composed, or has been: a worker that it ends is remembered. */
export async function markComposing(
  sql: Sql,
  { workspaceId, id, token }: HeldBag,
  composing: number,
): Promise<void> {
  await sql`
    update bag set composing = ${composing} where workspace_id = ${workspaceId} and id = ${id}
      and token = ${token}`;
}

/** In place of one bag, one for each of its e-mails, not yet in line. */
export async function splitBag(
  sql: Sql,
  { workspaceId, id, token }: HeldBag,
  emails: readonly { id: string; bytes: number }[],
  newId: () => string,
  now: Date,
): Promise<void> {
  const emailIds = emails.map((email) => email.id);
  const bagIds = emails.map(newId);
  await sql.begin(async (tx) => {
    await lockEmails(
      tx,
      emailIds.map((emailId) => ({ workspaceId, emailId })),
    );
    const ended = await tx`
      with ended as (
        delete from bag where workspace_id = ${workspaceId} and id = ${id} and token = ${token}
          returning shard, granted_at
      )
      insert into bag (workspace_id, id, shard, email_ids, bytes, created_at, granted_at)
      select ${workspaceId}, one.id, ended.shard, array[one.email_id], one.bytes, ${now}, ended.granted_at
      from ended, unnest(${bagIds}::uuid[], ${emailIds}::uuid[],
                         ${emails.map((email) => email.bytes)}::int[]) as one(id, email_id, bytes)`;
    if (ended.count === 0) return; // somebody else holds it now
    await tx`
      update email e set bag_id = one.bag_id from unnest(${emailIds}::uuid[], ${bagIds}::uuid[]) as one(id,
        bag_id)
      where e.workspace_id = ${workspaceId} and e.id = one.id and e.id = any(${emailIds}::uuid[])
        and e.bag_id = ${id}`;
  });
}

/**
 * Renews leases; hands back the bags that are still held, and whether their workspaces have been suspended.
 */
export async function renewLeases(sql: Sql, held: readonly HeldBag[]): Promise<Map<string, boolean>> {
  const rows = await typed(sql, { id: text, isSuspended: boolean })`
    with held as materialized (${lockHeld(sql, held)})
    update bag b set lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
    from held where b.workspace_id = held.workspace_id and b.id = held.id
    returning b.id, exists (
      select from workspace w where w.id = b.workspace_id and w.suspended_at is not null) as "isSuspended"`;
  return new Map(rows.map(({ id, isSuspended }) => [id, isSuspended]));
}

/**
 * Resolves when no worker starts a message of a workspace that was suspended before: all have heard of it
 * with a renewal, or could not renew for so long that they have stopped by themselves.
 */
export async function untilHeard(sql: Sql, workspaceId: string): Promise<void> {
  const { at } = onlyRow(await typed(sql, { at: text })`select clock_timestamp()::text as at`);
  const until = performance.now() + FRESH_SECONDS * 1_000;
  for (;;) {
    const [unheard] = await sql`
      select from bag where workspace_id = ${workspaceId} and token is not null
        and lease_until < ${at}::text::timestamptz + make_interval(secs => ${LEASE_SECONDS})
        and lease_until > now() + make_interval(secs => ${LEASE_SECONDS - FRESH_SECONDS})
      limit 1`;
    if (!unheard || performance.now() > until) break;
    await new Promise((resolve) => setTimeout(resolve, HEARD_LOOK_MS));
  }
  await new Promise((resolve) => setTimeout(resolve, HEARD_AFTER_MS));
}

/** Gives bags back unfinished, which is no sign against them: another generation may be queued at once. */
export function releaseBags(sql: Sql | Tx, held: readonly HeldBag[]): Statement {
  return sql`
    with held as materialized (${lockHeld(sql, held)})
    update bag b set token = null, lease_until = null, epoch = null, generation = b.generation + 1,
      claims = greatest(b.claims - 1, 0)
    from held where b.workspace_id = held.workspace_id and b.id = held.id`;
}

/** Nothing of these bags is open any more. */
export function deleteBags(sql: Sql | Tx, held: readonly HeldBag[]): Statement {
  return sql`
    with held as materialized (${lockHeld(sql, held)})
    delete from bag b using held where b.workspace_id = held.workspace_id and b.id = held.id`;
}

/** Bags that are held, locked in the order of their keys. */
export function lockBags(tx: Tx, held: readonly HeldBag[]): Statement {
  return tx`${lockHeld(tx, held)}`;
}

function lockHeld(sql: Sql | Tx, held: readonly HeldBag[]) {
  return sql`
    select b.workspace_id, b.id from bag b
    join unnest(${held.map((bag) => bag.workspaceId)}::uuid[], ${held.map((bag) => bag.id)}::uuid[],
                ${held.map((bag) => bag.token)}::uuid[]) as h(workspace_id, id, token)
      on b.workspace_id = h.workspace_id and b.id = h.id and b.token = h.token
    order by b.workspace_id, b.id for update of b`;
}
