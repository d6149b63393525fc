/**
 * Whoever of the processes is killed, and whenever: nothing keeps running, and the next start works with what
 * was there.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Identity } from "../../src/embedded/process.ts";
import { eventually } from "../rig/eventually.ts";
import { gone } from "../rig/gone.ts";
import { freshHome, type Started, start } from "../rig/start.ts";

/** Whoever does not end by itself stays for ever. */
const GONE_MS_MAX = 30_000;
const home = freshHome();
let key: string | null = null;
let last: Started | null = null;

/** Ready, with the key of the first time. */
async function started() {
  last = start(home);
  const ready = await last.ready();
  key ??= ready.api_key;
  expect(ready.api_key).toBe(key);
  return { root: last, pids: ready.pids as Record<"root" | "stores" | "postgres" | "redis", number> };
}

function noted(): Record<string, Identity> {
  return JSON.parse(readFileSync(join(home, "processes.json"), "utf8")) as Record<string, Identity>;
}

test("the root is killed while the database is made", async () => {
  const root = start(home);
  await root.hears("Creating the database");
  const pids = Object.values(noted()).map(({ pid }) => pid);
  root.signal("SIGKILL");
  await gone(pids, GONE_MS_MAX);
});

test("the root is killed while the roles start", async () => {
  const root = start(home);
  await root.hears("Starting the engine");
  await eventually(() => expect(noted()).toHaveProperty("others"), { interval: 5 });
  const pids = Object.values(noted()).map(({ pid }) => pid);
  root.signal("SIGKILL");
  await gone(pids, GONE_MS_MAX);
});

test("the process that holds the stores is killed: the root ends the rest", async () => {
  const { root, pids } = await started();
  process.kill(pids.stores, "SIGKILL");
  expect(await root.ended).toBe(1);
  expect(root.said().err).toMatch(
    /^A store that Postrider started has ended \(SIGKILL\)\. See .*stores\.log\n$/,
  );
  await gone(Object.values(pids), GONE_MS_MAX);
  expect(existsSync(join(home, "ready.json"))).toBe(false);
});

test("Redis is killed: the root says so and ends the rest", async () => {
  const { root, pids } = await started();
  process.kill(pids.redis, "SIGKILL");
  expect(await root.ended).toBe(1);
  expect(root.said().err).toMatch(
    /^A store that Postrider started has ended \(redis ended by itself\)\. See .*stores\.log\n$/,
  );
  await gone(Object.values(pids), GONE_MS_MAX);
});

test("root and holder are killed at once: the next start ends the servers they left", async () => {
  const { pids } = await started();
  process.kill(pids.root, "SIGKILL");
  process.kill(pids.stores, "SIGKILL");
  const { root } = await started();
  expect(root.said().out).toContain("Waiting for processes of the last run to end");
  await gone(Object.values(pids), 0);
});

test("a pid file that names somebody else's process by now does not hold up Postgres", async () => {
  last?.signal("SIGTERM");
  expect(await last?.ended).toBe(0);
  const pidFile = join(home, "postgres", "data", "postmaster.pid");
  expect(existsSync(pidFile)).toBe(false);
  writeFileSync(pidFile, `${process.pid}\n`);
  const { root, pids } = await started();
  root.signal("SIGTERM");
  expect(await root.ended).toBe(0);
  await gone(Object.values(pids), GONE_MS_MAX);
});
