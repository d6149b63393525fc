/**
 * The outbox: what happened in workspaces that ask for it, in the order in which it became true. Triggers
 * write it (0027_webhooks.sql, 0045_outbox_batches.sql); here it is numbered and read. What happened to many
 * e-mails at once is one row of `outbox_batch` first, since whoever sends mail waits for that; numbering
 * makes it rows of the outbox.
 *
 * An event gets its sequence only when it is there for everybody. So a reader who has seen a sequence has
 * seen all before it, whichever transaction was the slower one, and nothing is ever inserted behind a reader.
 */
import type { Head, HistoryEntry } from "../../rules/email.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { integer, json, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import { PAGE_BYTES_MAX } from "../mail/read.ts";

/** Read at once. Postgres looks at the heads of all of them, however few of them there is room for. */
const STEP_EVENTS = 100;

export const eventRow = {
  sequence: integer,
  type: text,
  at: timestamp,
  subjectId: text,
  /**
   * Of an e-mail: its head and what was written to its history; null for others, and when it is not kept any
   * more.
   */
  email: orNull(
    json<{
      head: Head;
      createdAt: string;
      entry: HistoryEntry | null;
      tags: { name: string; value: string }[] | null;
    }>(),
  ),
  /** null for others, and when it was erased. Of an archived one nothing says who it is. */
  contact: orNull(
    json<{
      audienceId: string;
      email: string | null;
      firstName: string | null;
      lastName: string | null;
      status: string;
      createdAt: string;
      updatedAt: string;
    }>(),
  ),
  /** Of a domain, which is named here also when it was removed. */
  domain: orNull(json<{ name: string; createdAt: string | null; isVerified: boolean; isSeen: boolean }>()),
  cap: orNull(
    json<{ dayBefore: number; dayAfter: number; hourBefore: number; hourAfter: number; reason: string }>(),
  ),
};
export type EventRow = RowOf<typeof eventRow>;
/** Sequences are those of a workspace: in another one the same is of another event, with another subject. */
export type EventName = Pick<EventRow, "subjectId" | "sequence">;

/** What happened and has no sequence yet. */
export function hasUnnumbered(sql: Sql) {
  return sql`(exists (select from outbox_batch) or exists (select from outbox where sequence is null))`;
}

/**
 * Gives what is new its sequence, in the order of writing, and batches a row for each of their events; says
 * how many events: as many as `most` or more when there are that many. One process at a time runs it.
 */
export async function numberEvents(tx: Tx, most: number): Promise<number> {
  const next = tx`
    select max(number) as number from (
      select number, sum(events) over (order by number) - events as before from (
        select * from (select number, 1 as events from outbox where sequence is null
          order by number limit ${most}) single
        union all
        select * from (select number, events from outbox_batch order by number limit ${most}) batch
      ) fresh
    ) fresh where before < ${most}`;
  const [row] = await typed(tx, { count: integer })`
    with last as materialized (${next}), ${numbering(tx, tx`number <= (select number from last)`)}
    select count(*)::int as count from numbered`;
  return row?.count ?? 0;
}

/**
 * Of one workspace, all that there is, as long as that is not too much; hands back the sequences, null: it
 * was.
 */
export async function numberEventsOf(tx: Tx, workspaceId: string, most: number): Promise<number[] | null> {
  const [batches] = await typed(tx, { events: integer })`
    select coalesce(sum(events), 0)::float8 as events from outbox_batch where workspace_id = ${workspaceId}`;
  if (batches && batches.events > most) return null;
  const rows = await typed(tx, { sequence: integer })`
    with ${numbering(tx, tx`workspace_id = ${workspaceId}`)}
    select sequence::float8 as sequence from numbered`;
  return rows.map(({ sequence }) => sequence);
}

/**
 * The query `numbered`. Rows are kept for as long as what happened, but none in a day that is so old that
 * there may be no partition for it, nor in one so far ahead: the clock was set back since.
 */
