/** While nobody serves one shard of the queue, mail of the others goes on: of the keeper, too. */

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashOf } from "../../src/admission/bearer.ts";
import { Keyring } from "../../src/admission/keyring.ts";
import { BagQueue } from "../../src/queue/bagqueue.ts";
import { connected, connectRedis } from "../../src/redis/connect.ts";
import { keyspace } from "../../src/redis/keyspace.ts";
import { shardOf } from "../../src/rules/shards.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, SERVER_SECRET, startEngine } from "../rig/engine.ts";
import { type ClusterNode, type OwnCluster, ownCluster } from "../rig/rediscluster.ts";
import { missingRedis } from "../rig/redisserver.ts";
import { type OwnDatabase, ownDatabase, services } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const SHARDS = 3;
const SETTLED_MS_MAX = 60_000;

describe.skipIf(missingRedis)(missingRedis ?? "on a cluster", () => {
  let cluster: OwnCluster;
  let database: OwnDatabase;
  let sink: Sink;
  let engine: Engine;
  beforeAll(async () => {
    [cluster, database, sink] = await Promise.all([ownCluster(services().folder), ownDatabase(), openSink()]);
    // otherwise the whole cluster stops when a slot has no master
    for (const { client } of cluster.nodes) await client.config("SET", "cluster-require-full-coverage", "no");
    const options = { databaseUrl: database.url, redisUrl: cluster.url, smtpUrl: sink.url };
    await commandLine(options).json("queue", "shards", String(SHARDS));
    const settings = { STORE_TIMEOUT_MS: "2000" };
    engine = await startEngine(["api", "deliver", "keeper"], { ...options, settings });
  });
  afterAll(async () => {
    await engine.stop();
    await Promise.all([sink.close(), cluster.stop(), database.drop()]);
  });

  const masterOf = async (key: string) => cluster.masterOf(await cluster.slotOf(key));

  /** One in each shard, whose own keys the lost master does not have. */
  async function workspaceOf(shard: number, lost: ClusterNode): Promise<TestWorkspace> {
    for (;;) {
      const ws = await engine.workspace();
      if (shardOf(ws.id, SHARDS) === shard && (await masterOf(`{${ws.handle}}`)) !== lost) return ws;
    }
  }

  async function goneWith(master: ClusterNode): Promise<ClusterNode[]> {
    const id = String(await master.client.cluster("MYID"));
    const replicas = (await master.client.call("CLUSTER", "REPLICAS", id)) as string[];
    const isReplica = ({ port }: ClusterNode) => replicas.some((line) => line.includes(`:${port}@`));
    return cluster.nodes.filter((node) => node === master || isReplica(node));
  }

  test("scheduled mail and mail of now", async () => {
    const lost = await masterOf("{bags-0}");
    // one after the other: the keeper packs mail in the order of the ids, that of the lost shard first
    const all: TestWorkspace[] = [];
    for (const shard of [0, 1, 2]) all.push(await workspaceOf(shard, lost));
    const scheduled = mail({ scheduled_at: new Date(Date.now() + 3_000).toISOString() });
    for (const { client } of all) expect((await client.post("/emails", scheduled)).status).toBe(200);
    const gone = await goneWith(lost);
    await Promise.all(gone.map((node) => node.kill()));
    for (const { client } of all) expect((await client.post("/emails", mail())).status).toBe(200);
    for (const { id } of all.slice(1))
      expect(await settled(engine.sql, id, SETTLED_MS_MAX)).toEqual({ delivered: 2 });
    await Promise.all(gone.map((node) => node.restart()));
    await cluster.whole();
    for (const { id } of all) expect(await settled(engine.sql, id, SETTLED_MS_MAX)).toEqual({ delivered: 2 });
    expect(sink.ledger.mails).toHaveLength(6);
  });

  test("a group of bags", async () => {
    const lost = await masterOf("{bags-0}");
    const others: number[] = [];
    // no worker takes bags of these
    for (let shard = SHARDS; others.length < 2; shard++)
      if ((await masterOf(`{bags-${shard}}`)) !== lost) others.push(shard);
    const bags = [0, ...others].map((shard) => {
      return { workspaceId: randomUUID(), id: randomUUID(), generation: 1, emails: 1, shard };
    });
    const redis = connectRedis(cluster.url, "queue", 2_000);
    await connected(redis);
    const line = new BagQueue(redis);
    for (const { shard } of bags) await redis.exists(keyspace.shardEpoch(shard)); // connects to its server
    const gone = await goneWith(lost);
    await Promise.all(gone.map((node) => node.kill()));
    await expect(line.enqueue(bags)).rejects.toThrow();
    expect(await line.missing(bags.slice(1))).toEqual([]);
    await line.close();
    redis.disconnect();
    await Promise.all(gone.map((node) => node.restart()));
    await cluster.whole();
  });

  test("recent changes are told to the masters that are there", async () => {
    const lost = await masterOf("{bags-0}");
    const isLost = async ({ handle }: TestWorkspace) => (await masterOf(`{${handle}}`)) === lost;
    const found: TestWorkspace[] = [];
    while (found.length < 2) {
      const ws = await engine.workspace();
      if ((await isLost(ws)) === (found.length === 0)) found.push(ws);
    }
    const revoked = await Promise.all(found.map((ws) => ws.key(["full"])));
    for (const { id } of revoked) await engine.keyring.revokeKey(id, "owner");
    const there = found[1] as TestWorkspace;
    const record = keyspace.apiKey(there.handle, hashOf(revoked[1]?.client.key ?? ""));
    await engine.redis.del(record);
    const gone = await goneWith(lost);
    await Promise.all(gone.map((node) => node.kill()));
    const redis = connectRedis(cluster.url, "admission", 2_000);
    await connected(redis);
    const clock = { now: Date.now, given: () => 0 };
    const keyring = new Keyring({ redis, sql: engine.sql, serverSecret: SERVER_SECRET, clock });
    await expect(keyring.replay(Date.now())).rejects.toThrow();
    expect(await redis.hget(record, "state")).toBe("revoked");
    redis.disconnect();
    await Promise.all(gone.map((node) => node.restart()));
    await cluster.whole();
  });
});
