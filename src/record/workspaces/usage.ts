/** How much of some kinds of rows a workspace has, counted up to `most`. */
import type { Sql } from "../db/connect.ts";

export type UseCounts = { contacts: number; audiences: number; runs: number; domains: number };

/** `runsFrom`: the first id of the runs that count. */
export async function countUse(
  sql: Sql,
  workspaceId: string,
  runsFrom: string,
  most: number,
): Promise<UseCounts> {
  const [row] = await sql<UseCounts[]>`
    select
      (select count(*)::int from (
        select from contact where workspace_id = ${workspaceId} and archived_at is null limit ${most}) c) as contacts,
      (select count(*)::int from (
        select from audience where workspace_id = ${workspaceId} and deleted_at is null limit ${most}) a) as audiences,
      (select count(*)::int from (
        select from run where workspace_id = ${workspaceId} and id >= ${runsFrom} limit ${most}) r) as runs,
      (select count(*)::int from (select from domain where workspace_id = ${workspaceId} limit ${most}) d) as domains`;
  return row ?? { contacts: 0, audiences: 0, runs: 0, domains: 0 };
}
