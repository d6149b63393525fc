/**
 * When the line of a shard is nearly full, the room that is left goes to every workspace with strays in turn.
 */
import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { SHARD_BAGS_MAX } from "../../src/queue/bagqueue.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { keyspace } from "../../src/redis/keyspace.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const WORKSPACES = 30;
const STRAYS_OF_EACH = 40;

let stage: Stage;
let sql: Sql;
let client: RedisClient;
let hand: HandKeeper;
let workspaceIds: string[];
beforeEach(async () => {
  stage = await openStage();
  sql = connectRecord(stage.databaseUrl, "setup", 10_000);
  client = connectRedis(stage.redisUrl, "worker", 20_000);
  hand = handKeeper(stage, { now: () => Date.now(), given: () => 0 });
  await client.set(keyspace.shardEpoch(0), "open"); // a line without an epoch begins empty
  workspaceIds = Array.from({ length: WORKSPACES }, () => randomUUID()).sort();
  for (const id of workspaceIds) await strayBags(id, STRAYS_OF_EACH);
  return close;
});

test("room for ten is given to ten workspaces, and the next to others", async () => {
  await roomFor(10);
  for (let tick = 1; tick <= 6; tick++) {
    await hand.keeper.queue();
    const counts = await inLine();
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
    expect(total).toBe(10 * tick);
    const each = workspaceIds.map((id) => counts.get(id) ?? 0);
    expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(1);
    await roomFor(10);
  }
});

test("room for more than all is shared evenly, and what some do not need goes to the others", async () => {
  const [small, large] = [workspaceIds.slice(0, 10), workspaceIds.slice(10)] as [string[], string[]];
  await sql`
    delete from bag b where workspace_id = any(${small}::uuid[])
      and id > (select id from bag f where f.workspace_id = b.workspace_id order by id limit 1)`;
  await roomFor(10 + 20 * 15);
  while (await hand.keeper.queue()) {}
  const counts = await inLine();
  expect(small.map((id) => counts.get(id))).toEqual(small.map(() => 1));
  expect(large.map((id) => counts.get(id))).toEqual(large.map(() => 15));
});

test("with room for all, all are put in line", async () => {
  while (await hand.keeper.queue()) {}
  const counts = await inLine();
  expect(workspaceIds.map((id) => counts.get(id))).toEqual(workspaceIds.map(() => STRAYS_OF_EACH));
});

/** Bags that nobody has put in line, old enough to be taken for lost. */
async function strayBags(workspaceId: string, count: number): Promise<void> {
  await sql`
    insert into bag (workspace_id, id, shard, email_ids, bytes, created_at)
    select ${workspaceId}, gen_random_uuid(), 0, array[gen_random_uuid()], 1, now() - interval '1 minute'
    from generate_series(1, ${count})`;
}

/** As if others held all but so many places. */
async function roomFor(bags: number): Promise<void> {
  await client.hset(keyspace.shardFairness(0), "in_line", SHARD_BAGS_MAX - bags);
}

async function inLine(): Promise<Map<string, number>> {
  const rows = await sql<{ id: string; count: number }[]>`
    select workspace_id as id, count(*)::int from bag where epoch is not null group by 1`;
  return new Map(rows.map(({ id, count }) => [id, count]));
}

async function close(): Promise<void> {
  await hand.close();
  client.disconnect();
  await sql.end({ timeout: 1 });
  await stage.close();
}
