/**
 * One engine for one run of the bench: Postgres with fsync, Redis, a sink, and the roles as processes of
 * their own, on free ports in a folder of their own. Whatever is started is in the endings before anything
 * else happens.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Keyring } from "../src/admission/keyring.ts";
import { makeKey, newSelector, publicPartOf, Sealer } from "../src/domain/key.ts";
import { nodeFlags } from "../src/embedded/child.ts";
import { freePort } from "../src/embedded/port.ts";
import { type Postgres, startPostgres } from "../src/embedded/postgres.ts";
import { type RedisServer, startRedis } from "../src/embedded/redis.ts";
import { connectRecord, type Sql } from "../src/record/db/connect.ts";
import { migrate } from "../src/record/db/migrate.ts";
import { insertDomainKey } from "../src/record/workspaces/domainkeys.ts";
import { connectRedis } from "../src/redis/connect.ts";
import type { RedisClient } from "../src/redis/scripts.ts";
import type { Overrides } from "../src/rules/plans.ts";
import {
  type AskLoop,
  type LoopAnswer,
  type LoopReport,
  preloads,
  type SetClock,
} from "../test/rig/preloads.ts";
import { openProxy } from "../test/rig/proxy.ts";
import type { Endings } from "./endings.ts";
import { Meter, type Watched } from "./meter.ts";
import { endChild, type Sink, type SinkKind, STOP_MS_MAX, startSink } from "./sink.ts";

export const SECRET = "a secret of the bench, long enough for any use";
export const CLOCK = { now: () => Date.now(), given: () => 0 };
/** Nobody needs what it would still put in order. */
const INTERRUPTED_MS_MAX = 500;
/** So large that no scenario meets it by accident. */
const AMPLE: Overrides = {
  requests_per_second: 1_000_000,
  requests_per_minute: 60_000_000,
  emails_per_month: 2_000_000_000,
  cap_hour: 2_000_000_000,
  cap_day: 2_000_000_000,
};

export type RoleName =
  | "api"
  | "deliver"
  | "automate"
  | "inbound"
  | "submission"
  | "webhooks"
  | "console"
  | "keeper";
export type Role = { name: string; pid: number; url: string; stop(): Promise<void> };
export type WatchedRole = Role & {
  /** How long its event loop was held since this was asked last. */
  loop(): Promise<LoopReport>;
};
export type SteppedRole = Role & {
  /** From now on its wall clock is off by this much. */
  setClock(offMs: number): Promise<void>;
};
export type Workspace = { id: string; handle: string; key: string };

export type Bench = {
  postgres: Postgres;
  redisServer: RedisServer;
  sql: Sql;
  redis: RedisClient;
  sink: Sink;
  keyring: Keyring;
  /** A folder that goes with the bench. */
  folder: string;
  endings: Endings;
  /** With more than one of its processes they share a port. */
  role(name: RoleName, env?: Record<string, string>, processes?: number): Promise<Role>;
  /**
   * The watch itself costs a thousand wakings a second: what it costs elsewhere is not to be measured beside
   * it.
   */
  watchedRole(name: RoleName): Promise<WatchedRole>;
  /** Its wall clock is off by this much, and can be set. */
  steppedRole(name: RoleName, offMs: number, env?: Record<string, string>): Promise<SteppedRole>;
  /** A process of the bench itself, plain JavaScript; it says `{kind: "ready"}` when it serves. */
  program(name: string, script: string, env?: Record<string, string>): Promise<Role>;
  workspace(limits?: Overrides): Promise<Workspace>;
  /** From now on the workspace's mail from this domain is signed with an RSA key of its own. */
  signFor(workspaceId: string, domain: string): Promise<void>;
  /** Measures what runs now, the stores and a sink included, and the rate at which mail gets there. */
  meter(what?: { into?: Sink; more?: readonly Watched[] }): Meter;
  /** Redis dies without a word and comes back empty, where it was. */
  loseRedis(): Promise<void>;
};

export type Circumstances = {
  sink: SinkKind;
  /** Added to every byte between the roles and Postgres, Redis and the sink, in each direction. */
  latencyMs: number;
  /** Where CPU profiles of the roles go; null: none are taken. */
  profiles: string | null;
};

