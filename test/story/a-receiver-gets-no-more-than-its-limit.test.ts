/** Limits of the shaping file against receivers that count, with two workers that share them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { ShapingRules } from "../../src/shaping/file.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Receiver } from "../rig/receiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Read = { status: string; attempts: number; reason: string | null; next_attempt_at: string | null };

const POLL = { timeout: 100_000 };
let stage: Stage;
let world: World;
let folder: string;
let engine: Engine;
let workers: Engine[];
let ws: TestWorkspace;
let shell: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], stage);
  ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  shell = commandLine(stage);
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
  const settings = { ...world.settings, SHAPING_FILE: file, DELIVERY_CONCURRENCY: "200" };
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

/**
 * A busy machine delays what left evenly spaced, so it may arrive together; none of it arrives before its
 * turn, though.
 */
function expectSpaced(
  { takenAt }: Receiver,
  { began, atOnce, everyMs }: { began: number; atOnce: number; everyMs: number },
): void {
  for (const [n, at] of takenAt.entries())
    expect(at - began, `message ${n + 1}`).toBeGreaterThanOrEqual((n + 1 - atOnce) * everyMs);
}

test("connections, messages over each, and messages a second, for two workers together", async () => {
  const receiver = new Receiver();
  let goOn = () => {};
  const othersAreThere = new Promise<null>((resolve) => {
    goOn = () => resolve(null);
  });
  receiver.answer = () => othersAreThere;
  await world.peerAt("127.1.0.1", receiver.script);
  const other = await world.sinkAt("127.1.0.2");
  await startWorkers(2, {
    rules: [
      { match: { mx: ["a.test"] }, connections: 3, messages_per_connection: 5, messages_per_second: 20 },
    ],
  });
  const ids = await send(120, "a.test");
  const others = await send(200, "b.test");
  // while the limited one takes nothing
  await expect.poll(() => settledAll(others), POLL).toBe(true);
  const began = performance.now();
  goOn();
  await expect.poll(() => settledAll(ids), POLL).toBe(true);
  expect(receiver.takenAt).toHaveLength(120);
  expect(receiver.mostOpen).toBeLessThanOrEqual(3);
  expect(receiver.mostOfOne).toBeLessThanOrEqual(5);
  expectSpaced(receiver, { began, atOnce: 20, everyMs: 50 });
  expect(other.ledger.mails).toHaveLength(200);
  for (const id of ids.slice(0, 20)) expect((await read(id)).attempts).toBe(1);
}, 300_000);

test("mail beyond the rate waits for its turn, without an attempt, and says why and until when", async () => {
  const receiver = new Receiver();
  await world.peerAt("127.1.0.1", receiver.script);
  await startWorkers(1, { rules: [{ match: { domain: ["a.test"] }, messages_per_minute: 60 }] });
  const began = performance.now();
  const ids = await send(60, "a.test");
  await expect
    .poll(
      async () => (await Promise.all(ids.map(read))).filter(({ status }) => status === "deferred").length,
      POLL,
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
  await expect.poll(() => receiver.takenAt.length, POLL).toBeGreaterThan(25);
  expectSpaced(receiver, { began, atOnce: 1, everyMs: 1_000 });
  expect(others).toHaveLength(20);
}, 300_000);

test("a provider's receivers are counted together; the busy one leaves room to the others", async () => {
  world.name({
    "big1.test": { mx: [[10, "mx1.big.test"]] },
    "big2.test": { mx: [[10, "mx2.big.test"]] },
    "mx1.big.test": { addresses: ["127.1.0.5"] },
    "mx2.big.test": { addresses: ["127.1.0.6"] },
  });
  const receivers = [new Receiver(), new Receiver()] as const;
  await world.peerAt("127.1.0.5", receivers[0].script);
  await world.peerAt("127.1.0.6", receivers[1].script);
  let most = 0;
  for (const receiver of receivers)
    receiver.answer = () => {
      most = Math.max(most, receivers[0].open + receivers[1].open);
      return null;
    };
  await startWorkers(1, {
    providers: { big: { mx: ["big.test"] } },
    rules: [{ match: { provider: ["big"] }, connections: 1, messages_per_second: 30 }],
  });
  const first = await send(120, "big1.test");
  const second = await send(5, "big2.test");
  await expect.poll(() => settledAll(second), POLL).toBe(true);
  await expect.poll(() => settledAll(first), POLL).toBe(true);
  expect(most).toBe(1);
}, 300_000);

test("a rule requires TLS of a receiver, which gets nothing without it", async () => {
  world.name({ "tls.test": { addresses: ["127.1.0.7"] } });
  const receiver = new Receiver();
  await world.peerAt("127.1.0.7", receiver.script);
  await world.sinkAt("127.1.0.2");
  await startWorkers(1, { rules: [{ match: { domain: ["tls.test"] }, tls: "required" }] });
  const [id] = await send(1, "tls.test");
  const others = await send(1, "b.test");
  await expect.poll(() => settledAll(others), POLL).toBe(true);
  await expect.poll(async () => (await read(id as string)).status, POLL).toBe("deferred");
  expect((await read(id as string)).reason).toContain("does not offer STARTTLS");
  expect(receiver.takenAt).toEqual([]);
  // that is an operator's matter
  await expect.poll(() => workers[0]?.complaints.length, POLL).toBe(1);
  await workers.pop()?.stop();
}, 300_000);

test("a smarthost is one receiver, and `queue` shows what goes where", async () => {
  const file = join(folder, "smarthost.json");
  writeFileSync(file, JSON.stringify({ rules: [{ match: { mx: ["127.0.0.1"] }, messages_per_second: 10 }] }));
  workers.push(await startEngine(["deliver"], { ...stage, settings: { SHAPING_FILE: file } }));
  const began = Date.now();
  const ids = [...(await send(20, "c.test")), ...(await send(20, "d.test"))];
  await expect.poll(() => settledAll(ids), POLL).toBe(true);
  expect(Math.max(...stage.sink.ledger.mails.map(({ at }) => at)) - began).toBeGreaterThan(2_500);
  type View = { sending: { domain: string; in_flight: number; delivered_per_minute: number }[] };
  await expect
    .poll(async () => (await shell.json<View>("queue")).sending, POLL)
    .toEqual(
      expect.arrayContaining([
        expect.objectContaining({ domain: "c.test", in_flight: 0, delivered_per_minute: 20 }),
        expect.objectContaining({ domain: "d.test", in_flight: 0, delivered_per_minute: 20 }),
      ]),
    );
}, 300_000);
