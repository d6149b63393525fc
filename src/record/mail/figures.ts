/**
 * How much mail is open, for the metrics: counted up to a limit, so that asking costs the same whatever the
 * backlog.
 */
import type { Sql } from "../db/connect.ts";
import { integer, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const COUNTED_MAX = 100_000;

const openBags = { shard: integer, count: integer, oldest: orNull(timestamp) };
const openDue = { why: text, count: integer };
const holdsOfKind = { kind: text, count: integer };

export type OpenFigures = {
  bags: RowOf<typeof openBags>[];
  due: RowOf<typeof openDue>[];
  holds: RowOf<typeof holdsOfKind>[];
};

export async function openFigures(sql: Sql): Promise<OpenFigures> {
  const [bags, due, holds] = await Promise.all([
    typed(sql, openBags)`
      with open as (select generate_series(0, shards - 1) as shard from queue_shards), has as (
        select shard::int, count(*)::int, min(created_at) as oldest
        from (select shard, created_at from bag limit ${COUNTED_MAX}) b group by shard
      )
      select shard, coalesce(count, 0) as count, oldest from open full join has using (shard)`,
    typed(sql, openDue)`
      select why, count(*)::int from (select why from due limit ${COUNTED_MAX}) d group by why`,
    typed(sql, holdsOfKind)`select kind, count(*)::int from destination_hold group by kind`,
  ]);
  return { bags, due, holds };
}