export async function startBench(circumstances: Circumstances, endings: Endings): Promise<Bench> {
  const { signal } = endings;
  const folder = mkdtempSync(join(tmpdir(), "postrider-bench-"));
  // an initdb that was aborted may write a moment longer
  endings.add(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }));
  chmodSync(folder, 0o755); // Postgres runs as a user of its own
  const log = () => {};
  const postgres = await endings.start(
    startPostgres({ folder: join(folder, "postgres"), durable: true, log, signal }),
  );
  const redisOptions = { folder: join(folder, "redis"), durable: true, log, signal };
  let redisServer = await endings.start(startRedis(redisOptions));
  const redisPort = Number(new URL(redisServer.tcpUrl).port);
  const sql = connectRecord(postgres.url, "setup", 600_000);
  endings.add(() => sql.end({ timeout: 1 }));
  await migrate(sql, CLOCK.now());
  const redis = connectRedis(redisServer.url, "worker", 10_000);
  redis.on("error", () => {}); // it is taken away on purpose
  endings.add(() => redis.disconnect());
  const keyring = new Keyring({ redis, sql, serverSecret: SECRET, clock: CLOCK });
  const sink = await startSink(circumstances.sink, folder, endings);
  const places = await placesOf(postgres, redisServer, sink, circumstances.latencyMs, endings);
  const env = {
    PATH: process.env.PATH,
    ...places,
    POSTRIDER_SECRET: SECRET,
    LOG_LEVEL: "error",
    REQUIRE_VERIFIED_DOMAINS: "false",
  };
  const running: Watched[] = [];

  async function start(name: string, args: string[], more: Record<string, string>) {
    signal.throwIfAborted();
    const port = await freePort();
    const child = spawn(process.execPath, args, {
      env: { ...env, PORT: String(port), ...more },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      detached: true, // Ctrl-C is ours to pass on
    });
    // what it says when the stores are taken away from it helps nobody
    child.stderr?.on("data", (text: Buffer) => signal.aborted || process.stderr.write(text));
    const entry = { name, pid: child.pid as number };
    running.push(entry);
    const stop = endings.add(async () => {
      await endChild(child, signal.aborted ? INTERRUPTED_MS_MAX : STOP_MS_MAX);
      running.splice(running.indexOf(entry), 1);
    });
    await untilReady(name, child);
    return { ...entry, url: `http://127.0.0.1:${port}`, stop, child };
  }

  function startRole(name: RoleName, flags: readonly string[], more: Record<string, string>, processes = 1) {
    const script = fileURLToPath(new URL("../dist/cli/postrider.js", import.meta.url));
    const args = [script, "serve", "--role", name, "--processes", String(processes)];
    return start(name, [...nodeFlags([name]), ...flags, ...args], more);
  }

  return {
    postgres,
    get redisServer() {
      return redisServer;
    },
    sql,
    redis,
    sink,
    keyring,
    folder,
    endings,
    role: (name, more = {}, processes = 1) =>
      startRole(name, profiling(circumstances.profiles, name), more, processes),
    async watchedRole(name) {
      const flags = [...preloads({ watchesLoop: true }).execArgv, ...profiling(circumstances.profiles, name)];
      const { child, ...role } = await startRole(name, flags, {});
      const loop = async () => {
        const answered = once(child, "message");
        child.send({ kind: "loop?" } satisfies AskLoop);
        const [{ report }] = (await answered) as [LoopAnswer];
        return report;
      };
      return { ...role, loop };
    },
    async steppedRole(name, offMs, more = {}) {
      const { execArgv, env: clock } = preloads({ wrongByMs: offMs });
      const { child, ...role } = await startRole(name, execArgv, { ...clock, ...more });
      return {
        ...role,
        async setClock(offsetMs) {
          const isSet = once(child, "message");
          child.send({ kind: "set clock", offsetMs } satisfies SetClock);
          await isSet;
        },
      };
    },
    program: (name, script, more = {}) =>
      start(name, [...nodeFlags(["deliver"]), fileURLToPath(new URL(script, import.meta.url))], more),
    workspace: (limits) => benchWorkspace(keyring, limits),
    async signFor(workspaceId, domain) {
      const made = await makeKey("rsa");
      const name = { workspaceId, domain, selector: newSelector() };
      const sealedKey = new Sealer(SECRET).seal(name, made);
      const key = { ...name, algorithm: made.algorithm, publicKey: publicPartOf(made), sealedKey };
      await insertDomainKey(sql, key, "signing", new Date());
    },
    meter({ into = sink, more = [] } = {}) {
      const meter = new Meter(
        [
          ...running,
          { name: "postgres", pid: postgres.pid },
          { name: "redis", pid: redisServer.pid },
          ...more,
          { name: "sink", pid: into.pid },
        ],
        [{ name: "e-mails in the sink", read: () => into.count() }],
      );
      endings.add(() => meter.end());
      return meter;
    },
    async loseRedis() {
      process.kill(redisServer.pid, "SIGKILL");
      await redisServer.ended;
      rmSync(redisOptions.folder, { recursive: true, force: true });
      signal.throwIfAborted();
      redisServer = await endings.start(startRedis({ ...redisOptions, port: redisPort }));
    },
  };
}

export async function benchWorkspace(keyring: Keyring, limits: Overrides = {}): Promise<Workspace> {
  const { id, handle } = await keyring.createWorkspace("bench", "pro", { ...AMPLE, ...limits });
  const wanted = { name: "bench", permissions: ["full" as const], audienceIds: null };
  const created = await keyring.createKey(id, wanted, "operator");
  if (!("key" in created)) throw new Error(created.message);
  return { id, handle, key: created.key };
}

/** Where the roles find what they need: over unix sockets, or with a slow network between. */
async function placesOf(
  postgres: Postgres,
  redisServer: RedisServer,
  sink: Sink,
  latencyMs: number,
  endings: Endings,
) {
  const smtp = (port: number) => `smtp://127.0.0.1:${port}?pool=20`;
  if (latencyMs === 0)
    return { DATABASE_URL: postgres.url, REDIS_URL: redisServer.url, SMTP_URL: smtp(sink.port) };
  const slowly = async (port: number): Promise<number> => {
    const proxy = await openProxy({ port });
    endings.add(() => proxy.down());
    proxy.latencyMs = latencyMs;
    return proxy.port;
  };
  const through = async (url: string): Promise<string> => {
    const slow = new URL(url);
    slow.port = String(await slowly(Number(slow.port)));
    return slow.href;
  };
  return {
    DATABASE_URL: await through(postgres.tcpUrl),
    REDIS_URL: await through(redisServer.tcpUrl),
    SMTP_URL: smtp(await slowly(sink.port)),
  };
}

function profiling(folder: string | null, name: string): string[] {
  if (folder === null) return [];
  mkdirSync(folder, { recursive: true });
  return ["--cpu-prof", `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${name}-${Date.now()}.cpuprofile`];
}

async function untilReady(name: string, child: ChildProcess): Promise<void> {
  const died = once(child, "exit").then(([status]) => ({ kind: "failed", reason: `it ended (${status})` }));
  const reported = once(child, "message").then(([report]) => report as { kind: string; reason?: string });
  const { kind, reason } = await Promise.race([reported, died]);
  if (kind !== "ready") throw new Error(`${name} did not start: ${reason}`);
}
