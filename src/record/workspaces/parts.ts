/** Counts of single streams and providers of a workspace, as the policy reads them. */
import { DAY_MS } from "../../clock.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { integer, text, typed } from "../db/rowshape.ts";
import { bulkCountsRow, type DayCounts } from "./caps.ts";

const partDay = {
  ...bulkCountsRow,
  workspaceId: text,
  stream: text,
  provider: text,
  day: text,
  delayed: integer,
  used: integer,
};

/** Counts of a day, in one stream, to one provider; `''`: to no known one. */
export type PartDay = DayCounts & { workspaceId: string; stream: string; provider: string };

/** The last days of some workspaces, oldest first. */
export async function partDays(
  sql: Sql | Tx,
  workspaceIds: readonly string[],
  now: number,
  days: number,
): Promise<PartDay[]> {
  const since = Math.floor(now / DAY_MS) - days + 1;
  return typed(sql, partDay)`
    select workspace_id as "workspaceId", stream, provider, to_char(date '1970-01-01' + day,
      'YYYY-MM-DD') as day,
           sum(attempted)::int as attempted, sum(delivered)::int as delivered,
           sum(hard_bounced)::int as bounced,
           sum(late_bounced)::int as "lateBounced", sum(blocked)::int as blocked,
           sum(complained)::int as complained,
           sum(fbl_delivered)::int as "fblDelivered", 0 as delayed, sum(attempted)::int as used
    from part_tally where workspace_id = any(${[...workspaceIds]}::uuid[]) and day >= ${since}
    group by workspace_id, stream, provider, day order by workspace_id, stream, provider, day`;
}
