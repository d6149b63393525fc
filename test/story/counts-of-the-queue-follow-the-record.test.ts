/**
 * The queue counts the bags of each workspace. When these counts have drifted, the keeper corrects them from
 * the record, some workspaces at a time.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { recount } from "../../src/keeper/recount.ts";
import { BagQueue } from "../../src/queue/bagqueue.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { keyspace } from "../../src/redis/keyspace.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const STORE_MS_MAX = 10_000;
/** More than are counted at once. */
const WORKSPACES = 2_500;
const FAIRNESS = keyspace.shardFairness(0);

let stage: Stage;
let sql: Sql;
let redis: RedisClient;
let line: BagQueue;
let ids: string[];
beforeAll(async () => {
  stage = await openStage();
  sql = connectRecord(stage.databaseUrl, "setup", STORE_MS_MAX);
  redis = connectRedis(stage.redisUrl, "worker", STORE_MS_MAX);
  line = new BagQueue(redis);
  const rows = await sql`
    insert into workspace (id, handle, name, plan, changed_at, created_at)
    select gen_random_uuid(), 'h' || n, 'one of many', 'free', now(), now()
    from generate_series(1, ${WORKSPACES}) n returning id`;
  ids = rows.map(({ id }) => id as string);
  const epoch = await line.openEpoch(0);
  await sql`
    insert into bag (workspace_id, id, shard, email_ids, bytes, epoch, created_at)
    select id, gen_random_uuid(), 0, array[gen_random_uuid()], 1, ${epoch}, now()
    from workspace, generate_series(1, 2)`;
});
afterAll(async () => {
  await line.close();
  redis.disconnect();
  await sql.end({ timeout: 1 });
  await stage.close();
});

const countOf = (id: string | undefined) => redis.hget(FAIRNESS, `n:${id}`);

test("what the queue does not know of is counted", async () => {
  await recount(sql, line, 0);
  expect(await redis.hget(FAIRNESS, "in_line")).toBe(String(2 * WORKSPACES));
  for (const id of [ids[0], ids[999], ids.at(-1)]) expect(await countOf(id)).toBe("2");
});

test("what it counts wrongly is corrected, and what has left is forgotten", async () => {
  const gone = Array.from({ length: WORKSPACES }, () => randomUUID());
  await redis.hset(
    FAIRNESS,
    Object.fromEntries(
      gone.flatMap((id) => [
        [`n:${id}`, 1],
        [`tag:${id}`, 7],
      ]),
    ),
  );
  await redis.hset(FAIRNESS, { [`n:${ids[1]}`]: 900, in_line: 2 * WORKSPACES + 898 + gone.length });
  await redis.hdel(FAIRNESS, `n:${ids[2]}`);
  await redis.hincrby(FAIRNESS, "in_line", -2);
  await recount(sql, line, 0);
  expect([await countOf(ids[1]), await countOf(ids[2])]).toEqual(["2", "2"]);
  expect(await redis.hget(FAIRNESS, "in_line")).toBe(String(2 * WORKSPACES));
  expect(await redis.hexists(FAIRNESS, `tag:${gone[0]}`)).toBe(0);
  expect((await redis.hkeys(FAIRNESS)).filter((field) => field.startsWith("n:"))).toHaveLength(WORKSPACES);
});

test("counts of a queue that was lost meanwhile change nothing", async () => {
  await redis.del(keyspace.shardEpoch(0));
  const epoch = await line.openEpoch(0);
  expect(await line.recount(0, "another", new Map([[randomUUID(), 5]]))).toBe(false);
  expect(await line.recount(0, epoch, new Map([[randomUUID(), 0]]))).toBe(true);
  expect(await redis.hget(FAIRNESS, "in_line")).toBe("0");
});
