import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BagQueue, type BagToQueue, WORKSPACE_BAGS_MAX } from "../../src/queue/bagqueue.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { type OwnRedis, ownRedis } from "../rig/services.ts";
import { emptyRedis } from "../rig/wholeredis.ts";

let own: OwnRedis;
let redis: RedisClient;
let line: BagQueue;
beforeAll(async () => {
  own = await ownRedis();
  redis = connectRedis(own.url, "worker", 20_000);
  line = new BagQueue(redis);
});
afterAll(async () => {
  await line.close();
  redis.disconnect();
  await own.stop();
});

const bagsOf = (workspaceId: string, count: number, emails = 100): BagToQueue[] =>
  Array.from({ length: count }, () => ({ workspaceId, id: randomUUID(), generation: 0, shard: 0, emails }));

const inOrder = () => redis.zrange("bull:{bags-0}:prioritized", "0", "-1");

test("a single bag of another workspace overtakes all but the next of a backlog, and order holds within each", async () => {
  const [busy, quiet] = [randomUUID(), randomUUID()];
  const backlog = bagsOf(busy, 300);
  await line.enqueue(backlog);
  const [single] = bagsOf(quiet, 1) as [BagToQueue];
  await line.enqueue([single]);
  const jobs = await inOrder();
  expect(jobs.indexOf(`${single.id}-0`)).toBeLessThanOrEqual(2);
  const others = jobs.filter((job) => job !== `${single.id}-0`);
  expect(others).toEqual(backlog.map(({ id }) => `${id}-0`));
});

test("who sends one by one waits no longer than who sends a hundred at once", async () => {
  await emptyRedis(redis);
  await line.enqueue(Array.from({ length: 10 }, () => bagsOf(randomUUID(), 50)).flat());
  const singles = bagsOf(randomUUID(), 20, 1);
  await line.enqueue(singles);
  const jobs = await inOrder();
  const places = singles.map(({ id }) => jobs.indexOf(`${id}-0`));
  // two rounds of the ten backlogs at most
  expect(Math.max(...places)).toBeLessThan(2 * 10 + 20);
  expect(places).toEqual([...places].sort((a, b) => a - b));
});

test("a single mail goes before the next hundred of everybody else, however many they are", async () => {
  await emptyRedis(redis);
  const backlogs = Array.from({ length: 300 }, () => bagsOf(randomUUID(), 2));
  await line.enqueue(backlogs.flat());
  const [first] = bagsOf(randomUUID(), 1, 1) as [BagToQueue];
  await line.enqueue([first]);
  expect((await inOrder())[0]).toBe(`${first.id}-0`);

  // and it is no way to go first for ever: what it sends counts, and the others keep their places
  const flood = bagsOf(first.workspaceId, 60, 1);
  await line.enqueue(flood);
  const jobs = await inOrder();
  const places = flood.map(({ id }) => jobs.indexOf(`${id}-0`));
  expect(places.filter((place) => place < 300 + 20)).toHaveLength(19);
  expect(places).toEqual([...places].sort((a, b) => a - b));
});

test("one workspace has so many bags in line and no more; those that left make room", async () => {
  await emptyRedis(redis);
  const workspaceId = randomUUID();
  const [first] = await line.enqueue(bagsOf(workspaceId, WORKSPACE_BAGS_MAX + 5));
  expect(first?.queued).toHaveLength(WORKSPACE_BAGS_MAX);
  expect(first?.heldBack).toHaveLength(5);
  const [other] = await line.enqueue(bagsOf(randomUUID(), 3));
  expect(other?.queued).toHaveLength(3);
  await line.stepOut(0, Array(5).fill(workspaceId));
  expect((await line.rooms(0, [workspaceId])).each).toEqual([5]);
  const [second] = await line.enqueue(first?.heldBack ?? []);
  expect(second?.queued).toHaveLength(5);
});

test("bags that a lost line no longer counts may still leave it, and leave the counts at zero", async () => {
  await emptyRedis(redis);
  const workspaceId = randomUUID();
  await line.stepOut(0, [workspaceId]);
  await line.enqueue(bagsOf(workspaceId, 1));
  await line.stepOut(0, [workspaceId]);
  await line.stepOut(0, [workspaceId, workspaceId]);
  await line.stepOut(0, []);
  expect(await redis.hgetall("{bags-0}:fairness")).toEqual({ virtual: "0", in_line: "0" });
});

test("a line that was lost begins a new epoch, with nobody in it", async () => {
  const before = await line.openEpoch(0);
  expect(await line.openEpoch(0)).toBe(before);
  await emptyRedis(redis);
  expect(await line.openEpoch(0)).not.toBe(before);
  expect((await line.rooms(0, [randomUUID()])).each).toEqual([WORKSPACE_BAGS_MAX]);
});

test("tags that grow too large are lowered together, and the order stays", async () => {
  await emptyRedis(redis);
  await line.openEpoch(0);
  await redis.hset("{bags-0}:fairness", "virtual", "1500000");
  const [a, b] = [randomUUID(), randomUUID()];
  const bags = [...bagsOf(a, 3), ...bagsOf(b, 1)];
  await line.enqueue(bags);
  expect(Number(await redis.hget("{bags-0}:fairness", "virtual"))).toBeLessThan(10);
  const more = bagsOf(a, 1);
  await line.enqueue(more);
  const jobs = await inOrder();
  expect(jobs.at(-1)).toBe(`${more[0]?.id}-0`);
  expect(new Set(jobs.slice(0, 2))).toEqual(new Set([`${bags[0]?.id}-0`, `${bags[3]?.id}-0`]));
});
