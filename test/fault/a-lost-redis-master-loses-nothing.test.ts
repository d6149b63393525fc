/** A cluster under load loses a master, has another demoted and slots moved: what that costs is some seconds. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { shardOf } from "../../src/rules/shards.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, PATIENT, startEngine } from "../rig/engine.ts";
import { sendInsistently } from "../rig/insistent.ts";
import { missingRedis, type OwnCluster, ownCluster } from "../rig/rediscluster.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const SHARDS = 3;
const BACK_MS_MAX = 10_000;
const SETTLED_MS_MAX = 60_000;

describe.skipIf(missingRedis)(missingRedis ?? "on a cluster", () => {
  let cluster: OwnCluster;
  let database: OwnDatabase;
  let sink: Sink;
  let engines: Engine[];
  let workspaces: TestWorkspace[];
  beforeAll(async () => {
    [cluster, database, sink] = await Promise.all([ownCluster(), ownDatabase(), openSink()]);
    const options = {
      databaseUrl: database.url,
      redisUrl: cluster.url,
      smtpUrl: sink.url,
      settings: PATIENT,
    };
    await commandLine(options).json("queue", "shards", String(SHARDS));
    engines = await Promise.all([
      startEngine(["api", "deliver", "keeper"], options),
      startEngine(["api", "deliver", "keeper"], options),
    ]);
    workspaces = [];
    // somebody in each shard
    while (new Set(workspaces.map(({ id }) => shardOf(id, SHARDS))).size < SHARDS || workspaces.length < 6)
      workspaces.push(await (engines[0] as Engine).workspace());
  });
  afterAll(async () => {
    await Promise.all(engines.map((engine) => engine.stop()));
    await Promise.all([sink.close(), cluster.stop(), database.drop()]);
  });

  let keys = 0;
  /** null: there is no quota for it. */
  const send = (ws: TestWorkspace) =>
    sendInsistently(
      engines.map(({ url }) => url),
      ws.client.key,
      `send ${++keys}`,
      mail(),
    );

  /** What the workspaces send while something happens. */
  async function underLoad(happens: () => Promise<void>): Promise<Map<TestWorkspace, string[]>> {
    let isSending = true;
    const sent = new Map<TestWorkspace, string[]>(workspaces.map((ws) => [ws, []]));
    const load = Promise.all(
      workspaces.map(async (ws) => {
        while (isSending) sent.get(ws)?.push((await send(ws)) as string);
      }),
    );
    try {
      await happens();
    } finally {
      isSending = false;
    }
    await load;
    return sent;
  }

  /** How long until mail of each workspace is accepted and delivered. */
  async function backAfter(): Promise<number> {
    const began = performance.now();
    const probes = await Promise.all(workspaces.map(send));
    await sink.ledger.received(probes.length, ({ messageId }) =>
      probes.includes(messageId.split("@")[0] as string),
    );
    return performance.now() - began;
  }

  async function expectAllOnce(sent: ReadonlyMap<TestWorkspace, readonly string[]>): Promise<void> {
    const { sql } = engines[0] as Engine;
    for (const { id } of workspaces)
      expect(Object.keys(await settled(sql, id, SETTLED_MS_MAX))).toEqual(["delivered"]);
    for (const id of [...sent.values()].flat()) expect(sink.ledger.count(`${id}@example.com`), id).toBe(1);
  }

  test("a master is killed: all goes on within 10 s, nothing is lost or doubled", async () => {
    const slot = await cluster.slotOf("{bags-0}");
    const sent = await underLoad(async () => {
      await sink.ledger.received(100);
      const master = await cluster.masterOf(slot);
      await master.kill();
      expect(await backAfter()).toBeLessThan(BACK_MS_MAX);
      await master.restart();
      await cluster.whole();
      await backAfter();
    });
    await expectAllOnce(sent);
  }, 120_000);

  test("quota and cap are exact while a master is killed", async () => {
    const [engine] = engines as [Engine];
    const ws = await engine.workspace("free", { cap_hour: 60 });
    const master = await cluster.masterOf(await cluster.slotOf(`{${ws.handle}}`));
    let accepted = 0;
    const callers = Array.from({ length: 8 }, async () => {
      while ((await send(ws)) !== null) if (++accepted === 20) await master.kill();
    });
    await Promise.all(callers);
    await master.restart();
    expect(accepted).toBe(100);
    const [row] = await engine.sql`
      select l.day_used, l.waiting, l.cap_day_used,
             (select count(*)::int from email where workspace_id = ${ws.id}) as emails
      from ledger l where l.workspace_id = ${ws.id}`;
    expect(row).toEqual({ day_used: 100, waiting: 40, cap_day_used: 60, emails: 100 });
    await cluster.whole();
  }, 120_000);

  test("a master hands over to its replica, and slots move, under load", async () => {
    const [ws] = workspaces as [TestWorkspace];
    const slots = await Promise.all(["{bags-1}", `{${ws.handle}}`].map((key) => cluster.slotOf(key)));
    const sent = await underLoad(async () => {
      for (const slot of slots) {
        const from = await cluster.masterOf(slot);
        const others = await Promise.all([0, 6_000, 12_000].map((other) => cluster.masterOf(other)));
        await cluster.moveSlot(slot, from, others.find((other) => other !== from) ?? from);
        expect(await backAfter()).toBeLessThan(BACK_MS_MAX);
      }
      await cluster.handOver(await cluster.masterOf(await cluster.slotOf("{bags-2}")));
      expect(await backAfter()).toBeLessThan(BACK_MS_MAX);
    });
    await expectAllOnce(sent);
  }, 120_000);
});
