/**
 * Audiences of a workspace. A deleted one is seen by nobody from that moment on; its contacts are erased in
 * groups, and its row goes with the last of them.
 */
import { newId } from "../../ids.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { boolean, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

const audienceRow = {
  workspaceId: text,
  id: text,
  name: text,
  doubleOptIn: boolean,
  /** Of somebody who was erased from it a keyed hash may be kept: only then is anybody looked for there. */
  suppresses: boolean,
  createdAt: timestamp,
};
export type Audience = RowOf<typeof audienceRow>;

/**
 * Of a workspace: a contact without an audience is looked for in all of them. Those made at once may pass it
 * by a few.
 */
export const AUDIENCES_MAX = 10_000;

export async function insertAudience(
  sql: Sql,
  audience: Omit<Audience, "createdAt" | "suppresses">,
  now: Date,
): Promise<"inserted" | "no workspace" | "too many"> {
  const { workspaceId } = audience;
  const [row] = await typed(sql, { isInserted: boolean })`
    with known as materialized (select id from workspace where id = ${workspaceId}), inserted as (
      insert into audience (workspace_id, id, name, double_opt_in, created_at)
      select id, ${audience.id}, ${audience.name}, ${audience.doubleOptIn}, ${now} from known
      where (select count(*) from audience
        where workspace_id = ${workspaceId} and deleted_at is null) < ${AUDIENCES_MAX}
      returning id
    )
    select exists (select from inserted) as "isInserted" from known`;
  if (!row) return "no workspace";
  return row.isInserted ? "inserted" : "too many";
}

/**
 * The audience of contacts that are given without one. Another may have been made in the same moment: that
 * one stays.
 */
export function insertDefaultAudience(sql: Tx | Sql, workspaceId: string, now: Date): Statement {
  return sql`
    insert into audience (workspace_id, id, name, created_at, is_default)
    select id, ${newId(now.getTime())}, 'General', ${now}, true from workspace where id = ${workspaceId}
    on conflict (workspace_id) where is_default and deleted_at is null do nothing`;
}

/** Its id; it is made when it is missing. null: it was deleted in this moment. */
export async function defaultAudience(sql: Sql, workspaceId: string, now: Date): Promise<string | null> {
  const known = await findDefaultAudience(sql, workspaceId);
  if (known) return known;
  await insertDefaultAudience(sql, workspaceId, now);
  return findDefaultAudience(sql, workspaceId);
}

async function findDefaultAudience(sql: Sql, workspaceId: string): Promise<string | null> {
  const [row] = await typed(sql, { id: text })`
    select id from audience where workspace_id = ${workspaceId} and is_default and deleted_at is null`;
  return row?.id ?? null;
}

export async function renameAudience(
  sql: Sql,
  workspaceId: string,
  id: string,
  name: string,
): Promise<boolean> {
  const rows = await sql`
    update audience set name = ${name}
    where workspace_id = ${workspaceId} and id = ${id} and deleted_at is null returning id`;
  return rows.length > 0;
}

export async function findAudience(sql: Tx | Sql, workspaceId: string, id: string): Promise<Audience | null> {
  const [row] = await typed(sql, audienceRow)`
    select ${columns(sql)} from audience
    where workspace_id = ${workspaceId} and id = ${id} and deleted_at is null`;
  return row ?? null;
}

/** For operators, who know an audience and not whose it is. */
export async function findAudienceAnywhere(sql: Sql, id: string): Promise<Audience | null> {
  const [row] = await typed(sql, audienceRow)`
    select ${columns(sql)} from audience where id = ${id} and deleted_at is null`;
  return row ?? null;
}

/** A page and one more row; `ids` narrows to what a restricted key sees. */
export async function listAudiences(
  sql: Sql,
  workspaceId: string,
  ids: readonly string[] | null,
  { after, before, limit }: Page,
): Promise<Audience[]> {
  const visible = ids === null ? sql`` : sql`and id = any(${[...ids]}::uuid[])`;
  const position =
    before !== null ? sql`and id > ${before}` : after !== null ? sql`and id < ${after}` : sql``;
  return typed(sql, audienceRow)`
    select ${columns(sql)} from audience
    where workspace_id = ${workspaceId} and deleted_at is null ${visible} ${position}
    order by id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

export async function deleteAudience(sql: Sql, workspaceId: string, id: string, now: Date): Promise<boolean> {
  const rows = await sql`
    update audience set deleted_at = ${now}
    where workspace_id = ${workspaceId} and id = ${id} and deleted_at is null returning id`;
  return rows.length > 0;
}

/** Locks audiences in the order of their ids: while they are held nobody else changes their contacts. */
export async function lockAudiences(
  tx: Tx | Sql,
  wanted: readonly { workspaceId: string; audienceId: string }[],
): Promise<Audience[]> {
  const each = [...new Map(wanted.map((one) => [one.workspaceId + one.audienceId, one])).values()];
  return await typed(tx, audienceRow)`
    select ${columns(tx)} from audience
    where (workspace_id, id) in (
        select * from unnest(${each.map((w) => w.workspaceId)}::uuid[],
          ${each.map((w) => w.audienceId)}::uuid[]))
      and deleted_at is null
    order by workspace_id, id for no key update`.execute();
}

function columns(sql: Tx | Sql) {
  return sql`workspace_id as "workspaceId", id, name, double_opt_in as "doubleOptIn", suppresses, created_at as "createdAt"`;
}
