/**
 * The outbox: what happened in workspaces that ask for it, in the order in which it became true. Triggers write it
 * (0016_outbox.sql, 0027_webhooks.sql); here it is numbered and read.
 *
 * A row gets its sequence only when it is there for everybody. So a reader who has seen a sequence has seen all before it,
 * whichever transaction was the slower one, and nothing is ever inserted behind a reader.
 */
import type { Head, HistoryEntry } from "../../rules/email.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { PAGE_BYTES_MAX } from "../mail/read.ts";

/** Read at once. Postgres looks at the heads of all of them, however few of them there is room for. */
const STEP_EVENTS = 100;

export type EventRow = {
  sequence: number;
  type: string;
  at: Date;
  subjectId: string;
  /** Of an e-mail: its head and what was written to its history; null for others, and when it is not kept any more. */
  email: {
    head: Head;
    createdAt: string;
    entry: HistoryEntry | null;
    tags: { name: string; value: string }[] | null;
  } | null;
  /** null for others, and when it was erased. Of an archived one nothing says who it is. */
  contact: {
    audienceId: string;
    email: string | null;
    firstName: string | null;
    lastName: string | null;
    status: string;
    createdAt: string;
    updatedAt: string;
  } | null;
  /** Of a domain, which is named here also when it was removed. */
  domain: { name: string; createdAt: string | null; isVerified: boolean; isSeen: boolean } | null;
  cap: { dayBefore: number; dayAfter: number; hourBefore: number; hourAfter: number; reason: string } | null;
};

/** Gives what is new its sequence, in the order of writing; says how many. One process at a time runs it. */
export function hasUnnumbered(sql: Sql) {
  return sql`exists (select from outbox where sequence is null)`;
}

export async function numberEvents(tx: Tx, most: number): Promise<number> {
  const rows = await tx<{ workspaceId: string; count: number }[]>`
    with fresh as (
      select number, workspace_id, kept_at from outbox where sequence is null order by number limit ${most}
    ), counted as (
      insert into event_sequence as s (workspace_id, last)
      select workspace_id, count(*) from fresh group by workspace_id order by workspace_id
      on conflict (workspace_id) do update set last = s.last + excluded.last
      returning s.workspace_id, s.last
    )
    update outbox o set sequence = c.last - f.behind
    from (select number, workspace_id, kept_at,
            count(*) over (partition by workspace_id) - row_number() over (partition by workspace_id order by number) as behind
          from fresh) f
    join counted c on c.workspace_id = f.workspace_id
    where o.workspace_id = f.workspace_id and o.number = f.number and o.kept_at = f.kept_at and o.sequence is null
    returning 1`;
  return rows.length;
}

/** What happened after a sequence, oldest first: at least one when there is one, and no more than a page should hold. */
export async function readEvents(
  sql: Sql,
  workspaceId: string,
  after: number,
  limit: number,
): Promise<{ events: EventRow[]; isMore: boolean }> {
  const events: EventRow[] = [];
  for (let bytes = 0; ; ) {
    const most = Math.min(STEP_EVENTS, limit - events.length);
    const from = events.at(-1)?.sequence ?? after;
    const found = await readSome(sql, workspaceId, from, most + 1, PAGE_BYTES_MAX - bytes);
    const fresh = found.slice(0, most);
    events.push(...fresh);
    bytes += fresh.at(-1)?.bytes ?? 0;
    const isMore = (found[0]?.found ?? 0) > fresh.length;
    if (!isMore || events.length >= limit || bytes >= PAGE_BYTES_MAX) return { events, isMore };
  }
}

/** `bytes`: of the heads up to and with this one. `found`: how many there are, also of those that are too much. */
type FoundEvents = EventRow & { bytes: number; found: number };

async function readSome(
  sql: Sql,
  workspaceId: string,
  after: number,
  most: number,
  bytesMax: number,
): Promise<FoundEvents[]> {
  return sql<FoundEvents[]>`
    select o.sequence::float8 as sequence, o.type, o.at, o.subject_id as "subjectId", o.bytes::float8 as bytes, o.found::int as found,
      ${contentsOf(sql)}
    from (
      select o.*, e.id as email_id, e.head, e.created_at as email_created_at, e.history, l.own_bytes, count(*) over () as found,
        sum(l.own_bytes) over (order by o.sequence) as bytes
      from (select * from outbox where workspace_id = ${workspaceId} and sequence > ${after} order by sequence limit ${most}) o
      left join email e on o.type like 'email.%' and e.workspace_id = o.workspace_id and e.id = o.subject_id
      cross join lateral (select coalesce(octet_length(e.head::text), 0) as own_bytes) l
    ) o
    ${joinedTo(sql)}
    where o.bytes - o.own_bytes < ${bytesMax}
    order by o.sequence`;
}

/** What an event tells besides its own row `o`, which has the columns of its e-mail already. Reads `joinedTo`. */
export function contentsOf(sql: Sql) {
  return sql`
    case when o.head is not null then json_build_object('head', o.head, 'createdAt', o.email_created_at,
      'entry', o.history -> o.entry, 'tags', b.extra -> 'tags') end as email,
    case when c.id is not null then json_build_object('audienceId', c.audience_id, 'status', c.status,
      'createdAt', c.created_at, 'updatedAt', c.updated_at,
      'email', case when c.archived_at is null then c.email end,
      'firstName', case when c.archived_at is null then c.first_name end,
      'lastName', case when c.archived_at is null then c.last_name end) end as contact,
    case when o.type like 'domain.%' then json_build_object('name', o.detail, 'createdAt', d.created_at,
      'isVerified', d.verified_at is not null, 'isSeen', d.seen_at is not null) end as domain,
    case when k.id is not null then json_build_object('dayBefore', k.day_before, 'dayAfter', k.day_after,
      'hourBefore', k.hour_before, 'hourAfter', k.hour_after, 'reason', k.reason) end as cap`;
}

export function joinedTo(sql: Sql) {
  return sql`
    left join body b on b.workspace_id = o.workspace_id and b.id = o.email_id
    left join contact c on o.type like 'contact.%' and c.workspace_id = o.workspace_id and c.id = o.subject_id
    left join domain d on o.type like 'domain.%' and d.workspace_id = o.workspace_id and d.domain = o.detail
    left join cap_change k on o.type = 'cap.changed' and k.workspace_id = o.workspace_id and k.id = o.subject_id`;
}

/** From now on, or no longer. What happened before is not told afterwards. */
export async function logEvents(sql: Sql, workspaceId: string, isOn: boolean): Promise<boolean> {
  const rows = await sql`
    update workspace set logs_events = ${isOn} where id = ${workspaceId} returning 1`;
  return rows.length > 0;
}