function numbering(tx: Tx, areThese: Statement): Statement {
  return tx`
    batch as (
      delete from outbox_batch where ${areThese} returning *
    ), one as (
      select b.number, b.workspace_id, b.type, m.*,
        least(greatest(b.kept_at, now() - interval '12 hours'), now() + interval '12 hours') as kept_at
      from batch b cross join lateral unnest(b.email_ids, b.ats, b.known, b.present)
        with ordinality as m(subject_id, at, known, present, place)
    ), fresh as (
      select workspace_id, number, kept_at, place, coalesce(type, 'email.sent') as type, at, subject_id,
        null::int as entry
      from one where at is not null
      union all
      select workspace_id, number, kept_at, place, 'email.' || (h.entry ->> 'type'),
        (h.entry ->> 'at')::timestamptz, subject_id,
        (known + h.nth - 1)::int
      from one
      cross join lateral (
        select history from email e where e.workspace_id = one.workspace_id and e.id = one.subject_id offset 0
      ) e
      cross join lateral jsonb_path_query(e.history, '$[$known to $last]',
        jsonb_build_object('known', known, 'last', present - 1))
        with ordinality as h(entry, nth)
      where present > known
      union all
      select workspace_id, number, kept_at, 0, null, null, null, null from outbox where sequence is null
        and ${areThese}
    ), counted as (
      insert into event_sequence as s (workspace_id, last)
      select workspace_id, count(*) from fresh group by workspace_id order by workspace_id
      on conflict (workspace_id) do update set last = s.last + excluded.last
      returning s.workspace_id, s.last
    ), placed as (
      select f.*, c.last - count(*) over (partition by workspace_id)
        + row_number() over (partition by workspace_id order by number, place, entry nulls first) as sequence
      from fresh f join counted c using (workspace_id)
    ), unpacked as (
      insert into outbox (workspace_id, number, sequence, kept_at, at, type, subject_id, entry)
      select workspace_id, number, sequence, kept_at, at, type, subject_id, entry
      from placed where type is not null order by workspace_id, sequence
      returning sequence
    ), single as (
      update outbox o set sequence = p.sequence from placed p
      where p.type is null and o.workspace_id = p.workspace_id and o.number = p.number
        and o.kept_at = p.kept_at
        and o.sequence is null
      returning o.sequence
    ), numbered as (
      select sequence from unpacked union all select sequence from single
    )`;
}

/**
 * What happened after a sequence, oldest first: at least one when there is one, and no more than a page
 * should hold.
 */
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

/**
 * `bytes`: of the heads up to and with this one. `found`: how many there are, also of those that are too
 * much.
 */
const foundEventsRow = { ...eventRow, bytes: integer, found: integer };
type FoundEvents = RowOf<typeof foundEventsRow>;

async function readSome(
  sql: Sql,
  workspaceId: string,
  after: number,
  most: number,
  bytesMax: number,
): Promise<FoundEvents[]> {
  return typed(sql, foundEventsRow)`
    select o.sequence::float8 as sequence, o.type, o.at, o.subject_id as "subjectId",
      o.bytes::float8 as bytes, o.found::int as found,
      ${contentsOf(sql)}
    from (
      select o.*, e.id as email_id, e.head, e.created_at as email_created_at, e.history, l.own_bytes,
        count(*) over () as found,
        sum(l.own_bytes) over (order by o.sequence) as bytes
      from (select * from outbox where workspace_id = ${workspaceId} and sequence > ${after}
        order by sequence limit ${most}) o
      left join email e on o.type like 'email.%' and e.workspace_id = o.workspace_id and e.id = o.subject_id
      cross join lateral (select coalesce(octet_length(e.head::text), 0) as own_bytes) l
    ) o
    ${joinedTo(sql)}
    where o.bytes - o.own_bytes < ${bytesMax}
    order by o.sequence`;
}

/**
 * What an event tells besides its own row `o`, which has the columns of its e-mail already. Reads `joinedTo`.
 */
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
    left join cap_change k on o.type = 'cap.changed' and k.workspace_id = o.workspace_id
      and k.id = o.subject_id`;
}

/** From now on, or no longer. What happened before is not told afterwards. */
export async function logEvents(sql: Sql, workspaceId: string, isOn: boolean): Promise<boolean> {
  const rows = await sql`
    update workspace set logs_events = ${isOn} where id = ${workspaceId} returning 1`;
  return rows.length > 0;
}
