/** The audit log of the console: what people change, written before it happens. */
import { DAY_MS } from "../../clock.ts";
import { floorId } from "../../ids.ts";
import { fencedNow } from "../cells/moving.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { integer, json, orNull, type RowOf, text, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

/** Of what concerns the whole installation. */
export const WHOLE_INSTALLATION = "00000000-0000-0000-0000-000000000000";

const KEPT_DAYS = 400;
/** In one step. */
const CHANGES_MAX = 1_000;

const changeRow = {
  id: text,
  accountId: text,
  email: text,
  action: text,
  subject: text,
  detail: orNull(json<unknown>()),
  status: orNull(integer),
};
export type ChangeRow = RowOf<typeof changeRow>;

/** Of an account, which belongs to several workspaces: written for each of them, or else for operators. */
export async function insertChange(
  sql: Sql,
  change: Omit<ChangeRow, "detail"> & { workspaceId: string | null },
): Promise<void> {
  const { workspaceId, id, accountId, email, action, subject, status } = change;
  const workspaces =
    workspaceId === null
      ? sql`(select workspace_id from member where account_id = ${accountId}
          union all select ${WHOLE_INSTALLATION}::uuid
            where not exists (select from member where account_id = ${accountId}))`
      : sql`(select ${workspaceId}::uuid as workspace_id)`;
  await sql`
    insert into change (workspace_id, id, account_id, email, action, subject, status)
    select workspace_id, ${id}, ${accountId}, ${email}, ${action}, ${subject}, ${status}
      from ${workspaces} w`;
}

/** How it was answered, and what else there is to know. */
export async function noteChanged(
  sql: Sql,
  change: Pick<ChangeRow, "id" | "accountId" | "status" | "detail"> & { workspaceId: string | null },
): Promise<void> {
  const { workspaceId, id, accountId, status, detail } = change;
  const text = detail === null ? null : JSON.stringify(detail);
  const workspaces =
    workspaceId === null
      ? sql`(select m.workspace_id from member m where m.account_id = ${accountId}
          union all select ${WHOLE_INSTALLATION}::uuid)`
      : sql`(select ${workspaceId}::uuid)`;
  await sql`
    with told as materialized (
      select workspace_id, id from change where workspace_id in ${workspaces} and id = ${id}
      order by workspace_id, id for update
    )
    update change c set status = ${status}, detail = ${text}::text::jsonb
    from told where c.workspace_id = told.workspace_id and c.id = told.id`;
}

/** A page and one more row, newest first. */
export async function listChanges(
  sql: Sql,
  workspaceId: string,
  { after, before, limit }: Page,
): Promise<ChangeRow[]> {
  const position =
    before !== null ? sql`and id > ${before}` : after !== null ? sql`and id < ${after}` : sql``;
  return typed(sql, changeRow)`
    select id, account_id as "accountId", email, action, subject, detail, status from change
    where workspace_id = ${workspaceId} ${position}
    order by id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

/** Kept for a year and a little, as the counts are. Of the next workspaces after one, each by its key. */
export async function dropOldChanges(tx: Sql | Tx, after: string, now: number, most: number): Promise<void> {
  const fenced = await fencedNow(tx);
  await tx`
    with page as (
      select id from workspace where id > ${after} and id <> all(${fenced}::uuid[]) order by id limit ${most}
    ), old as (
      select c.workspace_id, c.id from change c
      where c.workspace_id in (select id from page union all select ${WHOLE_INSTALLATION}::uuid)
        and c.id < ${floorId(now - KEPT_DAYS * DAY_MS)}
      limit ${CHANGES_MAX} for update of c skip locked
    )
    delete from change c using old where c.workspace_id = old.workspace_id and c.id = old.id`;
}
