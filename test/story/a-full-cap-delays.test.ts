import { afterAll, beforeAll, expect, test } from "vitest";
import type { Keeper } from "../../src/keeper/keeper.ts";
import { BUCKET_MS, HOUR_BUCKETS } from "../../src/rules/ledger.ts";
import { MovableClock } from "../rig/clock.ts";
import { handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { emptyRedis, keysIn } from "../rig/wholeredis.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const HOUR_MS = HOUR_BUCKETS * BUCKET_MS;

// noon of today: the partitions of the days around are there
const clock = new MovableClock(Math.floor(Date.now() / 86_400_000) * 86_400_000 + 43_200_000);
let stage: Stage;
let api: TestApi;
let keeper: Keeper;
const close: (() => unknown)[] = [];

async function newKeeper(): Promise<Keeper> {
  const { keeper, close: closeKeeper } = handKeeper(stage, clock);
  close.push(closeKeeper);
  return keeper;
}

beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  keeper = await newKeeper();
});
afterAll(async () => {
  await api.stop();
  for (const one of close) await one();
  await stage.close();
});

type Shown = {
  status: string;
  last_event: string;
  waiting_for: string | null;
  next_attempt_at: string | null;
  delayed_at: string | null;
};

async function statuses(ws: TestWorkspace, ids: readonly string[]): Promise<string[]> {
  const rows = await api.sql<{ id: string; status: string }[]>`
    select id, status from email where workspace_id = ${ws.id} and id = any(${[...ids]}::uuid[]) order by id`;
  return rows.map((row) => row.status);
}

async function sendBatch(ws: TestWorkspace, count: number): Promise<string[]> {
  const { body } = await ws.client.post<{ data: { id: string }[] }>(
    "/emails/batch",
    Array(count).fill(mail()),
  );
  return body.data.map(({ id }) => id);
}

const all = (count: number, status: string) => Array(count).fill(status);

test("the rest of a batch waits in its order, says why, and goes when the hour has moved on", async () => {
  const ws = await api.workspace("pro", { cap_hour: 60, cap_day: 1_000 });
  const ids = await sendBatch(ws, 100);
  expect(await statuses(ws, ids)).toEqual([...all(60, "accepted"), ...all(40, "waiting")]);
  const { body } = await ws.client.get<Shown>(`/emails/${ids[99]}`);
  expect(body).toMatchObject({ status: "waiting", last_event: "delivery_delayed", waiting_for: "cap_hour" });
  expect(body).toMatchObject({ events: [{ type: "queued" }, { type: "delivery_delayed" }] });
  expect(body.delayed_at).not.toBeNull();
  expect(Date.parse(body.next_attempt_at as string)).toBeGreaterThan(clock.now());

  // a newcomer waits behind what waits already
  const [late] = await sendBatch(ws, 1);
  expect(await statuses(ws, [late as string])).toEqual(["waiting"]);

  clock.advance(HOUR_MS);
  await keeper.release();
  expect(await statuses(ws, ids)).toEqual(all(100, "accepted"));
  expect(await statuses(ws, [late as string])).toEqual(["accepted"]);
  const { body: gone } = await ws.client.get<Shown>(`/emails/${ids[99]}`);
  expect(gone).toMatchObject({ status: "accepted", waiting_for: null, next_attempt_at: null });
});

test("two keepers at once let out no more than the cap", async () => {
  const ws = await api.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  const ids = await sendBatch(ws, 100);
  clock.advance(HOUR_MS);
  const other = await newKeeper();
  await Promise.all([keeper.release(), other.release(), keeper.release(), other.release()]);
  expect((await statuses(ws, ids)).filter((status) => status === "accepted")).toHaveLength(100);
  const more = await sendBatch(ws, 100);
  clock.advance(BUCKET_MS);
  await Promise.all([keeper.release(), other.release()]);
  expect(await statuses(ws, more)).toEqual(all(100, "waiting"));
  clock.advance(HOUR_MS);
  await Promise.all([keeper.release(), other.release()]);
  expect(await statuses(ws, more)).toEqual([...all(50, "accepted"), ...all(50, "waiting")]);
});

test("a canceled mail leaves its place in the line of those that wait", async () => {
  const ws = await api.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  const ids = await sendBatch(ws, 51);
  expect((await ws.client.post(`/emails/${ids[50]}/cancel`)).status).toBe(200);
  const [ledger] = await api.sql`select waiting from ledger where workspace_id = ${ws.id}`;
  expect(ledger?.waiting).toBe(0);
});

test("scheduled mail asks the caps when it is due", async () => {
  const ws = await api.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  const later = Array(60).fill(mail({ scheduled_at: "in 2 hours" }));
  const { body } = await ws.client.post<{ data: { id: string }[] }>("/emails/batch", later);
  const ids = body.data.map(({ id }) => id);
  expect(await statuses(ws, ids)).toEqual(all(60, "scheduled"));
  clock.advance(2 * 3_600_000 + 1);
  await keeper.pack();
  expect(await statuses(ws, ids)).toEqual([...all(50, "accepted"), ...all(10, "waiting")]);
});

test("what Redis lost is queued again: all of it, or a single job", async () => {
  const ws = await api.workspace("pro", { cap_hour: 10_000, cap_day: 10_000 });
  await sendBatch(ws, 100);
  clock.advance(10_000); // past the time in which whoever made a bag queues it
  await keeper.queue();
  const jobs = async () => (await keysIn(api.redis, "bull:*")).filter((key) => /[0-9a-f]{12}-\d+$/.test(key));
  const before = await jobs();
  expect(before.length).toBeGreaterThan(0);
  await emptyRedis(api.redis);
  await keeper.queue();
  expect(await jobs()).toHaveLength(before.length);
  const [one] = await jobs();
  await api.redis.del(one as string);
  await keeper.audit();
  await keeper.queue();
  expect(await jobs()).toHaveLength(before.length);
});
