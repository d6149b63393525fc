/** How much of some kinds of rows a workspace has, counted up to `most`. */
import type { Sql } from "../db/connect.ts";
import { integer, type RowOf, text, typed } from "../db/rowshape.ts";

const useCountsRow = {
  contacts: integer,
  audiences: integer,
  runs: integer,
  domains: integer,
};
export type UseCounts = RowOf<typeof useCountsRow>;

/** `runsFrom`: the first id of the runs that count. */
export async function countUse(
  sql: Sql,
  workspaceId: string,
  runsFrom: string,
  most: number,
): Promise<UseCounts> {
  const [row] = await typed(sql, useCountsRow)`
    select
      (select count(*)::int from (
        select from contact where workspace_id = ${workspaceId}
          and archived_at is null limit ${most}) c) as contacts,
      (select count(*)::int from (
        select from audience where workspace_id = ${workspaceId}
          and deleted_at is null limit ${most}) a) as audiences,
      (select count(*)::int from (
        select from run where workspace_id = ${workspaceId} and id >= ${runsFrom} limit ${most}) r) as runs,
      (select count(*)::int
        from (select from domain where workspace_id = ${workspaceId} limit ${most}) d) as domains`;
  return row ?? { contacts: 0, audiences: 0, runs: 0, domains: 0 };
}

/** What happened to e-mails, by the day or by the month. */
const happenedCountsRow = {
  span: text,
  accepted: integer,
  attempted: integer,
  delivered: integer,
  deferred: integer,
  hard_bounced: integer,
  soft_bounced: integer,
  blocked: integer,
  complained: integer,
  failed: integer,
};
export type HappenedCounts = RowOf<typeof happenedCountsRow>;

/** Since a day (days since 1970), oldest first; spans without any are missing. */
export async function countsSince(
  sql: Sql,
  workspaceId: string,
  day: number,
  span: "day" | "month",
): Promise<HappenedCounts[]> {
  const format = span === "day" ? "YYYY-MM-DD" : "YYYY-MM";
  return typed(sql, happenedCountsRow)`
    select to_char(date '1970-01-01' + day, ${format}) as span, sum(accepted)::int as accepted,
      sum(attempted)::int as attempted, sum(delivered)::int as delivered, sum(deferred)::int as deferred,
      sum(hard_bounced)::int as hard_bounced, sum(soft_bounced)::int as soft_bounced,
      sum(blocked)::int as blocked,
      sum(complained)::int as complained, sum(failed)::int as failed
    from (
      select day, 0 as accepted, attempted, delivered, deferred, hard_bounced, soft_bounced, blocked,
        complained, failed
      from tally where workspace_id = ${workspaceId} and day >= ${day}
      union all
      select day, max(accepted), 0, 0, 0, 0, 0, 0, 0, 0 from (
        select day, accepted from cap_use where workspace_id = ${workspaceId}
        union all
        select day, accepted from ledger where workspace_id = ${workspaceId}
        union all
        select closed_day, closed_accepted from ledger where workspace_id = ${workspaceId}
      ) as known where day >= ${day} group by day
    ) as counted
    group by 1 order by 1`;
}
