/**
 * Reports of receivers: kept as they came, before they are acknowledged, and worked off in sets. The table is
 * the queue: whoever works takes rows that nobody else holds and keeps them locked until what they change is
 * committed with them.
 */
import { fencedNow } from "../cells/moving.ts";
import { plainArray, texts } from "../db/arrays.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { bytes, integer, omit, oneOf, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const newReportRow = {
  id: text,
  source: oneOf("return_path", "feedback_address", "tls_report", "api"),
  handle: orNull(text),
  workspaceId: orNull(text),
  emailId: orNull(text),
  place: orNull(integer),
  /** Of whoever handed it in by SMTP. */
  network: orNull(text),
  raw: bytes,
};
export type NewReport = RowOf<typeof newReportRow>;

const dueReportRow = { ...omit(newReportRow, "handle"), tries: integer, receivedAt: timestamp };
export type DueReport = RowOf<typeof dueReportRow>;

export async function insertReports(sql: Sql, reports: readonly NewReport[]): Promise<void> {
  const of = (pick: (report: NewReport) => string | number | null): string => plainArray(reports.map(pick));
  await sql`
    insert into report (id, source, handle, workspace_id, email_id, place, network, raw)
    select id, source, handle, workspace_id, email_id, place, network, decode(raw, 'base64')
    from unnest(${of((r) => r.id)}::uuid[], ${of((r) => r.source)}::text[], ${of((r) => r.handle)}::text[],
                ${of((r) => r.workspaceId)}::uuid[], ${of((r) => r.emailId)}::uuid[],
                ${of((r) => r.place)}::smallint[],
                ${texts(
                  sql,
                  reports.map((r) => r.network),
                )},
                ${texts(
                  sql,
                  reports.map((r) => r.raw.toString("base64")),
                )}) as r(id, source, handle, workspace_id, email_id, place, network, raw)`;
}

/** The next that are due, the longest overdue first, locked until the end of the transaction. */
export function hasDueReports(sql: Sql) {
  return sql`exists (select from report where due_at <= now())`;
}

export async function takeReports(tx: Tx, most: number): Promise<DueReport[]> {
  return typed(tx, dueReportRow)`
    select r.id, r.source, coalesce(r.workspace_id, w.id) as "workspaceId", r.email_id as "emailId", r.place,
      r.network,
           r.raw, r.tries, r.received_at as "receivedAt"
    from (select * from report where due_at <= now() order by due_at,
      id limit ${most} for update skip locked) as r
    left join workspace w on w.handle = r.handle`;
}

/**
 * What became of a report: it is worked off with a result, or put off for so long; and which e-mail it is
 * about.
 */
export type ReportEnd = {
  id: string;
  result: string | null;
  againInMs: number;
  workspaceId: string | null;
  emailId: string | null;
};

export async function endReports(tx: Tx, ends: readonly ReportEnd[]): Promise<void> {
  const of = (pick: (end: ReportEnd) => string | number | null): string => plainArray(ends.map(pick));
  await tx`
    update report r set
      due_at = case when e.result is null then now() + make_interval(secs => e.again_ms / 1000.0) end,
      tries = least(r.tries + 1, 1000),
      done_at = case when e.result is not null then now() end,
      result = e.result, workspace_id = e.workspace_id, email_id = e.email_id
    from unnest(${of((e) => e.id)}::uuid[], ${texts(
      tx,
      ends.map((e) => e.result),
    )}, ${of((e) => e.againInMs)}::float8[],
      ${of((e) => e.workspaceId)}::uuid[], ${of((e) => e.emailId)}::uuid[])
      as e(id, result, again_ms, workspace_id, email_id)
    where r.id = e.id`;
}

/**
 * Of e-mails whose recipients are erased: a report repeats their addresses. After their e-mails are locked.
 */
export async function forgetReports(tx: Tx, workspaceId: string, emailIds: readonly string[]): Promise<void> {
  await tx`
    with held as materialized (
      select id from report
      where email_id = any(${[...emailIds]}::uuid[]) and coalesce(workspace_id,
        ${workspaceId}) = ${workspaceId}
      order by id for update
    )
    delete from report r using held where r.id = held.id`;
}

export async function dropOldReports(tx: Tx | Sql, before: Date, most: number): Promise<number> {
  const fenced = await fencedNow(tx);
  const dropped = await tx`
    delete from report where id in (
      select id from report r where done_at < ${before} and not exists (
        select from workspace_move m
        where m.workspace_id = any(${fenced}::uuid[]) and (m.workspace_id = r.workspace_id
          or m.handle = r.handle))
      limit ${most} for update of r skip locked)`;
  return dropped.count;
}
