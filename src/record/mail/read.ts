/**
 * Reading e-mails: one whole, or a page of them, newest first. Every query bounds the id, and so meets few
 * partitions.
 */

import type { Head, HistoryEntry } from "../../rules/email.ts";
import type { Situation } from "../../rules/reason.ts";
import type { Sql, Statement } from "../db/connect.ts";
import {
  boolean,
  integer,
  json,
  oneOf,
  orNull,
  type RowOf,
  type ShapeFor,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import type { AttachmentRef, EmailKey, Extra } from "./emails.ts";
import { mailStreamRow } from "./mailstream.ts";

const situationRow = {
  status: text,
  waitingFor: orNull(oneOf("scheduled", "cap_hour", "cap_day", "quota_month", "deferred")),
  /** When it comes due, or room is expected. */
  nextAttemptAt: orNull(timestamp),
  /** The last answer, and for which domain. */
  lastReply: orNull(text),
  lastDomain: orNull(text),
  /** The suspended destination that it waits for, and why that is suspended; null: it is no longer. */
  heldBy: orNull(text),
  heldFor: orNull(text),
  /** A worker has it. */
  isUnderWay: boolean,
  isSuspended: boolean,
  /** Nothing of its stream goes. */
  isPaused: boolean,
} satisfies ShapeFor<Situation>;

const emailRow = {
  ...situationRow,
  ...mailStreamRow,
  id: text,
  keyId: orNull(text),
  head: json<Head>(),
  createdAt: timestamp,
  updatedAt: timestamp,
  scheduledAt: orNull(timestamp),
  sentAt: orNull(timestamp),
  deliveredAt: orNull(timestamp),
  delayedAt: orNull(timestamp),
  bouncedAt: orNull(timestamp),
  complainedAt: orNull(timestamp),
  failedAt: orNull(timestamp),
  attempts: integer,
};
export type EmailRow = RowOf<typeof emailRow>;

const wholeEmailRow = {
  ...emailRow,
  html: orNull(text),
  plain: orNull(text),
  extra: orNull(json<Extra>()),
  history: orNull(json<HistoryEntry[]>()),
};
export type WholeEmail = RowOf<typeof wholeEmailRow>;

export async function findEmail(sql: Sql, workspaceId: string, id: string): Promise<WholeEmail | null> {
  const [row] = await typed(sql, wholeEmailRow)`
    select ${columns(sql)}, e.history, b.extra,
           case when b.extra -> 'private' is null then b.html end as html,
           case when b.extra -> 'private' is null then b.plain end as plain
    from email e
    left join body b on b.workspace_id = e.workspace_id and b.id = e.id and b.id = ${id}
    ${situationOf(sql)}
    where e.workspace_id = ${workspaceId} and e.id = ${id}`;
  return row ?? null;
}

const emailAttachmentsRow = {
  keyId: orNull(text),
  attachments: json<AttachmentRef[]>(),
  hasBody: boolean,
};
export type EmailAttachments = RowOf<typeof emailAttachmentsRow>;

/** null: there is no such e-mail. Attachments are kept as long as the body that names them. */
export async function attachmentsOf(
  sql: Sql,
  workspaceId: string,
  id: string,
): Promise<EmailAttachments | null> {
  const [row] = await typed(sql, emailAttachmentsRow)`
    select e.key_id as "keyId", coalesce(b.extra -> 'attachments', '[]') as attachments,
      b.id is not null as "hasBody"
    from email e left join body b on b.workspace_id = e.workspace_id and b.id = e.id and b.id = ${id}
    where e.workspace_id = ${workspaceId} and e.id = ${id}`;
  return row ?? null;
}

export type Page = { after: string | null; before: string | null; limit: number };

/**
 * Of heads: what long ones hold beyond it comes with the next page. Reading and showing so much takes about
 * 10 ms.
 */
export const PAGE_BYTES_MAX = 2 * 1024 * 1024;

/** At least one when there is one. */
export async function listEmails(
  sql: Sql,
  workspaceId: string,
  { after, before, limit }: Page,
): Promise<{ rows: EmailRow[]; isMore: boolean }> {
  const beyond = after === null ? sql`` : sql`and id < ${after}`;
  const [from, order] = before === null ? [beyond, sql`desc`] : [sql`and id > ${before}`, sql`asc`];
  const found = await typed(sql, { ...emailRow, found: integer })`
    select ${columns(sql)}, e.found::int from (
      select *, count(*) over () as found,
        sum(octet_length(head::text)) over (order by id ${order}) - octet_length(head::text) as bytes_before
      from (select * from email where workspace_id = ${workspaceId} ${from}
        order by id ${order} limit ${limit + 1}) page
    ) e
    ${situationOf(sql)}
    where e.bytes_before < ${PAGE_BYTES_MAX}
    order by e.id ${order}`;
  const rows = found.slice(0, limit);
  return { rows, isMore: (found[0]?.found ?? 0) > rows.length };
}

/** In the order of their ids. An e-mail may be sent while its partition is dropped: it is left out then. */
export async function readEmails(
  sql: Sql,
  workspaceId: string,
  ids: readonly string[],
  order: Statement,
): Promise<EmailRow[]> {
  const sorted = [...ids].sort();
  const [first, last] = [sorted[0], sorted.at(-1)];
  if (first === undefined || last === undefined) return [];
  return typed(sql, emailRow)`
    select ${columns(sql)} from email e ${situationOf(sql)}
    where e.workspace_id = ${workspaceId} and e.id = any(${sorted}::uuid[]) and e.id between ${first}
      and ${last}
    order by e.id ${order}`;
}

function columns(sql: Sql) {
  return sql`e.id, e.key_id as "keyId", e.bulk, e.stream, e.status, e.head, e.created_at as "createdAt", e.updated_at as "updatedAt",
    e.scheduled_at as "scheduledAt", e.sent_at as "sentAt", e.delivered_at as "deliveredAt",
    e.delayed_at as "delayedAt",
    e.bounced_at as "bouncedAt", e.complained_at as "complainedAt", e.failed_at as "failedAt", e.attempts,
    d.why as "waitingFor", d.reply as "lastReply", d.domain as "lastDomain",
    d.held_by as "heldBy", h.reason as "heldFor",
    coalesce(g.token is not null, false) as "isUnderWay", w.suspended_at is not null as "isSuspended",
    e.bulk and (l.reserved_share >= 1
      or (l.stream_shares ->> coalesce(nullif(e.stream, ''), 'bulk'))::float8 is not distinct
        from 0) as "isPaused",
    case when d.why in ('cap_hour', 'cap_day', 'quota_month') then greatest(d.at, l.next_release_at)
      when d.held_by is null or h.source <> '' then d.at else h.until end as "nextAttemptAt"`;
}

/**
 * Where an e-mail stands besides its own row: what it waits for, who carries it, whether its workspace may
 * send.
 */
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
  const rows = await typed(sql, wholeEmailRow)`
    select ${columns(sql)}, e.history, null as html, null as plain, null::json as extra from email e
    ${situationOf(sql)}
    where (e.workspace_id, e.id) in (
        select * from unnest(${keys.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]))
      and e.id = any(${ids}::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}
