/**
 * One engine for one run of the bench: Postgres with fsync, Redis, a sink, and the roles as processes of their own, on
 * free ports in a folder of their own. Everything ends with `stop`, also after Ctrl-C.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Keyring } from "../src/admission/keyring.ts";
import { startMailbox } from "../src/embedded/mailbox.ts";
import { freePort } from "../src/embedded/port.ts";
import { type Postgres, startPostgres } from "../src/embedded/postgres.ts";
import { type RedisServer, startRedis } from "../src/embedded/redis.ts";
import { connectRecord, type Sql } from "../src/record/connect.ts";
import { migrate } from "../src/record/migrate.ts";
import { connectRedis } from "../src/redis/connect.ts";
import type { RedisClient } from "../src/redis/scripts.ts";

const SECRET = "a secret of the bench, long enough for any use";
const CLOCK = { now: () => Date.now(), given: () => 0 };
const TICKS_PER_SECOND = 100;
const AMPLE = {
  requests_per_second: 1_000_000,
  requests_per_minute: 60_000_000,
  emails_per_month: 2_000_000_000,
  cap_hour: 2_000_000_000,
  cap_day: 2_000_000_000,
};

export type Bench = {
  postgres: Postgres;
  redisServer: RedisServer;
  sql: Sql;
  redis: RedisClient;
  /** Where mail goes, and what takes it there. */
  sink: { port: number; kind: "smtp-sink" | "smtp-server"; pid: number | null };
  role(name: "api" | "deliver" | "automate" | "keeper"): Promise<Role>;
  bare(): Promise<Role>;
  workspace(): Promise<{ id: string; key: string }>;
  stop(): Promise<void>;
};

export type Role = { name: string; pid: number; url: string; stop(): Promise<void> };

export async function startBench(sinkWanted: "smtp-sink" | "node"): Promise<Bench> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-bench-"));
  chmodSync(folder, 0o755); // Postgres runs as a user of its own
  const log = () => {};
  const postgres = await startPostgres({ folder: join(folder, "postgres"), durable: true, log });
  const redisServer = await startRedis({ folder: join(folder, "redis"), durable: true, log });
  const sql = connectRecord(postgres.url, "setup", 600_000);
  await migrate(sql, CLOCK.now());
  const redis = connectRedis(redisServer.url, "worker", 10_000);
  const keyring = new Keyring({ redis, sql, serverSecret: SECRET, clock: CLOCK });
  const sink = await startSink(sinkWanted);
  const children: ChildProcess[] = [];
  const env = {
    PATH: process.env.PATH,
    DATABASE_URL: postgres.url,
    REDIS_URL: redisServer.url,
    SMTP_URL: `smtp://127.0.0.1:${sink.port}?pool=20`,
    POSTRIDER_SECRET: SECRET,
    LOG_LEVEL: "error",
  };

  async function start(name: string, script: string, args: string[]): Promise<Role> {
    const port = await freePort();
    const child = spawn(process.execPath, [fileURLToPath(new URL(script, import.meta.url)), ...args], {
      env: { ...env, PORT: String(port) },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    children.push(child);
    const [report] = (await once(child, "message")) as [{ kind: string; reason?: string }];
    if (report.kind !== "ready") throw new Error(`${name} did not start: ${report.reason}`);
    const stop = () => end(child);
    return { name, pid: child.pid as number, url: `http://127.0.0.1:${port}`, stop };
  }

  return {
    postgres,
    redisServer,
    sql,
    redis,
    sink,
    role: (name) => start(name, "../dist/cli/postrider.js", ["serve", "--role", name]),
    bare: () => start("bare", "bare.mjs", []),
    async workspace() {
      const { id } = await keyring.createWorkspace("bench", "pro", AMPLE);
      const created = await keyring.createKey(
        id,
        { name: "bench", permissions: ["full"], audienceIds: null },
        "operator",
      );
      if (!("key" in created)) throw new Error(created.message);
      return { id, key: created.key };
    },
    async stop() {
      await Promise.all(children.map(end));
      await sink.stop();
      await sql.end({ timeout: 1 });
      redis.disconnect();
      await redisServer.stop();
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

async function startSink(wanted: "smtp-sink" | "node") {
  const isThere = spawnSync("which", ["smtp-sink"]).status === 0;
  if (wanted === "smtp-sink" && isThere) {
    const port = await freePort();
    const asRoot = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
    const child = spawn("smtp-sink", [...asRoot, "-c", `127.0.0.1:${port}`, "1000"], { stdio: "ignore" });
    return { port, kind: "smtp-sink" as const, pid: child.pid ?? null, stop: () => end(child) };
  }
  const mailbox = await startMailbox();
  const port = Number(new URL(mailbox.smtpUrl).port);
  return { port, kind: "smtp-server" as const, pid: null, stop: () => mailbox.stop() };
}

/** Seconds of CPU a process and its children (Postgres' sessions) have used. */
export function cpuSeconds(pid: number): number {
  return tree(pid).reduce((sum, one) => sum + ticks(one), 0) / TICKS_PER_SECOND;
}

/** The most memory a process has held, in MB. */
export function peakMb(pid: number): number {
  const line = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Math.round(Number(line?.[1] ?? 0) / 1024);
}

function ticks(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /, "")
      .split(" ");
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return 0;
  }
}

function tree(pid: number): number[] {
  const { stdout } = spawnSync("pgrep", ["-P", String(pid)], { encoding: "utf8" });
  return [pid, ...stdout.split("\n").filter(Boolean).map(Number)];
}
