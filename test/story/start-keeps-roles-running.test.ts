/**
 * A role that dies is started again, and ready.json tells the truth meanwhile; one that keeps dying ends the
 * whole.
 */
import { existsSync, rmSync, watch } from "node:fs";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ReadyFile } from "../../src/embedded/home.ts";
import { eventually } from "../rig/eventually.ts";
import { gone } from "../rig/gone.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { freshHome, readReady, type Started, start } from "../rig/start.ts";
import { SECRET } from "../rig/workspace.ts";

const AGAIN_MS_MAX = 40_000;
const LOOK = { timeout: AGAIN_MS_MAX, interval: 10 };
const home = freshHome();
const readyFile = join(home, "ready.json");
let stage: Stage;
let root: Started;
let first: ReadyFile;

beforeAll(async () => {
  stage = await openStage();
  root = start(home, {
    DATABASE_URL: stage.databaseUrl,
    REDIS_URL: stage.redisUrl,
    POSTRIDER_SECRET: SECRET,
  });
  first = await root.ready();
});
afterAll(() => stage.close());

async function killed(role: "api" | "deliver" | "others"): Promise<ReadyFile> {
  const { pids } = readReady(home);
  process.kill(pids[role] as number, "SIGKILL");
  return eventually(() => {
    const ready = readReady(home);
    expect(ready.pids[role]).not.toBe(pids[role]);
    return ready;
  }, LOOK);
}

test("the worker is killed: ready.json names its successor, and mail goes out", async () => {
  const { base_url, api_key, mailbox_url } = await killed("deliver");
  expect(root.said().out).toContain("The deliver process ended (SIGKILL). Starting it again ...");
  const sent = await fetch(`${base_url}/api/v1/emails`, {
    method: "POST",
    headers: { authorization: `Bearer ${api_key}`, "content-type": "application/json" },
    body: JSON.stringify({ from: "a@example.com", to: "b@example.com", subject: "after", text: "all" }),
  });
  expect(sent.status).toBe(200);
  await eventually(async () => {
    const messages = (await (await fetch(`${mailbox_url}/messages`)).json()) as { subject: string }[];
    expect(messages.map(({ subject }) => subject)).toContain("after");
  }, LOOK);
});

test("the api is killed: there is no ready.json until it answers again, at the same place", async () => {
  // the kernel tells of each change, however late we ask: one that it is removed, one that it is there again
  let changes = 0;
  const watcher = watch(home, (kind, name) => {
    if (kind === "rename" && name === basename(readyFile)) changes++;
  });
  process.kill(readReady(home).pids.api as number, "SIGKILL");
  await eventually(() => expect(changes).toBe(2), LOOK);
  watcher.close();
  expect(existsSync(readyFile)).toBe(true);
  const ready = readReady(home);
  expect(ready.base_url).toBe(first.base_url);
  expect((await fetch(`${ready.base_url}/readyz`)).status).toBe(200);
});

test("a role that keeps dying ends the whole, with the reason and status 1", async () => {
  const { pids } = readReady(home);
  for (let deaths = 0; deaths < 5; deaths++) await killed("others");
  process.kill(readReady(home).pids.others as number, "SIGKILL");
  expect(await root.ended).toBe(1);
  expect(root.said().err).toBe(
    `The others process keeps ending (SIGKILL). See ${join(home, "logs", "others.log")}\n`,
  );
  await gone(Object.values(pids), 0);
});

test("a role that cannot be started again ends the whole, with the reason in one line", async () => {
  const home = freshHome();
  const given = {
    DATABASE_URL: stage.databaseUrl,
    REDIS_URL: stage.redisUrl,
    SMTP_URL: "smtp://127.0.0.1:1",
    POSTRIDER_SECRET: SECRET,
  };
  const root = start(home, given);
  const { pids } = await root.ready();
  rmSync(join(home, "logs"), { recursive: true });
  process.kill(pids.deliver as number, "SIGKILL");
  expect(await root.ended).toBe(1);
  expect(root.said().err).toMatch(/^ENOENT: .*deliver\.log'\n$/);
  await gone(Object.values(pids), 0);
});
