/**
 * A Redis cluster of a test's own on the loopback: three masters with a replica each. Nodes can be killed and
 * started again, and slots moved, while it is used.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Redis } from "ioredis";
import type { Daemon } from "../../src/embedded/daemon.ts";
import { freePort } from "../../src/embedded/port.ts";
import { killRedisServer, startRedisServer, until } from "./redisserver.ts";

/** A node that stands still for some seconds on a busy machine is not gone. */
const NODE_TIMEOUT_MS = 15_000;
const MEETING_TIMEOUT_MS = 1_000;
const MASTERS = 3;
const SLOTS = 16_384;
const RECONNECT_MS = 50;

export type ClusterNode = {
  readonly port: number;
  /** Of the process, which is another one after a restart. */
  pid(): number;
  /** To ask it as a node. */
  readonly client: Redis;
  /** As a power cut would. */
  kill(): Promise<void>;
  /** After a kill: it joins again, with nothing but its place. */
  restart(): Promise<void>;
};

export type OwnCluster = {
  url: string;
  nodes: readonly ClusterNode[];
  masterOf(slot: number): Promise<ClusterNode>;
  slotOf(key: string): Promise<number>;
  /** As an operator would, key by key, while it is used. */
  moveSlot(slot: number, from: ClusterNode, to: ClusterNode): Promise<void>;
  /** From now on a slot is at both nodes: with the first what it has, with the second the rest. */
  beginMove(slot: number, from: ClusterNode, to: ClusterNode): Promise<void>;
  moveKeys(from: ClusterNode, to: ClusterNode, keys: readonly string[]): Promise<void>;
  /** The replica of this master takes over, as an operator asks for before maintenance. */
  handOver(master: ClusterNode): Promise<void>;
  /** Resolves when every slot has a master and every replica has its data. */
  whole(): Promise<void>;
  stop(): Promise<void>;
};

