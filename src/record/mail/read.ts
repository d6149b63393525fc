/** Reading e-mails: one whole, or a page of them, newest first. Every query bounds the id, and so meets few partitions. */

import { floorId } from "../../ids.ts";
import type { Head, HistoryEntry } from "../../rules/email.ts";
import type { Situation } from "../../rules/reason.ts";
import { BULK, isBuiltIn, type MailStream } from "../../rules/stream.ts";
import type { Sql, Statement } from "../db/connect.ts";
import type { AttachmentRef, EmailKey, Extra } from "./emails.ts";

export type EmailRow = Situation &
  MailStream & {
    id: string;
    keyId: string | null;
    head: Head;
    createdAt: Date;
    updatedAt: Date;
    scheduledAt: Date | null;
    sentAt: Date | null;
    deliveredAt: Date | null;
    delayedAt: Date | null;
    bouncedAt: Date | null;
    complainedAt: Date | null;
    failedAt: Date | null;
    attempts: number;
  };

export type WholeEmail = EmailRow & {
  html: string | null;
  plain: string | null;
  extra: Extra | null;
  history: HistoryEntry[] | null;
};

export async function findEmail(sql: Sql, workspaceId: string, id: string): Promise<WholeEmail | null> {
  const [row] = await sql<WholeEmail[]>`
    select ${columns(sql)}, e.history, b.extra,
           case when b.extra -> 'private' is null then b.html end as html,
           case when b.extra -> 'private' is null then b.plain end as plain
    from email e
    left join body b on b.workspace_id = e.workspace_id and b.id = e.id and b.id = ${id}
    ${situationOf(sql)}
    where e.workspace_id = ${workspaceId} and e.id = ${id}`;
  return row ?? null;
}

export type EmailAttachments = { keyId: string | null; attachments: AttachmentRef[]; hasBody: boolean };

/** null: there is no such e-mail. Attachments are kept as long as the body that names them. */
export async function attachmentsOf(
  sql: Sql,
  workspaceId: string,
  id: string,
): Promise<EmailAttachments | null> {
  const [row] = await sql<EmailAttachments[]>`
    select e.key_id as "keyId", coalesce(b.extra -> 'attachments', '[]') as attachments, b.id is not null as "hasBody"
    from email e left join body b on b.workspace_id = e.workspace_id and b.id = e.id and b.id = ${id}
    where e.workspace_id = ${workspaceId} and e.id = ${id}`;
  return row ?? null;
}

export type Page = { after: string | null; before: string | null; limit: number };

/** Of heads: what long ones hold beyond it comes with the next page. Reading and showing so much takes about 10 ms. */
export const PAGE_BYTES_MAX = 2 * 1024 * 1024;

/** At least one when there is one. */
export async function listEmails(
  sql: Sql,
  workspaceId: string,
  { after, before, limit }: Page,
): Promise<{ rows: EmailRow[]; isMore: boolean }> {
  const beyond = after === null ? sql`` : sql`and id < ${after}`;
  const [from, order] = before === null ? [beyond, sql`desc`] : [sql`and id > ${before}`, sql`asc`];
  const found = await sql<(EmailRow & { found: number })[]>`
    select ${columns(sql)}, e.found::int from (
      select *, count(*) over () as found,
        sum(octet_length(head::text)) over (order by id ${order}) - octet_length(head::text) as bytes_before
      from (select * from email where workspace_id = ${workspaceId} ${from} order by id ${order} limit ${limit + 1}) page
    ) e
    ${situationOf(sql)}
    where e.bytes_before < ${PAGE_BYTES_MAX}
    order by e.id ${order}`;
  const rows = found.slice(0, limit);
  return { rows, isMore: (found[0]?.found ?? 0) > rows.length };
}

/** What a list of e-mails is narrowed to; null: to nothing. */
export type EmailFilter = {
  keyId: string | null;
  status: string | null;
  /** Whoever is named in to, cc or bcc, in each of the ways to write the address. */
  recipient: readonly string[] | null;
  subject: string | null;
  tag: { name: string; value: string } | null;
  stream: string | null;
  since: Date | null;
  until: Date | null;
};

/** So many e-mails of a workspace are looked at for one page: about 10 ms. */
export const WALK_MAX = 5_000;
/** Tags are with the bodies: to look at one costs three times as much. */
const TAG_WALK_MAX = 1_500;
/** Ids are made up to so long before the commit that says when an e-mail was accepted. */
const ID_AGE_MS_MAX = 60_000;

export type FoundEmails = { rows: EmailRow[]; isMore: boolean; next: string | null };

/**
 * The e-mails that match, from the position on. Looks at a bounded number of them, whatever the filter and whatever the
 * workspace holds: no index says who has what status or recipient, since every send would pay for it. So a page may hold
 * fewer than match, or none; `next` is where to go on, and null when everything was looked at.
 */
export async function searchEmails(
  sql: Sql,
  workspaceId: string,
  filter: EmailFilter,
  page: Page,
): Promise<FoundEmails> {
  const { before, limit } = page;
  const order = before === null ? sql`desc` : sql`asc`;
  const most = filter.tag === null ? WALK_MAX : TAG_WALK_MAX;
  const within = sql`workspace_id = ${workspaceId} ${positionOf(sql, filter, page)}`;
  const found = await sql<{ id: string }[]>`
    select e.id from (select * from email where ${within} order by id ${order} limit ${most}) e
    where ${matches(sql, filter)} order by e.id ${order} limit ${limit + 1}`;
  const ids = found.slice(0, limit).map(({ id }) => id);
  const rows = await rowsOf(sql, workspaceId, ids, order);
  if (found.length > limit) return { rows, isMore: true, next: ids.at(-1) ?? null };
  const [last] = await sql<{ id: string }[]>`
    select id from email where ${within} order by id ${order} offset ${most - 1} limit 1`;
  return { rows, isMore: last !== undefined, next: last?.id ?? null };
}

