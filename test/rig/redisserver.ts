/** Servers of Redis with settings of the test's own: nodes of a cluster, sentinels, servers with TLS and users. */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Daemon, startDaemon } from "../../src/embedded/daemon.ts";

const LOOK_EVERY_MS = 50;
const TRUE_MS_MAX = 30_000;

/** What a test says that is skipped; null: it runs. */
export const missingRedis: string | null =
  spawnSync("redis-server", ["--version"]).status === 0 ? null : "redis-server is not on this machine";

/** `lines` are its configuration; it may write into it. */
export function startRedisServer(
  folder: string,
  lines: readonly string[],
  isSentinel = false,
): Promise<Daemon> {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "redis.conf");
  writeFileSync(file, ["bind 127.0.0.1", `dir ${folder}`, ...lines, ""].join("\n"), { mode: 0o600 });
  return startDaemon({
    name: "Redis",
    program: "redis-server",
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
