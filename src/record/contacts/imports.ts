/**
 * Imports of contacts that the API began, and how far they have come. One whose process is gone has failed.
 */
import type { Sql } from "../db/connect.ts";
import { integer, oneOf, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

export const IMPORT_STATUSES = ["queued", "in_progress", "completed", "failed"] as const;
export type ImportStatus = (typeof IMPORT_STATUSES)[number];
const rowCountsRow = {
  total: integer,
  created: integer,
  updated: integer,
  skipped: integer,
  failed: integer,
};
export type RowCounts = RowOf<typeof rowCountsRow>;
const contactImportRow = {
  ...rowCountsRow,
  id: text,
  status: oneOf(...IMPORT_STATUSES),
  createdAt: timestamp,
  completedAt: orNull(timestamp),
};
export type ContactImport = RowOf<typeof contactImportRow>;

/** Of one that runs, which says that it lives more often. */
const SILENCE_SECONDS_MAX = 60;
const KEPT_MAX = 1_000;

/** Begins one; of very many the oldest are forgotten. */
export async function insertImport(
  sql: Sql,
  { workspaceId, audienceId, id }: { workspaceId: string; audienceId: string; id: string },
  now: Date,
): Promise<void> {
  await sql`
    with old as (
      select id from contact_import where workspace_id = ${workspaceId} order by id desc offset ${KEPT_MAX}
    ), held as materialized (
      select i.id from contact_import i join old on old.id = i.id where i.workspace_id = ${workspaceId}
      order by i.id for update of i skip locked
    ), dropped as (
      delete from contact_import i using held where i.workspace_id = ${workspaceId} and i.id = held.id
    )
    insert into contact_import (workspace_id, id, audience_id, status, created_at, seen_at)
    values (${workspaceId}, ${id}, ${audienceId}, 'queued', ${now}, ${now})`;
}

/** How far it is. One that is over stays so: a note from before its end may come after it. */
export async function noteImport(
  sql: Sql,
  { workspaceId, id }: { workspaceId: string; id: string },
  status: ImportStatus,
  { total, created, updated, skipped, failed }: RowCounts,
  now: Date,
): Promise<void> {
  await sql`
    update contact_import set status = ${status}, total = ${total}, created = ${created},
      updated = ${updated},
      skipped = ${skipped}, failed = ${failed}, seen_at = ${now},
      completed_at = ${status === "completed" || status === "failed" ? now : null}
    where workspace_id = ${workspaceId} and id = ${id} and completed_at is null`;
}

/** Those of audiences that may be seen; null: all. A page and one more row, newest first. */
export async function listImports(
  sql: Sql,
  workspaceId: string,
  audienceIds: readonly string[] | null,
  status: ImportStatus | null,
  { after, before, limit }: Page,
  now: Date,
): Promise<ContactImport[]> {
  const position =
    before !== null ? sql`and id > ${before}` : after !== null ? sql`and id < ${after}` : sql``;
  return typed(sql, contactImportRow)`
    select ${columns(sql, now)} from contact_import
    where workspace_id = ${workspaceId} ${seenBy(sql, audienceIds)} ${position}
      and ${status === null ? sql`true` : sql`${statusAt(sql, now)} = ${status}`}
    order by id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

export async function findImport(
  sql: Sql,
  workspaceId: string,
  audienceIds: readonly string[] | null,
  id: string,
  now: Date,
): Promise<ContactImport | null> {
  const [row] = await typed(sql, contactImportRow)`
    select ${columns(sql, now)} from contact_import
    where workspace_id = ${workspaceId} and id = ${id} ${seenBy(sql, audienceIds)}`;
  return row ?? null;
}

function seenBy(sql: Sql, audienceIds: readonly string[] | null) {
  return audienceIds === null ? sql`` : sql`and audience_id = any(${[...audienceIds]}::uuid[])`;
}

function statusAt(sql: Sql, now: Date) {
  return sql`case when status in ('queued', 'in_progress') and seen_at < ${now}::timestamptz - make_interval(secs => ${SILENCE_SECONDS_MAX})
    then 'failed' else status end`;
}

function columns(sql: Sql, now: Date) {
  return sql`id, ${statusAt(sql, now)} as status, total, created, updated, skipped, failed,
    created_at as "createdAt", completed_at as "completedAt"`;
}
