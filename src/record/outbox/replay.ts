/** What endpoints were sent, for their owners to see, and what they are to be sent again. */
import { TEST_TYPE } from "../../rules/webhook.ts";
import type { Sql, Tx } from "../db/connect.ts";
import {
  boolean,
  integer,
  oneOf,
  onlyRow,
  orNull,
  pick,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";
import { contentsOf, type EventName, type EventRow, eventRow, joinedTo } from "./outbox.ts";
import type { WebhookKey } from "./webhooks.ts";

const REPLAYS_MAX = 10;
/** Events of a transaction get its time, and their sequence when it is over. */
const UNORDERED_MS = 60_000;

const listedAttemptRow = {
  id: text,
  sequence: integer,
  /** Null: the log no longer holds the event. */
  type: orNull(text),
  subjectId: orNull(text),
  status: orNull(integer),
  response: orNull(text),
  error: orNull(text),
  ms: integer,
  at: timestamp,
};
export type ListedAttempt = RowOf<typeof listedAttemptRow>;

/** A page and one more row, newest first; of one event or of all. */
export async function listAttempts(
  sql: Sql,
  { workspaceId, id }: WebhookKey,
  event: EventName | null,
  { after, before, limit }: Page,
): Promise<ListedAttempt[]> {
  const direction = before === null ? sql`desc` : sql`asc`;
  return typed(sql, listedAttemptRow)`
    select a.id, a.sequence::float8 as sequence, o.type, o.subject_id as "subjectId", a.status, a.response,
      a.error, a.ms, a.at
    from (
      select * from webhook_attempt
      where workspace_id = ${workspaceId} and webhook_id = ${id}
        ${event === null ? sql`` : sql`and sequence = ${event.sequence}`}
        ${after === null ? sql`` : sql`and id < ${after}`} ${before === null ? sql`` : sql`and id > ${before}`}
      order by id ${direction} limit ${limit + 1}
    ) a
    left join outbox o on o.workspace_id = a.workspace_id and o.sequence = a.sequence
    ${event === null ? sql`` : sql`where o.subject_id is null or o.subject_id = ${event.subjectId}`}
    order by a.id ${direction}`;
}

const listedEventRow = {
  sequence: integer,
  subjectId: text,
  type: text,
  at: timestamp,
  state: oneOf("success", "pending", "attempting", "failed"),
  nextAttemptAt: orNull(timestamp),
};
export type ListedEvent = RowOf<typeof listedEventRow>;

/** Events that were sent or are to be sent again, newest first, and one more. */
export async function listSent(
  sql: Sql,
  { workspaceId, id }: WebhookKey,
  before: number,
  limit: number,
): Promise<ListedEvent[]> {
  const known = (table: string) => sql`
    select distinct sequence from ${sql(table)}
    where workspace_id = ${workspaceId} and webhook_id = ${id} and sequence < ${before}
    order by sequence desc limit ${limit + 1}`;
  return typed(sql, listedEventRow)`
    select o.sequence::float8 as sequence, o.subject_id as "subjectId", o.type, o.at, ${stateOf(sql)}
    from (
      select * from (${known("webhook_attempt")}) tried union select *
        from (${known("webhook_delivery")}) open
      order by sequence desc limit ${limit + 1}
    ) s
    join outbox o on o.workspace_id = ${workspaceId} and o.sequence = s.sequence
    left join webhook_delivery w on w.workspace_id = ${workspaceId} and w.webhook_id = ${id}
      and w.sequence = s.sequence
    order by o.sequence desc`;
}

/** Null: the log holds no such event. `isSent`: it was sent, or is to be sent again. */
export async function findSent(
  sql: Sql,
  { workspaceId, id }: WebhookKey,
  { subjectId, sequence }: EventName,
): Promise<(EventRow & Pick<ListedEvent, "state" | "nextAttemptAt"> & { isSent: boolean }) | null> {
  const [row] = await typed(sql, {
    ...eventRow,
    ...pick(listedEventRow, "state", "nextAttemptAt"),
    isSent: boolean,
  })`
    select o.sequence::float8 as sequence, o.type, o.at, o.subject_id as "subjectId", ${contentsOf(sql)},
      ${stateOf(sql)},
      w.sequence is not null or exists (
        select from webhook_attempt a where a.workspace_id = ${workspaceId} and a.webhook_id = ${id}
          and a.sequence = o.sequence
      ) as "isSent"
    from (
      select o.*, e.id as email_id, e.head, e.created_at as email_created_at, e.history
      from (
        select * from outbox
        where workspace_id = ${workspaceId} and sequence = ${sequence} and subject_id = ${subjectId}
      ) o
      left join email e on o.type like 'email.%' and e.workspace_id = o.workspace_id and e.id = o.subject_id
    ) o ${joinedTo(sql)}
    left join webhook_delivery w on w.workspace_id = ${workspaceId} and w.webhook_id = ${id}
      and w.sequence = o.sequence`;
  return row ?? null;
}

function stateOf(sql: Sql) {
  return sql`w.due_at as "nextAttemptAt", case when w.sequence is null then 'success' when w.failed_at is not null then 'failed'
    when w.tries = 0 then 'pending' else 'attempting' end as state`;
}

/**
 * An event of the log is sent again, at once, and as often as if it were new. False: there is none, or no
 * endpoint.
 */
export async function replayEvent(
  sql: Sql,
  key: WebhookKey,
  { subjectId, sequence }: EventName,
  now: Date,
): Promise<boolean> {
  return sql.begin(async (tx) => {
    if (!(await tryAtOnce(tx, key, now))) return false;
    const rows = await tx`
      insert into webhook_delivery (workspace_id, webhook_id, sequence, at, type, subject_id, entry, detail,
        due_at)
      select ${key.workspaceId}, ${key.id}, sequence, at, type, subject_id, entry, detail, ${FIRST}
      from outbox
      where workspace_id = ${key.workspaceId} and sequence = ${sequence} and subject_id = ${subjectId}
        and (type <> ${TEST_TYPE} or subject_id = ${key.id})
      on conflict (workspace_id, webhook_id, sequence) do update set tries = 0, failed_at = null,
        due_at = excluded.due_at
      returning 1`;
    return rows.length > 0;
  });
}

/** Before all that is due. */
const FIRST = new Date(0);

/**
 * Events that have failed for good, the oldest first; says how many, null: there is no such endpoint. Of one
 * e-mail or contact only the first is due: it lets the next go.
 */
export async function replayFailed(
  sql: Sql,
  key: WebhookKey,
  most: number,
  now: Date,
): Promise<number | null> {
  const replayed = await sql.begin(async (tx) => {
    if (!(await tryAtOnce(tx, key, now))) return null;
    const rows = await tx`
      update webhook_delivery d set tries = 0, failed_at = null, due_at = case
        when exists (
          select from webhook_delivery e where e.workspace_id = ${key.workspaceId}
            and e.webhook_id = ${key.id}
            and e.subject_id = d.subject_id and e.sequence < d.sequence) then null
        else ${now}::timestamptz end
      from (
        select sequence from webhook_delivery
        where workspace_id = ${key.workspaceId} and webhook_id = ${key.id} and failed_at is not null
        order by sequence limit ${most}
      ) f
      where d.workspace_id = ${key.workspaceId} and d.webhook_id = ${key.id} and d.sequence = f.sequence`;
    return { count: rows.count };
  });
  return (replayed as { count: number } | null)?.count ?? null;
}

/** A range of the log, both ends included, is sent again in its order. */
export async function replayRange(
  sql: Sql,
  key: WebhookKey,
  { id, from, to }: { id: string; from: number; to: number },
  now: Date,
): Promise<"begun" | "too many" | "no endpoint"> {
  return sql.begin(async (tx) => {
    if (!(await tryAtOnce(tx, key, now))) return "no endpoint" as const;
    const rows = await tx`
      insert into webhook_replay (workspace_id, webhook_id, id, cursor, last)
      select ${key.workspaceId}::uuid, ${key.id}::uuid, ${id}::uuid, ${from - 1}::bigint, ${to}::bigint
      where ${REPLAYS_MAX} > (
        select count(*) from webhook_replay where workspace_id = ${key.workspaceId}
          and webhook_id = ${key.id})
      returning 1`;
    return rows.length > 0 ? ("begun" as const) : ("too many" as const);
  });
}

/** An event of one endpoint alone, tried once. Null: there is no such endpoint. */
export async function insertTest(
  sql: Sql,
  key: WebhookKey,
  { type, tries }: { type: string; tries: number },
  now: Date,
): Promise<number | null> {
  return sql.begin(async (tx) => {
    if (!(await tryAtOnce(tx, key, now))) return null;
    const raised = await typed(tx, { last: integer })`
      insert into event_sequence as s (workspace_id, last) values (${key.workspaceId}, 1)
      on conflict (workspace_id) do update set last = s.last + 1 returning last::float8 as last`;
    const { last } = onlyRow(raised);
    await tx`
      insert into outbox (workspace_id, sequence, at, type, subject_id)
      values (${key.workspaceId}, ${last}, ${now}, ${type}, ${key.id})`;
    await tx`
      insert into webhook_delivery (workspace_id, webhook_id, sequence, at, type, subject_id, tries, due_at)
      values (${key.workspaceId}, ${key.id}, ${last}, ${now}, ${type}, ${key.id}, ${tries}, ${FIRST})`;
    return last;
  });
}

/** Locks the endpoint; one that is left in peace since it failed is not, for once. */
async function tryAtOnce(tx: Tx, { workspaceId, id }: WebhookKey, now: Date): Promise<boolean> {
  const rows = await tx`
    update webhook set retry_at = null, updated_at = greatest(${now}, updated_at + interval '1 ms')
    where workspace_id = ${workspaceId} and id = ${id} returning 1`;
  return rows.length > 0;
}

/**
 * The events of a span of time, as far as the log holds them; null: there are none. A little more at both
 * ends, since the times of events do not quite follow their sequence.
 */
export async function sequencesBetween(
  sql: Sql,
  workspaceId: string,
  since: number,
  until: number,
): Promise<{ from: number; to: number } | null> {
  const [bounds] = await typed(sql, { first: integer, last: integer })`
    select min(sequence)::float8 as first, max(sequence)::float8 as last from outbox
    where workspace_id = ${workspaceId} and sequence is not null`;
  if (!bounds || bounds.first === null) return null;
  const { first, last } = bounds;
  const from = await firstSince(sql, workspaceId, { first, last }, since - UNORDERED_MS);
  const to = (await firstSince(sql, workspaceId, { first, last }, until + UNORDERED_MS)) - 1;
  return from <= to ? { from, to } : null;
}

/** By halving, since no index knows times. */
async function firstSince(
  sql: Sql,
  workspaceId: string,
  { first, last }: { first: number; last: number },
  time: number,
): Promise<number> {
  let [low, high] = [first, last + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await typed(sql, { writtenAt: timestamp })`
      select kept_at as "writtenAt" from outbox where workspace_id = ${workspaceId} and sequence >= ${middle}
      order by sequence limit 1`;
    if (row && row.writtenAt.getTime() < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
