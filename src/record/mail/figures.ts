/** How much mail is open, for the metrics: counted up to a limit, so that asking costs the same whatever the backlog. */
import type { Sql } from "../db/connect.ts";

const COUNTED_MAX = 100_000;

export type OpenFigures = {
  bags: { shard: number; count: number; oldest: Date | null }[];
  due: { why: string; count: number }[];
  holds: { kind: string; count: number }[];
};

export async function openFigures(sql: Sql): Promise<OpenFigures> {
  const [bags, due, holds] = await Promise.all([
    sql<OpenFigures["bags"]>`
      with open as (select generate_series(0, shards - 1) as shard from queue_shards), has as (
        select shard::int, count(*)::int, min(created_at) as oldest
        from (select shard, created_at from bag limit ${COUNTED_MAX}) b group by shard
      )
      select shard, coalesce(count, 0) as count, oldest from open full join has using (shard)`,
    sql<OpenFigures["due"]>`
      select why, count(*)::int from (select why from due limit ${COUNTED_MAX}) d group by why`,
    sql<OpenFigures["holds"]>`select kind, count(*)::int from destination_hold group by kind`,
  ]);
  return { bags, due, holds };
}
