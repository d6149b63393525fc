/**
 * `ops/redis-cluster.sh`, which the profile `cluster` of docker-compose.yml runs in a container, here on the
 * loopback: it makes a cluster, on which an engine serves as the user without rights to administer; a node
 * that is killed is started again, and all of it keeps its data over a restart.
 */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Daemon, startDaemon } from "../../src/embedded/daemon.ts";
import { freePort, isPortFree } from "../../src/embedded/port.ts";
import { writeRefusal } from "../../src/redis/writerefusal.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { parsed, ROOT } from "../rig/opsfiles.ts";
import { missingRedis, until } from "../rig/redisserver.ts";
import { type OwnDatabase, ownDatabase, services } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const PASSWORD = "letters1and2digits";
const NODES = 6;
/** Nodes listen for each other so far above their port. */
const BUS_PORT_ABOVE = 10_000;
const PORT_MAX = 65_535 - BUS_PORT_ABOVE;
const SETTLED_MS_MAX = 30_000;
const FIRST_COPY_MS = 3000;
const BY_A_SCRIPT = "redis.call('set', KEYS[1], 1) redis.call('set', KEYS[2], 2)";

/** Not at once: whoever waits for a server must read meanwhile what all of them say. */
const run = promisify(execFile);

type Compose = { services: { "redis-cluster": { healthcheck: { test: [string, string] } } } };
const [compose] = parsed<Compose>("docker-compose.yml") as [Compose];
const [, HEALTH_CHECK] = compose.services["redis-cluster"].healthcheck.test;

