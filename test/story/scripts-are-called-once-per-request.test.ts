import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { infoOf } from "../../src/redis/canwrite.ts";
import { mastersOf } from "../../src/redis/connect.ts";
import { type OwnRedis, ownRedis } from "../rig/services.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let redis: OwnRedis;
let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  redis = await ownRedis();
  api = await testApi({ redisUrl: redis.url, queues: true });
  ws = await api.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  // every script is known to Redis, and so are the key and its counters
  await ws.client.post("/emails", mail());
  await queued(1);
});
beforeEach(async () => {
  api.bags.length = 0;
  await Promise.all((await mastersOf(api.redis)).map((master) => master.config("RESETSTAT")));
});
afterAll(async () => {
  await api.stop();
  await redis.stop();
});

/** Calls since the last reset, by command. */
async function calls(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const info of await infoOf(api.redis, "commandstats"))
    for (const [, name = "", count] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm))
      counts[name] = (counts[name] ?? 0) + Number(count);
  return counts;
}

const scripts = async () => {
  const { evalsha = 0, eval: whole = 0 } = await calls();
  return evalsha + whole;
};

const queuedNow = async () => {
  const [row] = await api.sql<{ count: number }[]>`
    select count(*)::int from bag where workspace_id = ${ws.id} and epoch is not null`;
  return row?.count as number;
};

/** Bags go in line after the caller was answered: resolves when all are there. */
const queued = (bags: number) => vi.waitUntil(async () => (await queuedNow()) >= bags, { timeout: 20_000 });

test.each([1, 2, 100])("a batch of %i: admit, reserve, one for the line and one job", async (size) => {
  const before = await queuedNow();
  const batch = Array.from({ length: size }, () => mail());
  expect((await ws.client.post("/emails/batch", batch)).status).toBe(200);
  await queued(before + 1);
  expect(api.bags).toHaveLength(1);
  expect(await scripts()).toBe(4);
});

test("more bags are more jobs and still one script for the line", async () => {
  const before = await queuedNow();
  const batch = Array.from({ length: 9 }, () => mail({ html: "x".repeat(1024 * 1024) }));
  expect((await ws.client.post("/emails/batch", batch)).status).toBe(200);
  await queued(before + 3);
  expect(api.bags).toHaveLength(3);
  expect(await scripts()).toBe(2 + 1 + 3);
});

test("requests that come together share scripts and commits, and each commit costs one script and its jobs", async () => {
  const before = await queuedNow();
  const requests = 60;
  const answers = await Promise.all(
    Array.from({ length: requests }, () => ws.client.post("/emails", mail())),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  const commits = api.bags.length; // of one workspace, so one bag each
  await queued(before + commits);
  expect(commits).toBeLessThan(requests);
  const asked = (await scripts()) - 2 * commits;
  expect(asked).toBeGreaterThanOrEqual(2);
  expect(asked).toBeLessThan(2 * requests);
});

test("a request that sends nothing is one script, refused or not", async () => {
  await ws.client.get("/emails");
  await ws.client.get("/emails/not-an-id");
  await ws.client.post("/emails", mail({ to: "nobody" }));
  await ws.client.get("/nowhere");
  expect(await scripts()).toBe(4);
  await fetch(`${api.url}/api/v1/emails`, { headers: { authorization: `Bearer pr_live_${"a".repeat(32)}` } });
  expect(await scripts(), "a guessed key asks nobody").toBe(4);
});
