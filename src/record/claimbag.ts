/**
 * The lease on a bag. Whoever holds it (token and generation) may send what is open in it; it is renewed every few
 * seconds, others may take it when it has run out, by the one clock of Postgres.
 */
import type { Sql } from "./connect.ts";
import type { Extra, Head } from "./emails.ts";

export const LEASE_SECONDS = 20;

export type BagKey = { workspaceId: string; id: string; generation: number };
export type Held = BagKey & { token: string };

/** An e-mail of a bag that is still open, with all that is needed to send it. */
export type OpenEmail = {
  id: string;
  head: Head;
  bytes: number;
  /** One letter per recipient. */
  marks: string;
  attempts: number;
  /** When it was to go first, in ms. */
  since: number;
  /** When the first attempt began, in ms. */
  sentAt: number | null;
  html: string | null;
  plain: string | null;
  extra: Extra | null;
  /** Why it must not leave: whom an automation wrote to may have changed their mind since. */
  barred: "unsubscribed" | "pending" | "archived" | "erased" | null;
};

/** Takes the lease of a bag, if it is free; hands back its e-mails' ids and how often it was taken. */
export async function claimBag(
  sql: Sql,
  { workspaceId, id, generation, token }: Held,
): Promise<{ emailIds: string[]; claims: number } | null> {
  const [row] = await sql<{ emailIds: string[]; claims: number }[]>`
    update bag set token = ${token}, lease_until = now() + make_interval(secs => ${LEASE_SECONDS}), claims = claims + 1
    where workspace_id = ${workspaceId} and id = ${id} and generation = ${generation}
      and (token is null or lease_until < now())
    returning email_ids as "emailIds", claims`;
  return row ?? null;
}

/** The open e-mails of a bag. One that already waits again (settled before a crash) is not open. */
export async function loadOpen(
  sql: Sql,
  workspaceId: string,
  emailIds: readonly string[],
): Promise<OpenEmail[]> {
  return sql<OpenEmail[]>`
    select e.id, e.head, e.bytes, coalesce(e.marks, repeat('o', e.weight)) as marks, e.attempts,
           round(date_part('epoch', coalesce(e.scheduled_at, e.created_at)) * 1000) as since,
           round(date_part('epoch', e.sent_at) * 1000) as "sentAt", b.html, b.plain, b.extra,
           case when e.contact_id is not null then nullif(coalesce((select case when c.archived_at is not null then 'archived'
                                           when c.status = 'subscribed' then '' else c.status end
                               from contact c where c.workspace_id = e.workspace_id and c.id = e.contact_id), 'erased'), '')
           end as barred
    from email e
    join body b on b.workspace_id = e.workspace_id and b.id = e.id and b.id = any(${emailIds}::uuid[])
    where e.workspace_id = ${workspaceId} and e.id = any(${emailIds}::uuid[]) and e.status in ('accepted', 'deferred')
      and not exists (select from due d where d.workspace_id = e.workspace_id and d.email_id = e.id)
    order by e.id`;
}

/** Part of the bag is done: only the rest counts from now on, and its claims begin anew. */
export async function narrowBag(
  sql: Sql,
  { workspaceId, id, token }: Held,
  emailIds: readonly string[],
): Promise<void> {
  await sql`
    update bag set email_ids = ${emailIds}::uuid[], claims = 1
    where workspace_id = ${workspaceId} and id = ${id} and token = ${token}`;
}

/** In place of one bag, one for each of its e-mails, not yet in line. */
export async function splitBag(
  sql: Sql,
  { workspaceId, id, token }: Held,
  emails: readonly { id: string; bytes: number }[],
  newId: () => string,
  now: Date,
): Promise<void> {
  await sql`
    with ended as (
      delete from bag where workspace_id = ${workspaceId} and id = ${id} and token = ${token} returning shard
    )
    insert into bag (workspace_id, id, shard, email_ids, bytes, created_at)
    select ${workspaceId}, one.id, ended.shard, array[one.email_id], one.bytes, ${now}
    from ended, unnest(${emails.map(newId)}::uuid[], ${emails.map((email) => email.id)}::uuid[],
                       ${emails.map((email) => email.bytes)}::int[]) as one(id, email_id, bytes)`;
}

/** Renews leases; hands back the ids of the bags that are still held. */
export async function renewLeases(sql: Sql, held: readonly Held[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    update bag b set lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
    from unnest(${held.map((bag) => bag.workspaceId)}::uuid[], ${held.map((bag) => bag.id)}::uuid[],
                ${held.map((bag) => bag.token)}::uuid[]) as h(workspace_id, id, token)
    where b.workspace_id = h.workspace_id and b.id = h.id and b.token = h.token
    returning b.id`;
  return new Set(rows.map((row) => row.id));
}

/** Gives bags back unfinished, which is no sign against them: another generation may be queued at once. */
export async function releaseBags(sql: Sql, held: readonly Held[]): Promise<void> {
  await sql`
    update bag b set token = null, lease_until = null, epoch = null, generation = b.generation + 1,
      claims = greatest(b.claims - 1, 0)
    from unnest(${held.map((bag) => bag.workspaceId)}::uuid[], ${held.map((bag) => bag.id)}::uuid[],
                ${held.map((bag) => bag.token)}::uuid[]) as h(workspace_id, id, token)
    where b.workspace_id = h.workspace_id and b.id = h.id and b.token = h.token`;
}

export async function loadAttachment(sql: Sql, workspaceId: string, hash: string): Promise<Buffer | null> {
  const [row] = await sql<{ content: Buffer }[]>`
    select content from attachment where workspace_id = ${workspaceId} and hash = decode(${hash}, 'hex')`;
  return row?.content ?? null;
}