/** An e-mail may be sent while its partition is dropped: it is left out then. */
async function rowsOf(
  sql: Sql,
  workspaceId: string,
  ids: readonly string[],
  order: Statement,
): Promise<EmailRow[]> {
  if (ids.length === 0) return [];
  return sql<EmailRow[]>`
    select ${columns(sql)} from email e ${situationOf(sql)}
    where e.workspace_id = ${workspaceId} and e.id = any(${[...ids]}::uuid[]) order by e.id ${order}`;
}

function positionOf(sql: Sql, { since, until }: EmailFilter, { after, before }: Page): Statement {
  const from = since && floorId(since.getTime() - ID_AGE_MS_MAX);
  const to = until && floorId(until.getTime());
  return sql`${after === null ? sql`` : sql`and id < ${after}`} ${before === null ? sql`` : sql`and id > ${before}`}
    ${from === null ? sql`` : sql`and id >= ${from}`} ${to === null ? sql`` : sql`and id < ${to}`}`;
}

function matches(
  sql: Sql,
  { keyId, status, recipient, subject, tag, stream, since, until }: EmailFilter,
): Statement {
  const ways = recipient?.flatMap((address) => [`"${address}"`, `<${address}>`]) ?? null;
  return sql`true ${keyId === null ? sql`` : sql`and e.key_id = ${keyId}`}
    ${status === null ? sql`` : sql`and e.status = ${status}`}
    ${subject === null ? sql`` : sql`and strpos(e.head::text, ${JSON.stringify(subject)}) > 0 and e.head ->> 'subject' = ${subject}`}
    ${since === null ? sql`` : sql`and e.created_at >= ${since}`} ${until === null ? sql`` : sql`and e.created_at < ${until}`}
    ${stream === null ? sql`` : isBuiltIn(stream) ? sql`and e.stream = '' and e.bulk = ${stream === BULK}` : sql`and e.stream = ${stream}`}
    ${ways === null ? sql`` : sql`and ${namesOneOf(sql, ways)}`}
    ${tag === null ? sql`` : sql`and ${hasTag(sql, tag)}`}`;
}

/** One probe for each e-mail: what could be planned as a join might read the bodies of the whole workspace. */
function hasTag(sql: Sql, tag: { name: string; value: string }): Statement {
  return sql`(
    select (b.extra -> 'tags')::jsonb from body b where b.workspace_id = e.workspace_id and b.id = e.id
  ) @> ${sql.json([tag])}`;
}

/** As JSON writes an address: alone, or behind a name. To look through the text costs a tenth of taking it apart. */
function namesOneOf(sql: Sql, ways: readonly string[]): Statement {
  const head = sql`lower(e.head::text collate "C")`;
  const named = sql`lower(((e.head -> 'to')::text || (e.head -> 'cc')::text || (e.head -> 'bcc')::text) collate "C")`;
  return sql`(${ways.reduce<Statement>(
    (found, way) => sql`${found} or (strpos(${head}, ${way}) > 0 and strpos(${named}, ${way}) > 0)`,
    sql`false`,
  )})`;
}

function columns(sql: Sql) {
  return sql`e.id, e.key_id as "keyId", e.bulk, e.stream, e.status, e.head, e.created_at as "createdAt", e.updated_at as "updatedAt",
    e.scheduled_at as "scheduledAt", e.sent_at as "sentAt", e.delivered_at as "deliveredAt", e.delayed_at as "delayedAt",
    e.bounced_at as "bouncedAt", e.complained_at as "complainedAt", e.failed_at as "failedAt", e.attempts,
    d.why as "waitingFor", d.reply as "lastReply", d.domain as "lastDomain",
    d.held_by as "heldBy", h.reason as "heldFor",
    coalesce(g.token is not null, false) as "isUnderWay", w.suspended_at is not null as "isSuspended",
    e.bulk and (l.reserved_share >= 1
      or (l.stream_shares ->> coalesce(nullif(e.stream, ''), 'bulk'))::float8 is not distinct from 0) as "isPaused",
    case when d.why in ('cap_hour', 'cap_day', 'quota_month') then greatest(d.at, l.next_release_at)
      when d.held_by is null or h.source <> '' then d.at else h.until end as "nextAttemptAt"`;
}

/** Where an e-mail stands besides its own row: what it waits for, who carries it, whether its workspace may send. */
function situationOf(sql: Sql) {
  return sql`
    join workspace w on w.id = e.workspace_id
    join ledger l on l.workspace_id = e.workspace_id
    left join due d on d.workspace_id = e.workspace_id and d.email_id = e.id
    left join bag g on g.workspace_id = e.workspace_id and g.id = e.bag_id
    left join lateral (
      select source, until, reason from destination_hold
      where destination = d.held_by and kind = 'suspended' order by source limit 1
    ) h on true`;
}

/** Some e-mails, of any workspaces. */
export async function findEmails(sql: Sql, keys: readonly EmailKey[]): Promise<Map<string, WholeEmail>> {
  const ids = keys.map(({ emailId }) => emailId);
  const rows = await sql<WholeEmail[]>`
    select ${columns(sql)}, e.history, null as html, null as plain, null as extra from email e
    ${situationOf(sql)}
    where (e.workspace_id, e.id) in (
        select * from unnest(${keys.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]))
      and e.id = any(${ids}::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}
