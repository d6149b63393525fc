/**
 * What is new in a workspace, for somebody who looks at it now: little of each, and cheap to ask for every
 * second.
 */
import { floorId } from "../../ids.ts";
import type { Sql } from "../db/connect.ts";
import { boolean, integer, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const newsRow = {
  type: text,
  id: text,
  at: timestamp,
};
export type News = RowOf<typeof newsRow>;

/** The sequence of the last event; null: the workspace's events are not written. */
export async function lastSequence(sql: Sql, workspaceId: string): Promise<number | null> {
  const [row] = await typed(sql, { isWritten: boolean, last: integer })`
    select w.logs_events or w.has_webhooks as "isWritten", coalesce(s.last, 0)::float8 as last
    from workspace w left join event_sequence s on s.workspace_id = w.id where w.id = ${workspaceId}`;
  return row?.isWritten ? row.last : null;
}

export async function newsSince(
  sql: Sql,
  workspaceId: string,
  sequence: number,
  most: number,
): Promise<(News & { sequence: number })[]> {
  return typed(sql, { ...newsRow, sequence: integer })`
    select sequence::float8 as sequence, type, subject_id as id, at from outbox
    where workspace_id = ${workspaceId} and sequence > ${sequence} order by sequence limit ${most}`;
}

const emailStateRow = {
  id: text,
  status: text,
  at: timestamp,
};
export type EmailState = RowOf<typeof emailStateRow>;

/** The newest e-mails and how they stand, where no events are written. */
export async function newestEmails(
  sql: Sql,
  workspaceId: string,
  since: Date,
  most: number,
): Promise<EmailState[]> {
  return typed(sql, emailStateRow)`
    select id, status, updated_at as at from email
    where workspace_id = ${workspaceId} and id > ${floorId(since.getTime())} order by id desc limit ${most}`;
}