describe.skipIf(missingRedis)(missingRedis ?? "on the cluster of Compose", () => {
  let folder: string;
  let ports: number[];
  let cluster: Daemon;
  let database: OwnDatabase;
  let sink: Sink;
  let engine: Engine;
  let redisUrl: string;
  beforeAll(async () => {
    folder = join(services().folder, `compose-${randomUUID().slice(0, 8)}`);
    mkdirSync(folder);
    ports = await portsWithBus();
    [cluster, database, sink] = await Promise.all([start(), ownDatabase(), openSink()]);
    await until("it is healthy", isHealthy);
    const nodes = ports.slice(0, 3).map((port) => `localhost:${port}`);
    redisUrl = `redis-cluster://postrider:${PASSWORD}@${nodes.join()}`;
    const options = { databaseUrl: database.url, redisUrl, smtpUrl: sink.url };
    await commandLine(options).json("queue", "shards", "3");
    engine = await startEngine(["api", "deliver", "keeper"], options);
  });
  afterAll(async () => {
    await engine.stop();
    await Promise.all([sink.close(), cluster.stop(), database.drop()]);
  });

  test("three masters and three replicas serve the user without rights to administer", async () => {
    const { id, client } = await engine.workspace();
    expect((await client.post("/emails", mail())).status).toBe(200);
    expect(await settled(engine.sql, id, SETTLED_MS_MAX)).toEqual({ delivered: 1 });
    const { postrider } = commandLine({ databaseUrl: database.url, redisUrl });
    // a node hears of the others' replicas a little later
    await until("three masters and three replicas", async () =>
      (await postrider("doctor")).out.includes("3 masters, 3 replicas"),
    );
    const [first] = ports as [number];
    expect(await ask(first, "config", "get", "dir")).toContain("NOPERM");
    expect(await ask(first, "cluster", "slots")).toContain("localhost");
  });

  test("a node that is killed is started again, and mail goes on", async () => {
    const [, second] = ports as [number, number];
    const before = pidOf(second);
    process.kill(before, "SIGKILL");
    await until("the node runs again", async () => pidOf(second) !== before && ping(second));
    await until(
      "the cluster is whole",
      async () => (await isHealthy()) && (await masters()).length === NODES / 2,
    );
    const { id, client } = await workspaceOnceWritable();
    await until("mail is accepted", async () => (await client.post("/emails", mail())).status === 200);
    const fates = await settled(engine.sql, id, SETTLED_MS_MAX);
    expect(Object.keys(fates)).toEqual(["delivered"]);
  });

  test("it is the same cluster after a restart", async () => {
    const before = await ids();
    expect(new Set(before).size).toBe(NODES);
    const [first] = ports as [number];
    await ask(first, "-c", "eval", BY_A_SCRIPT, "2", "{kept}:1", "{kept}:2");
    await cluster.stop();
    expect(await withThat(ping)).toEqual([]);
    cluster = await start();
    await until("it is healthy", isHealthy);
    expect(await ids()).toEqual(before);
    expect(await ask(first, "-c", "mget", "{kept}:1", "{kept}:2")).toMatch(/^1\n2$/m);
    const { id, client } = await workspaceOnceWritable();
    await until("mail is accepted", async () => (await client.post("/emails", mail())).status === 200);
    expect(Object.keys(await settled(engine.sql, id, SETTLED_MS_MAX))).toEqual(["delivered"]);
  });

  /** Redis refuses a signal then, lest its data be lost. */
  test("a node that writes its first copy of the data ends with the others", async () => {
    const masterPorts = await masters();
    const replica = ports.find((port) => !masterPorts.includes(port)) as number;
    const keys = Number(await ask(replica, "dbsize"));
    expect(keys).toBeGreaterThan(0);
    await cluster.stop();
    rmSync(join(folder, `${replica}`, "appendonlydir"), { recursive: true });
    cluster = await start({ REDIS_SERVER: slowWriter(replica, FIRST_COPY_MS / keys) });
    await until("it writes", async () =>
      (await ask(replica, "info", "persistence")).includes("aof_rewrite_in_progress:1"),
    );
    await cluster.stop();
    expect(await withThat(ping)).toEqual([]);
  });

  /** For a moment after a failover a node may still be asked that is no master any more. */
  async function workspaceOnceWritable(): Promise<TestWorkspace> {
    let made: TestWorkspace | null = null;
    await until("a workspace can be made", async () => {
      made = await engine.workspace().catch((error: unknown) => {
        if (writeRefusal(error) === "READONLY") return null;
        throw error;
      });
      return made !== null;
    });
    return made as unknown as TestWorkspace;
  }

  /** A server that takes so long for each key, where it serves this port. */
  function slowWriter(port: number, msForKey: number): string {
    const program = join(folder, "slow-writer.sh");
    const words = `case $1 in */${port}/*) set -- "$1" --rdb-key-save-delay ${Math.ceil(msForKey * 1000)};; esac`;
    writeFileSync(program, `#!/bin/sh\n${words}\nexec redis-server "$@"\n`, { mode: 0o755 });
    return program;
  }

  function start(env: Record<string, string> = {}): Promise<Daemon> {
    return startDaemon({
      name: "the cluster",
      program: "sh",
      args: [join(ROOT, "ops/redis-cluster.sh")],
      env: {
        PATH: process.env.PATH ?? "",
        REDIS_BIND: "127.0.0.1 -::1",
        REDIS_PASSWORD: PASSWORD,
        REDIS_NAME: "localhost",
        REDIS_FOLDER: folder,
        REDIS_PORTS: ports.join(" "),
        ...env,
      },
      isReady: (line) => /All \d+ slots covered|Cluster state changed: ok/.test(line),
      gently: "SIGTERM",
      atOnce: "SIGKILL",
    });
  }

  /** As Compose asks. */
  async function isHealthy(): Promise<boolean> {
    const command = HEALTH_CHECK.replaceAll("$$", "$").replace("7001", `${ports[0]}`);
    const env = { PATH: process.env.PATH, REDIS_PASSWORD: PASSWORD };
    return run("sh", ["-c", command], { env }).then(
      () => true,
      () => false,
    );
  }

  /** What it says, also where it refuses or is away. */
  async function ask(port: number, ...words: string[]): Promise<string> {
    const env = { PATH: process.env.PATH, REDISCLI_AUTH: PASSWORD };
    const said = run("redis-cli", ["--user", "postrider", "-p", `${port}`, ...words], { env });
    return (await said.catch(({ stdout }: { stdout: string }) => ({ stdout }))).stdout.trim();
  }

  async function ping(port: number): Promise<boolean> {
    return (await ask(port, "ping")) === "PONG";
  }

  async function isMaster(port: number): Promise<boolean> {
    return (await ask(port, "info", "replication")).includes("role:master");
  }

  const masters = () => withThat(isMaster);

  async function withThat(holds: (port: number) => Promise<boolean>): Promise<number[]> {
    const held = await Promise.all(ports.map(holds));
    return ports.filter((_, n) => held[n]);
  }

  function ids(): Promise<string[]> {
    return Promise.all(ports.map((port) => ask(port, "cluster", "myid")));
  }

  function pidOf(port: number): number {
    return Number(readFileSync(join(folder, `${port}`, "redis.pid"), "utf8"));
  }
});

async function portsWithBus(): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < NODES) {
    const port = await freePort();
    if (port <= PORT_MAX && (await isPortFree(port + BUS_PORT_ABOVE, "127.0.0.1"))) ports.add(port);
  }
  return [...ports];
}
