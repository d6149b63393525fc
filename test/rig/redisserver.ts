/**
 * Servers of Redis with settings of the test's own: nodes of a cluster, sentinels, servers with TLS and
 * users.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Daemon, startDaemon } from "../../src/embedded/daemon.ts";

const LOOK_EVERY_MS = 50;
const TRUE_MS_MAX = 30_000;

const runs = (program: string) => spawnSync(program, ["--version"]).status === 0;

/** What a test says that is skipped; null: it runs. */
export const missingRedis: string | null = runs("redis-server")
  ? null
  : "redis-server is not on this machine";

/** On PATH, or where `.ci/valkey` puts it. */
const valkey =
  ["valkey-server", join(tmpdir(), "postrider-valkey/root/usr/bin/valkey-server")].find(runs) ?? null;

/** On which a test can run, and what it says where it is skipped. */
export const REDIS_PROGRAMS = [
  { name: "Redis", program: "redis-server", missing: missingRedis },
  {
    name: "Valkey",
    program: valkey ?? "valkey-server",
    missing: valkey === null ? "valkey-server is not on this machine: run .ci/valkey" : null,
  },
] as const;

/** `lines` are its configuration; it may write into it. */
export function startRedisServer(
  folder: string,
  lines: readonly string[],
  { isSentinel = false, program = "redis-server" } = {},
): Promise<Daemon> {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "redis.conf");
  writeFileSync(file, ["bind 127.0.0.1", `dir ${folder}`, ...lines, ""].join("\n"), { mode: 0o600 });
  return startDaemon({
    name: "Redis",
    program,
    args: [file, ...(isSentinel ? ["--sentinel"] : [])],
    env: {},
    isReady: (line) => line.includes(isSentinel ? "+monitor" : "eady to accept connections"),
    gently: "SIGTERM",
    atOnce: "SIGKILL",
  });
}

/** A power cut. */
export async function killRedisServer({ pid, ended }: Daemon): Promise<void> {
  process.kill(pid, "SIGKILL");
  await ended;
}

/** Asks again and again. */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + TRUE_MS_MAX;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`after ${TRUE_MS_MAX} ms it is not true that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