/** In a folder of its own below this one. `nodeTimeoutMs`: for so long a node is not missed. */
export async function ownCluster(
  parent: string,
  { program = "redis-server", nodeTimeoutMs = NODE_TIMEOUT_MS } = {},
): Promise<OwnCluster> {
  const folder = join(parent, `cluster-${randomUUID().slice(0, 8)}`);
  const nodes = await Promise.all(
    Array.from({ length: 2 * MASTERS }, () => startNode(folder, program, nodeTimeoutMs)),
  );
  const set = (name: string, value: number) =>
    Promise.all(nodes.map(({ client }) => client.config("SET", name, value)));
  // nodes tell each other of themselves within half of it: at first they get to know each other
  await set("cluster-node-timeout", MEETING_TIMEOUT_MS);
  // a replica is named when it has heard something
  await set("repl-ping-replica-period", 1);
  const running = () => nodes.filter((node) => node.isRunning());
  const idOf = async (node: ClusterNode) => String(await node.client.cluster("MYID"));
  const masters = nodes.slice(0, MASTERS);
  const [first] = nodes as [Node];
  const share = Math.ceil(SLOTS / MASTERS);
  for (const [n, node] of masters.entries())
    await node.client.call("CLUSTER", "ADDSLOTSRANGE", n * share, Math.min(SLOTS, (n + 1) * share) - 1);
  for (const [n, node] of nodes.entries()) {
    await node.client.call("CLUSTER", "SET-CONFIG-EPOCH", n + 1);
    if (n > 0) await first.client.call("CLUSTER", "MEET", "127.0.0.1", node.port, node.busPort);
  }
  await until("the nodes know each other", async () => {
    const infos = await Promise.all(nodes.map((node) => node.client.cluster("INFO")));
    return infos.every((info) => String(info).includes(`cluster_known_nodes:${nodes.length}`));
  });
  for (const [n, node] of nodes.slice(MASTERS).entries())
    await node.client.call("CLUSTER", "REPLICATE", await idOf(masters[n] as ClusterNode));
  await until("the nodes name the replicas", async () => {
    const views = await Promise.all(nodes.map((node) => node.client.call("CLUSTER", "SLOTS")));
    return (views as unknown[][][]).every((ranges) => ranges.every(([, , ...named]) => named.length === 2));
  });

  const cluster: OwnCluster = {
    url: `redis-cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}`,
    nodes,
    async masterOf(slot) {
      for (const node of running()) {
        const ranges = (await node.client.call("CLUSTER", "SLOTS")) as [number, number, [string, number]][];
        const range = ranges.find(([from, to]) => from <= slot && slot <= to);
        const owner = nodes.find(({ port }) => port === range?.[2][1]);
        if (owner) return owner;
      }
      throw new Error(`nobody knows the master of slot ${slot}`);
    },
    slotOf: async (key) => Number(await (running()[0] as Node).client.cluster("KEYSLOT", key)),
    async beginMove(slot, from, to) {
      await to.client.call("CLUSTER", "SETSLOT", slot, "IMPORTING", await idOf(from));
      await from.client.call("CLUSTER", "SETSLOT", slot, "MIGRATING", await idOf(to));
    },
    async moveKeys(from, to, keys) {
      await from.client.call("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", ...keys);
    },
    async moveSlot(slot, from, to) {
      const target = await idOf(to);
      await cluster.beginMove(slot, from, to);
      for (;;) {
        const keys = (await from.client.call("CLUSTER", "GETKEYSINSLOT", slot, 10)) as string[];
        if (keys.length === 0) break;
        await cluster.moveKeys(from, to, keys);
      }
      for (const node of [to, from, ...running()]) {
        const { role } = roleOf(await node.client.info("replication"));
        if (role === "master") await node.client.call("CLUSTER", "SETSLOT", slot, "NODE", target);
      }
    },
    async handOver(master) {
      const id = await idOf(master);
      const replicas = (await master.client.call("CLUSTER", "REPLICAS", id)) as string[];
      const replica = nodes.find(({ port }) => replicas.some((line) => line.includes(`:${port}@`)));
      if (!replica) throw new Error("this master has no replica");
      await replica.client.call("CLUSTER", "FAILOVER");
      await until("the replica has taken over", async () => {
        const { role } = roleOf(await replica.client.info("replication"));
        return role === "master";
      });
    },
    whole: () =>
      until("the cluster is whole", async () => {
        for (const node of running()) {
          const { role, isLinked } = roleOf(await node.client.info("replication"));
          if (role === "slave" && !isLinked) return false;
          const info = String(await node.client.cluster("INFO"));
          if (!info.includes("cluster_state:ok") || !info.includes(`cluster_slots_ok:${SLOTS}`)) return false;
        }
        return true;
      }),
    async stop() {
      for (const { client } of nodes) client.disconnect();
      await Promise.all(nodes.map((node) => node.end()));
    },
  };
  await cluster.whole();
  await set("cluster-node-timeout", nodeTimeoutMs);
  return cluster;
}

type Node = ClusterNode & { busPort: number; isRunning(): boolean; end(): Promise<void> };

async function startNode(folder: string, program: string, nodeTimeoutMs: number): Promise<Node> {
  const [port, busPort] = [await freePort(), await freePort()];
  const own = join(folder, String(port));
  let daemon: Daemon | null = await start();
  const client = new Redis({
    ...{ host: "127.0.0.1", port, protocol: 2 },
    retryStrategy: () => RECONNECT_MS,
    maxRetriesPerRequest: null,
  });
  client.on("error", () => {}); // it is killed on purpose
  return {
    port,
    pid() {
      if (daemon === null) throw new Error("this node does not run");
      return daemon.pid;
    },
    busPort,
    client,
    isRunning: () => daemon !== null,
    async kill() {
      if (daemon === null) return;
      const killed = daemon;
      daemon = null;
      await killRedisServer(killed);
    },
    async restart() {
      daemon = await start();
    },
    async end() {
      await daemon?.stop();
    },
  };

  function start(): Promise<Daemon> {
    return startRedisServer(
      own,
      [
        `port ${port}`,
        `cluster-port ${busPort}`,
        `pidfile ${join(own, "redis.pid")}`,
        "cluster-enabled yes",
        `cluster-node-timeout ${nodeTimeoutMs}`,
        'save ""',
        // a replica takes over however old its data are, and new ones get theirs at once
        "cluster-replica-validity-factor 0",
        "repl-diskless-sync-delay 0",
      ],
      { program },
    );
  }
}

function roleOf(info: string): { role: string; isLinked: boolean } {
  return { role: /^role:(\w+)/m.exec(info)?.[1] ?? "", isLinked: /^master_link_status:up/m.test(info) };
}
