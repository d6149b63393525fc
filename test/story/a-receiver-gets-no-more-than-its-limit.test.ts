/** Limits of the shaping file against receivers that count, with two workers that share them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { ShapingRules } from "../../src/shaping/file.ts";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, PATIENT, startEngine } from "../rig/engine.ts";
import { Receiver } from "../rig/receiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Read = { status: string; attempts: number; reason: string | null; next_attempt_at: string | null };

let stage: Stage;
let world: World;
let folder: string;
let engine: Engine;
let workers: Engine[];
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], { ...stage, settings: PATIENT });
  ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  folder = mkdtempSync(join(tmpdir(), "shaping-"));
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  world = await openWorld();
  world.name({ "a.test": { addresses: ["127.1.0.1"] }, "b.test": { addresses: ["127.1.0.2"] } });
  workers = [];
});
afterEach(async () => {
  for (const worker of workers) {
    expect(worker.complaints).toEqual([]);
    await worker.stop();
  }
  await world.end();
});

async function startWorkers(count: number, rules: ShapingRules): Promise<void> {
  const file = join(folder, "shaping.json");
  writeFileSync(file, JSON.stringify(rules));
  const settings = { ...PATIENT, ...world.settings, SHAPING_FILE: file, DELIVERY_CONCURRENCY: "200" };
  for (let n = 0; n < count; n++)
    workers.push(await startEngine(["deliver"], { ...stage, smtpUrl: "", settings }));
}

async function send(count: number, domain: string): Promise<string[]> {
  const mails = Array.from({ length: count }, (_, n) => mail({ to: `user${n}@${domain}` }));
  const ids: string[] = [];
  for (let n = 0; n < count; n += 20) {
    const { body } = await ws.client.post<{ data: { id: string }[] }>(
      "/emails/batch",
      mails.slice(n, n + 20),
    );
    ids.push(...body.data.map(({ id }) => id));
  }
  return ids;
}

const read = async (id: string) => (await ws.client.get<Read>(`/emails/${id}`)).body;
const settledAll = async (ids: readonly string[]) => {
  const reads = await Promise.all(ids.map(read));
  return reads.every(({ status }) => status === "delivered");
};

test("connections, messages over each, and messages a second, for two workers together", async () => {
  const receiver = new Receiver();
  await world.peerAt("127.1.0.1", receiver.script);
  const other = await world.sinkAt("127.1.0.2");
  await startWorkers(2, {
    rules: [
      { match: { mx: ["a.test"] }, connections: 3, messages_per_connection: 5, messages_per_second: 20 },
    ],
  });
  const ids = await send(120, "a.test");
  const others = await send(200, "b.test");
  await expect.poll(() => settledAll(others), { timeout: 20_000 }).toBe(true);
  expect(receiver.takenAt.length).toBeLessThan(120);
  await expect.poll(() => settledAll(ids), { timeout: 40_000 }).toBe(true);
  expect(receiver.takenAt).toHaveLength(120);
  expect(receiver.mostOpen).toBeLessThanOrEqual(3);
  expect(receiver.mostOfOne).toBeLessThanOrEqual(5);
  expect(receiver.mostWithin(1_000)).toBeLessThanOrEqual(21);
  expect(other.ledger.mails).toHaveLength(200);
  for (const id of ids.slice(0, 20)) expect((await read(id)).attempts).toBe(1);
}, 90_000);

test("mail beyond the rate waits for its turn, without an attempt, and says why and until when", async () => {
  const receiver = new Receiver();
  await world.peerAt("127.1.0.1", receiver.script);
  await startWorkers(1, { rules: [{ match: { domain: ["a.test"] }, messages_per_minute: 60 }] });
  const ids = await send(60, "a.test");
  await expect
    .poll(
      async () => (await Promise.all(ids.map(read))).filter(({ status }) => status === "deferred").length,
      {
        timeout: 20_000,
      },
    )
    .toBeGreaterThan(20);
  const waiting = (await Promise.all(ids.map(read))).filter(({ status }) => status === "deferred");
  for (const { attempts, reason } of waiting) {
    expect(attempts).toBe(0);
    expect(reason).toMatch(
      /^Not delivered to a\.test yet: the limit for a\.test is reached \(60 messages a minute\)\. The next attempt is (at|due)/,
    );
  }
  const turns = waiting.map(({ next_attempt_at }) => Date.parse(next_attempt_at as string));
  expect(Math.max(...turns)).toBeLessThan(Date.now() + 70_000);
  // one after the other, at the rate
  expect(new Set(turns).size).toBe(turns.length);
  const others = await send(20, "b.test");
  await world.sinkAt("127.1.0.2");
  await expect.poll(() => receiver.takenAt.length, { timeout: 40_000 }).toBeGreaterThan(25);
  expect(receiver.mostWithin(10_000)).toBeLessThanOrEqual(11);
  expect(others).toHaveLength(20);
}, 90_000);
