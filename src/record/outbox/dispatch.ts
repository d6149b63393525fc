/**
 * What the workers of webhooks read and write. A worker holds endpoints under a lease and names its token in
 * all that it writes, so that one that was taken for dead moves nothing any more.
 *
 * Promises: up to the cursor of an endpoint every event is delivered, unwanted, missed for want of the log,
 * or has a row in `webhook_delivery`. A worker that dies repeats what it had not written yet, under the same
 * ids.
 */
import { ERASED_DOMAIN } from "../../rules/redaction.ts";
import { TEST_TYPE } from "../../rules/webhook.ts";
import { plainArray } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { settled } from "../db/groupcommit.ts";
import {
  arrayOf,
  boolean,
  bytes,
  integer,
  json,
  oneOf,
  orNull,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import { contentsOf, type EventRow, eventRow, hasUnnumbered, joinedTo } from "./outbox.ts";
import { ERASING_LOCKS, letAllGo, type WebhookKey, webhookKeyRow } from "./webhooks.ts";

/** Looked through at once for an endpoint that wants few of them, and for all endpoints together. */
const SCAN_EVENTS = 1_000;
const SCAN_EVENTS_OF_ALL = 20_000;

const heldWebhookRow = {
  ...webhookKeyRow,
  endpoint: text,
  events: orNull(arrayOf(text)),
  secrets: bytes,
  cursor: integer,
  failures: integer,
  retryAt: orNull(timestamp),
  /** Rises with every change by its owner. */
  updatedAt: timestamp,
  /** Nothing is sent while it is disabled, or its workspace is suspended. */
  isOpen: boolean,
  replay: orNull(json<{ id: string; cursor: number; last: number }>()),
};
export type HeldWebhook = RowOf<typeof heldWebhookRow>;

export type WebhookClaim = {
  leaseMs: number;
  now: Date;
  most: number;
  /** Of one workspace; `held` says how many of it are held already. */
  mostOfOne: number;
  held: ReadonlyMap<string, number>;
  /** Of which nothing is taken, by `hostSql`. */
  fullHosts: readonly string[];
  /** Workspaces are asked in the order of their ids, from here on and round. */
  from: string;
};

/** No lease on an endpoint is as long. */
const LEASE_SECONDS_MAX = 60;

/** Endpoints for which there is something to do and that nobody holds. */
export async function claimWebhooks(
  sql: Sql,
  token: string,
  { leaseMs, now, most, mostOfOne, held, fullHosts, from }: WebhookClaim,
): Promise<HeldWebhook[]> {
  return typed(sql, heldWebhookRow)`
    with ready as materialized (
      select w.workspace_id, w.id
      from (
        select p.id, ${mostOfOne} - coalesce(h.held, 0) as room from workspace p
        left join unnest(${[...held.keys()]}::uuid[], ${[...held.values()]}::int[]) as h(id, held)
          on h.id = p.id
        where p.has_webhooks and p.suspended_at is null and coalesce(h.held, 0) < ${mostOfOne}
        order by p.id < ${from}, p.id
      ) p cross join lateral (
        select w.workspace_id, w.id from webhook w
        left join event_sequence s on s.workspace_id = w.workspace_id
        where w.workspace_id = p.id and w.status = 'enabled'
          and ${isReady(sql, sql`${now}`)} and not ${hostSql(sql)} = any(${[...fullHosts]}::text[])
        order by random() limit p.room for update of w skip locked
      ) w limit ${most}
    )
    update webhook w set lease_token = ${token},
      lease_until = clock_timestamp() + ${leaseMs} * interval '1 ms'
    from ready r, workspace p
    where w.workspace_id = r.workspace_id and w.id = r.id and p.id = w.workspace_id
    returning ${heldColumns(sql)}`;
}

/**
 * Whether there are events that nobody has numbered, or an endpoint that nobody holds has something to be
 * told.
 */
export function hasNews(sql: Sql, now: Statement) {
  return sql`(${hasUnnumbered(sql)} or exists (
    select from workspace p join webhook w on w.workspace_id = p.id left join event_sequence s
      on s.workspace_id = p.id
    where p.has_webhooks and p.suspended_at is null and w.status = 'enabled' and ${isReady(sql, now)}))`;
}

/** Of the endpoint w, beside the last number s of its workspace. */
function isReady(sql: Sql, now: Statement) {
  // one that ends later than any lease was taken before the clock was set back
  return sql`(w.lease_until is null or w.lease_until < clock_timestamp()
      or w.lease_until > clock_timestamp() + make_interval(secs => ${LEASE_SECONDS_MAX}))
    and (w.retry_at is null or w.retry_at <= ${now})
    and (s.last > w.cursor
      or exists (select from webhook_replay r where r.workspace_id = w.workspace_id and r.webhook_id = w.id)
      or exists (select from webhook_delivery d
        where d.workspace_id = w.workspace_id and d.webhook_id = w.id and d.due_at <= ${now}))`;
}

/** The host and port of an endpoint. */
function hostSql(sql: Sql): Statement {
  return sql`substring(w.endpoint from '^[a-z]+://([^/?#]*)')`;
}

/** The leases go on; hands back the endpoints that are still held, as they are now. */
export async function renewWebhooks(
  sql: Sql,
  token: string,
  keys: readonly WebhookKey[],
  leaseMs: number,
): Promise<HeldWebhook[]> {
  return typed(sql, heldWebhookRow)`
    with ${heldBy(sql, token, keys)}
    update webhook w set lease_until = clock_timestamp() + ${leaseMs} * interval '1 ms'
    from held h, workspace p
    where w.workspace_id = h.workspace_id and w.id = h.id and p.id = w.workspace_id
    returning ${heldColumns(sql)}`;
}

export async function releaseWebhooks(sql: Sql, token: string, keys: readonly WebhookKey[]): Promise<void> {
  await sql`
    with ${heldBy(sql, token, keys)}
    update webhook w set lease_token = null, lease_until = null from held h
    where w.workspace_id = h.workspace_id and w.id = h.id`;
}

/** A part of the log that an endpoint is to be sent: its present, or a range of its past. */
export type Span = WebhookKey & {
  /** What tells it from the other spans that are asked for. */
  place: number;
  after: number;
  /** null: no end. */
  last: number | null;
  most: number;
};

const spanEventRow = {
  ...eventRow,
  place: integer,
  entry: orNull(integer),
  detail: orNull(text),
  isWanted: boolean,
  /** Behind another event of the same e-mail or contact that has not been delivered. */
  isBehind: boolean,
};
export type SpanEvent = RowOf<typeof spanEventRow>;
/** The end of what was looked through; `missed`: events that the log does not hold any more. */
const spanEndRow = {
  place: integer,
  scannedTo: integer,
  missed: integer,
};
export type SpanEnd = RowOf<typeof spanEndRow>;

/**
 * The next events of some spans that their endpoints want, oldest first. A test has a row, and only its
 * endpoint gets it.
 */
export async function readSpans(
  sql: Sql,
  spans: readonly Span[],
): Promise<{ events: SpanEvent[]; ends: SpanEnd[] }> {
  const rows = await typed(sql, { ...spanEventRow, ...spanEndRow })`
    with span as (
      select * from unnest(
        ${spans.map((s) => s.place)}::int[], ${spans.map((s) => s.workspaceId)}::uuid[],
        ${spans.map((s) => s.id)}::uuid[],
        ${spans.map((s) => s.after)}::float8[], ${spans.map((s) => s.last)}::float8[],
        ${spans.map((s) => s.most)}::int[]
      ) as s(place, workspace_id, webhook_id, after, last, most)
    ), scanned as (
      select s.place, s.webhook_id, s.after, s.most, o.*,
        o.type <> ${TEST_TYPE} and (w.events is null or o.type = any(w.events)) as is_wanted
      from span s join webhook w on w.workspace_id = s.workspace_id and w.id = s.webhook_id
      cross join lateral (
        select * from outbox o where o.workspace_id = s.workspace_id and o.sequence > s.after::bigint
          and (s.last is null or o.sequence <= s.last::bigint)
        order by o.sequence limit ${Math.min(SCAN_EVENTS, Math.ceil(SCAN_EVENTS_OF_ALL / spans.length))}
      ) o
    ), counted as (
      select *, count(*) filter (where is_wanted) over (partition by place order by sequence) as nth,
        min(sequence) over (partition by place) as first
      from scanned
    ), taken as (
      select *, max(sequence) over (partition by place) as scanned_to from counted where nth <= most
    ), chosen as (
      select t.*, e.id as email_id, e.head, e.created_at as email_created_at, e.history,
        exists (select from webhook_delivery d where d.workspace_id = t.workspace_id
          and d.webhook_id = t.webhook_id
          and d.subject_id = t.subject_id and d.failed_at is null and d.sequence < t.sequence) as is_behind
      from taken t left join email e on t.is_wanted and t.type like 'email.%'
        and e.workspace_id = t.workspace_id and e.id = t.subject_id
      where t.is_wanted or t.sequence = t.scanned_to
    )
    select o.place, o.sequence::float8 as sequence, o.type, o.at, o.subject_id as "subjectId", o.entry,
      o.detail,
      o.is_wanted as "isWanted", o.is_behind as "isBehind", o.scanned_to::float8 as "scannedTo",
      greatest(0, o.first - o.after - 1)::float8 as missed, ${contentsOf(sql)}
    from chosen o ${joinedTo(sql)}
    order by o.place, o.sequence`;
  const ends = new Map(rows.map(({ place, scannedTo, missed }) => [place, { place, scannedTo, missed }]));
  return { events: rows.filter(({ isWanted }) => isWanted), ends: [...ends.values()] };
}

/** The last sequence of each of these workspaces, and the first that the log still holds (null: none). */
export async function logBounds(
  sql: Sql,
  workspaceIds: readonly string[],
): Promise<Map<string, { first: number | null; last: number }>> {
  const rows = await typed(sql, { workspaceId: text, first: orNull(integer), last: integer })`
    select s.workspace_id as "workspaceId", s.last::float8 as last,
      (select o.sequence from outbox o where o.workspace_id = s.workspace_id and o.sequence is not null
       order by o.sequence limit 1)::float8 as first
    from event_sequence s where s.workspace_id = any(${[...new Set(workspaceIds)]}::uuid[])`;
  return new Map(rows.map(({ workspaceId, ...bounds }) => [workspaceId, bounds]));
}

const dueEventRow = {
  ...eventRow,
  webhookId: text,
  entry: orNull(integer),
  detail: orNull(text),
  tries: integer,
};
export type DueEvent = RowOf<typeof dueEventRow>;

/** Rows whose time has come, of endpoints that are held. */
export async function readDue(
  sql: Sql,
  wanted: readonly (WebhookKey & { most: number })[],
  now: Date,
): Promise<DueEvent[]> {
  return typed(sql, dueEventRow)`
    select o.webhook_id as "webhookId", o.sequence::float8 as sequence, o.type, o.at,
      o.subject_id as "subjectId",
      o.entry, o.detail, o.tries::int, ${contentsOf(sql)}
    from (
      select d.*, e.id as email_id, e.head, e.created_at as email_created_at, e.history
      from unnest(${wanted.map((w) => w.workspaceId)}::uuid[], ${wanted.map((w) => w.id)}::uuid[],
                  ${wanted.map((w) => w.most)}::int[]) as k(workspace_id, webhook_id, most)
      cross join lateral (
        select * from webhook_delivery d
        where d.workspace_id = k.workspace_id and d.webhook_id = k.webhook_id and d.due_at <= ${now}
        order by d.due_at limit k.most
      ) d
      left join email e on d.type like 'email.%' and e.workspace_id = d.workspace_id and e.id = d.subject_id
    ) o ${joinedTo(sql)}
    order by o.sequence`;
}

/** What became of an endpoint since it was last written. */
export type WebhookProgress = WebhookKey & {
  cursor: number;
  /** Of the events that the cursor has passed since. */
  missed: number;
  failures: number;
  /** Something was delivered, in ms. */
  deliveredAt: number | null;
  /** It has failed since, in ms; null: it has not. */
  failingSince: number | null;
  retryAt: number | null;
  isGone: boolean;
  /** As the endpoint was known. How it fared before its owner changed it is not written. */
  updatedAt: Date;
  /** It takes events again: what waits for another try is due. */
  isBack: boolean;
  replay: { id: string; cursor: number; isOver: boolean } | null;
};

export type DeliveryRow = WebhookKey &
  Pick<EventRow, "sequence" | "at" | "type" | "subjectId"> & {
    entry: number | null;
    detail: string | null;
    tries: number;
    /** In ms; null: behind another one, or failed for good. */
    dueAt: number | null;
    failedAt: number | null;
  };

export type WebhookAttempt = WebhookKey & {
  attemptId: string;
  sequence: number;
  at: number;
  status: number | null;
  ms: number;
  error: string | null;
  response: string | null;
  subjectId: string;
  type: string;
};

export type Report = {
  progress: readonly WebhookProgress[];
  /** To be written, or written over. */
  rows: readonly DeliveryRow[];
  /** Rows of events that were delivered. */
  done: readonly (WebhookKey & Pick<EventRow, "sequence">)[];
  /** Whose next event may go, since the one before is delivered or has failed for good. */
  freed: readonly (WebhookKey & Pick<EventRow, "subjectId">)[];
  attempts: readonly WebhookAttempt[];
};

/**
 * Writes a report, of at most one progress for each endpoint, in one transaction. Of endpoints that are not
 * held any more nothing is written, and nothing of one whose report is written already: an answer of Postgres
 * was lost.
 */
export async function saveReport(sql: Sql, token: string, report: Report, now: Date): Promise<void> {
  await sql.begin(async (tx) => {
    // a transaction of which the answer was lost may still hold the rows: what it wrote shows to the next
    // statement
    const locked = tx`with ${heldBy(tx, token, report.progress)} select from held`.execute();
    const [, held] = await settled([locked, saveProgress(tx, token, report)]);
    const isHeld = ({ id }: WebhookKey) => held.has(id);
    const [rows, done] = [report.rows.filter(isHeld), report.done.filter(isHeld)];
    const freed = report.freed.filter(isHeld);
    const attempts = report.attempts.filter(isHeld);
    const back = report.progress.filter((one) => one.isBack && isHeld(one));
    // sent in this order, without waiting in between
    const writes: Promise<unknown>[] = [];
    if (rows.length > 0) writes.push(upsertRows(tx, rows).execute());
    if (done.length > 0) writes.push(deleteRows(tx, done).execute());
    if (freed.length > 0) writes.push(letNextGo(tx, freed, now).execute());
    if (back.length > 0) writes.push(letAllGo(tx, back, now).execute());
    if (attempts.length > 0)
      writes.push(keepErasuresOut(tx, attempts).execute(), insertAttempts(tx, attempts).execute());
    await Promise.all(writes);
  });
}

async function saveProgress(
  tx: Tx,
  token: string,
  { progress, attempts }: Pick<Report, "progress" | "attempts">,
): Promise<Set<string>> {
  const firstOf = new Map([...attempts].reverse().map((one) => [one.id, one]));
  const of = <T>(pick: (one: WebhookProgress) => T): T[] => progress.map(pick);
  const seconds = (ms: number | null) => (ms === null ? null : ms / 1_000);
  const rows = await typed(tx, { id: text })`
    with ${heldBy(tx, token, progress)}
    update webhook w set cursor = greatest(w.cursor, g.cursor::bigint),
      missed = w.missed + case when g.cursor::bigint > w.cursor then g.missed::bigint else 0 end,
      delivered_at = coalesce(to_timestamp(g.delivered_at), w.delivered_at),
      failures = case when w.updated_at <> g.updated_at then w.failures else g.failures end,
      failing_since = case when w.updated_at <> g.updated_at then w.failing_since
        when g.failing_since is null then null else coalesce(w.failing_since,
          to_timestamp(g.failing_since)) end,
      -- who was told that it fails does not know that it is disabled
      told_by = case when w.updated_at <> g.updated_at then w.told_by when g.is_gone then null
        when g.failing_since is not null then w.told_by end,
      retry_at = case when w.updated_at <> g.updated_at then w.retry_at else to_timestamp(g.retry_at) end,
      status = case when w.updated_at = g.updated_at and g.is_gone then 'disabled' else w.status end,
      disabled_for = case when w.updated_at = g.updated_at and g.is_gone then 'gone' else w.disabled_for end
    from held h join unnest(
      ${of((p) => p.id)}::uuid[], ${of((p) => p.cursor)}::float8[], ${of((p) => p.missed)}::float8[],
      ${of((p) => p.failures)}::int[], ${of((p) => seconds(p.deliveredAt))}::float8[],
      ${of((p) => seconds(p.failingSince))}::float8[], ${of((p) => seconds(p.retryAt))}::float8[],
      ${plainArray(of((p) => p.isGone))}::bool[], ${of((p) => p.updatedAt.toISOString())}::timestamptz[],
      ${of((p) => firstOf.get(p.id)?.attemptId ?? null)}::uuid[],
      ${of((p) => seconds(firstOf.get(p.id)?.at ?? null))}::float8[]
    ) as g(id, cursor, missed, failures, delivered_at, failing_since, retry_at, is_gone, updated_at,
    attempt_id, attempted_at)
      on g.id = h.id
    -- one of its attempts is there, and so is all the rest;
    -- as a subquery with a limit it is one look-up in an index
    where w.workspace_id = h.workspace_id and w.id = h.id and (
      select a.id from webhook_attempt a where a.workspace_id = w.workspace_id and a.webhook_id = w.id
        and a.id = g.attempt_id and a.at = to_timestamp(g.attempted_at) limit 1) is null
    returning w.id`;
  const replays = progress.flatMap(({ workspaceId, id, replay }) =>
    replay ? [{ workspaceId, webhookId: id, ...replay }] : [],
  );
  if (replays.length > 0)
    await tx`
      with moved as materialized (
        select * from unnest(${replays.map((r) => r.workspaceId)}::uuid[],
          ${replays.map((r) => r.webhookId)}::uuid[],
          ${replays.map((r) => r.id)}::uuid[], ${replays.map((r) => r.cursor)}::float8[],
          ${plainArray(replays.map((r) => r.isOver))}::bool[])
          as m(workspace_id, webhook_id, id, cursor, is_over)
        where m.webhook_id = any(${rows.map(({ id }) => id)}::uuid[])
      ), over as (
        delete from webhook_replay r using moved m
        where m.is_over and r.workspace_id = m.workspace_id and r.webhook_id = m.webhook_id and r.id = m.id
      )
      update webhook_replay r set cursor = m.cursor::bigint from moved m
      where not m.is_over and r.workspace_id = m.workspace_id and r.webhook_id = m.webhook_id
        and r.id = m.id`;
  return new Set(rows.map(({ id }) => id));
}

/** Locks the rows of endpoints in the order of their keys: those that are still held under this token. */
function heldBy(sql: Sql | Tx, token: string, keys: readonly WebhookKey[]) {
  return sql`held as materialized (
    select workspace_id, id from webhook
    where (workspace_id, id) in (
        select * from unnest(${keys.map((k) => k.workspaceId)}::uuid[], ${keys.map((k) => k.id)}::uuid[]))
      and lease_token = ${token}
    order by workspace_id, id for update
  )`;
}

/** One that is written over keeps the tries it has had, unless it has been asked for again. */
function upsertRows(tx: Tx, rows: readonly DeliveryRow[]) {
  const of = <T>(pick: (row: DeliveryRow) => T): T[] => rows.map(pick);
  const seconds = (ms: number | null) => (ms === null ? null : ms / 1_000);
  return tx`
    insert into webhook_delivery as d
      (workspace_id, webhook_id, sequence, at, type, subject_id, entry, detail, tries, due_at, failed_at)
    select workspace_id, webhook_id, sequence::bigint, at, type, subject_id, entry, detail, tries,
      to_timestamp(due_at),
      to_timestamp(failed_at)
    from unnest(${of((r) => r.workspaceId)}::uuid[], ${of((r) => r.id)}::uuid[],
      ${of((r) => r.sequence)}::float8[],
        ${of((r) => r.at.toISOString())}::timestamptz[], ${of((r) => r.type)}::text[],
        ${of((r) => r.subjectId)}::uuid[],
        ${of((r) => r.entry)}::int[], ${of((r) => r.detail)}::text[], ${of((r) => r.tries)}::int[],
        ${of((r) => seconds(r.dueAt))}::float8[], ${of((r) => seconds(r.failedAt))}::float8[])
      as r(workspace_id, webhook_id, sequence, at, type, subject_id, entry, detail, tries, due_at, failed_at)
    order by workspace_id, webhook_id, sequence
    on conflict (workspace_id, webhook_id, sequence) do update
      set tries = excluded.tries, due_at = excluded.due_at, failed_at = excluded.failed_at
      where d.tries >= excluded.tries - 1`;
}

function deleteRows(tx: Tx, done: Report["done"]) {
  return tx`
    delete from webhook_delivery d
    using unnest(${done.map((d) => d.workspaceId)}::uuid[], ${done.map((d) => d.id)}::uuid[],
                 ${done.map((d) => d.sequence)}::float8[]) as k(workspace_id, webhook_id, sequence)
    where d.workspace_id = k.workspace_id and d.webhook_id = k.webhook_id
      and d.sequence = k.sequence::bigint`;
}

function letNextGo(tx: Tx, freed: Report["freed"], now: Date) {
  return tx`
    with next as (
      select distinct on (d.workspace_id, d.webhook_id, d.subject_id) d.workspace_id, d.webhook_id,
        d.sequence, d.due_at
      from unnest(${freed.map((f) => f.workspaceId)}::uuid[], ${freed.map((f) => f.id)}::uuid[],
                  ${freed.map((f) => f.subjectId)}::uuid[]) as k(workspace_id, webhook_id, subject_id)
      join webhook_delivery d on d.workspace_id = k.workspace_id and d.webhook_id = k.webhook_id
        and d.subject_id = k.subject_id and d.failed_at is null
      order by d.workspace_id, d.webhook_id, d.subject_id, d.sequence
    )
    update webhook_delivery d set due_at = ${now} from next n
    where n.due_at is null and d.workspace_id = n.workspace_id and d.webhook_id = n.webhook_id
      and d.sequence = n.sequence`;
}

/** No erasure is at work meanwhile: either it finds what is written, or its marks are found. */
function keepErasuresOut(tx: Tx, attempts: readonly WebhookAttempt[]) {
  const workspaceIds = [...new Set(attempts.map(({ workspaceId }) => workspaceId))].sort();
  return tx`
    select pg_advisory_xact_lock_shared(${ERASING_LOCKS}, hashtext(id))
    from unnest(${workspaceIds}::text[]) with ordinality as w(id, n) order by n`;
}

/**
 * Of whom was erased while the endpoint was answering, its answer is not kept: it may repeat what it was
 * sent.
 */
function insertAttempts(tx: Tx, attempts: readonly WebhookAttempt[]) {
  const of = <T>(pick: (one: WebhookAttempt) => T): T[] => attempts.map(pick);
  return tx`
    insert into webhook_attempt (workspace_id, webhook_id, id, sequence, at, status, ms, error, response,
      subject_id)
    select a.workspace_id, webhook_id, a.id, sequence::bigint, to_timestamp(at), status, ms, error,
      k.response,
      case when k.response is not null then subject_id end
    from unnest(${of((a) => a.workspaceId)}::uuid[], ${of((a) => a.id)}::uuid[],
      ${of((a) => a.attemptId)}::uuid[],
        ${of((a) => a.sequence)}::float8[], ${of((a) => a.at / 1_000)}::float8[],
        ${of((a) => a.status)}::int[],
        ${of((a) => a.ms)}::int[], ${of((a) => a.error)}::text[], ${of((a) => a.response)}::text[],
        ${of((a) => a.subjectId)}::uuid[], ${of((a) => a.type)}::text[])
      as a(workspace_id, webhook_id, id, sequence, at, status, ms, error, response, subject_id, type)
    cross join lateral (select case
      when a.response is null then null
      when a.type like 'contact.%' and not exists (
        select from contact c where c.workspace_id = a.workspace_id and c.id = a.subject_id) then null
      when a.type like 'email.%' and exists (
        select from email e where e.workspace_id = a.workspace_id and e.id = a.subject_id
          and position(${`@${ERASED_DOMAIN}`} in e.head::text) > 0) then null
      else a.response end as response) k`;
}

/**
 * An endpoint whose owner is to be told, and whom mail reaches; `mailId`: of the e-mail that told of it
 * before.
 */
const troubledWebhookRow = {
  ...webhookKeyRow,
  handle: text,
  workspaceName: text,
  endpoint: text,
  failingSince: timestamp,
  disabledFor: orNull(oneOf("gone", "failing")),
  owners: json<string[]>(),
};
export type TroubledWebhook = RowOf<typeof troubledWebhookRow>;

/**
 * Endpoints that have failed since before a time, or are disabled for it, and whose owners have not been
 * told.
 */
export async function webhooksToTell(sql: Sql, before: Date, most: number): Promise<TroubledWebhook[]> {
  return typed(sql, troubledWebhookRow)`
    select w.workspace_id as "workspaceId", w.id, p.handle, p.name as "workspaceName", w.endpoint,
      w.failing_since as "failingSince", w.disabled_for as "disabledFor", o.owners
    from webhook w join workspace p on p.id = w.workspace_id
    cross join lateral (
      select coalesce(json_agg(a.email order by a.email), '[]') as owners
      from member m join account a on a.id = m.account_id
      where m.workspace_id = w.workspace_id and m.role = 'owner'
    ) o
    where w.told_by is null and p.suspended_at is null and w.failing_since is not null
      and (w.disabled_for = 'gone' or (w.status = 'enabled' and w.failing_since <= ${before}))
      and json_array_length(o.owners) > 0
    order by w.failing_since limit ${most}`;
}

/**
 * The e-mail is written: unless the endpoint has recovered meanwhile, or was disabled, which the e-mail does
 * not say, this is remembered.
 */
export async function noteTold(
  sql: Sql,
  { workspaceId, id, disabledFor }: Pick<TroubledWebhook, "workspaceId" | "id" | "disabledFor">,
  mailId: string,
): Promise<void> {
  await sql`
    update webhook set told_by = ${mailId}
    where workspace_id = ${workspaceId} and id = ${id} and failing_since is not null
      and disabled_for is not distinct from ${disabledFor}`;
}

/**
 * Disables endpoints that have failed for so long, and whose owner has had the e-mail about it for so long.
 * How one fares is known up to its last attempt only: while nothing is sent to it, it stays.
 */
export async function disableFailing(
  sql: Sql,
  { now, failingMs, noticeMs, most }: { now: number; failingMs: number; noticeMs: number; most: number },
): Promise<number> {
  const disabled = await sql`
    with lost as materialized (
      select w.workspace_id, w.id from webhook w
      join workspace p on p.id = w.workspace_id and p.suspended_at is null
      join email e on e.workspace_id = w.workspace_id and e.id = w.told_by
      where w.status = 'enabled' and w.failing_since <= ${new Date(now - failingMs)}
        and e.delivered_at <= ${new Date(now - noticeMs)}
        and exists (select from webhook_attempt a where a.workspace_id = w.workspace_id
          and a.webhook_id = w.id
          and a.at >= greatest(w.failing_since + ${failingMs} * interval '1 ms', p.resumed_at))
      order by w.workspace_id, w.id limit ${most} for update of w skip locked
    )
    update webhook w set status = 'disabled', disabled_for = 'failing' from lost l
    where w.workspace_id = l.workspace_id and w.id = l.id`;
  return disabled.count;
}

function heldColumns(sql: Sql) {
  return sql`w.workspace_id as "workspaceId", w.id, w.endpoint, w.events, w.secrets, w.cursor::float8 as cursor, w.failures,
    w.retry_at as "retryAt", w.updated_at as "updatedAt", w.status = 'enabled'
      and p.suspended_at is null as "isOpen",
    (select json_build_object('id', r.id, 'cursor', r.cursor, 'last', r.last) from webhook_replay r
     where r.workspace_id = w.workspace_id and r.webhook_id = w.id order by r.id limit 1) as replay`;
}
