/**
 * Corrects how many bags of each workspace the queue believes to have. Workspaces may be very many, so they
 * are counted some at a time: first those with bags, then those that the queue knows of.
 */
import type { BagQueue } from "../queue/bagqueue.ts";
import type { Sql } from "../record/db/connect.ts";
import { countQueued, countQueuedAfter } from "../record/mail/keeperwork.ts";

const WORKSPACES_MAX = 1_000;

export async function recount(sql: Sql, line: BagQueue, shard: number): Promise<void> {
  const epoch = await line.openEpoch(shard);
  let after: string | null = null;
  for (;;) {
    const counts: Map<string, number> = await countQueuedAfter(sql, shard, epoch, after, WORKSPACES_MAX);
    // the queue was lost meanwhile: these counts are of the one before
    if (counts.size > 0 && !(await line.recount(shard, epoch, counts))) return;
    if (counts.size < WORKSPACES_MAX) break;
    after = [...counts.keys()].at(-1) ?? null;
  }
  for await (const workspaceIds of line.counted(shard)) {
    const found = await countQueued(sql, shard, epoch, workspaceIds);
    const counts = new Map(workspaceIds.map((id) => [id, found.get(id) ?? 0]));
    if (!(await line.recount(shard, epoch, counts))) return;
  }
}
