/** What is new in a workspace, for somebody who looks at it now: little of each, and cheap to ask for every second. */
import { floorId } from "../../ids.ts";
import type { Sql } from "../db/connect.ts";

export type News = { type: string; id: string; at: Date };

/** The sequence of the last event; null: the workspace's events are not written. */
export async function lastSequence(sql: Sql, workspaceId: string): Promise<number | null> {
  const [row] = await sql<{ isWritten: boolean; last: number }[]>`
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
  return sql<(News & { sequence: number })[]>`
    select sequence::float8 as sequence, type, subject_id as id, at from outbox
    where workspace_id = ${workspaceId} and sequence > ${sequence} order by sequence limit ${most}`;
}

export type EmailState = { id: string; status: string; at: Date };

/** The newest e-mails and how they stand, where no events are written. */
export async function newestEmails(
  sql: Sql,
  workspaceId: string,
  since: Date,
  most: number,
): Promise<EmailState[]> {
  return sql<EmailState[]>`
    select id, status, updated_at as at from email
    where workspace_id = ${workspaceId} and id > ${floorId(since.getTime())} order by id desc limit ${most}`;
}
