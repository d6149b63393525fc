/**
 * While a slot moves to another node of the cluster, key by key, some jobs are at one node and some at the
 * other. The audit misses none of them: a bag that it misses is queued again.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BagQueue, type BagToQueue, queueName } from "../../src/queue/bagqueue.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { type ClusterNode, type OwnCluster, ownCluster } from "../rig/rediscluster.ts";
import { missingRedis } from "../rig/redisserver.ts";
import { services } from "../rig/services.ts";

const SHARD = 0;
const BAGS = 20;

describe.skipIf(missingRedis)(missingRedis ?? "on a cluster", () => {
  let cluster: OwnCluster;
  let redis: RedisClient;
  let queue: BagQueue;
  beforeAll(async () => {
    cluster = await ownCluster(services().folder);
    redis = connectRedis(cluster.url, "worker", 20_000);
    queue = new BagQueue(redis);
  }, 60_000);
  afterAll(async () => {
    await queue.close();
    redis.disconnect();
    await cluster.stop();
  });

  test("jobs at either node are found, and only those at neither are missing", async () => {
    const bags = Array.from(
      { length: BAGS },
      (): BagToQueue => ({
        ...{ workspaceId: randomUUID(), id: randomUUID() },
        ...{ generation: 1, shard: SHARD, emails: 1 },
      }),
    );
    await queue.enqueue(bags);
    const keys = bags.map(({ id, generation }) => `bull:${queueName(SHARD)}:${id}-${generation}`);
    expect(await redis.exists(...keys)).toBe(BAGS);
    const slot = await cluster.slotOf(queueName(SHARD));
    const source = await cluster.masterOf(slot);
    const target = cluster.nodes.find((node, n) => n < 3 && node !== source) as ClusterNode;
    await cluster.beginMove(slot, source, target);
    await cluster.moveKeys(
      source,
      target,
      keys.filter((_, n) => n % 2 === 0),
    );
    expect(await queue.missing(bags)).toEqual([]);
    const [lost, kept] = [bags[0] as BagToQueue, bags[1] as BagToQueue];
    expect(await target.client.call("ASKING")).toBe("OK");
    await target.client.del(keys[0] as string);
    await source.client.del(keys[1] as string);
    expect(await queue.missing(bags)).toEqual([lost, kept]);
  }, 60_000);
});
