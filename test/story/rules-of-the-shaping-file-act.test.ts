/**
 * Source addresses, automatic rules and the file itself, on an engine that delivers to receivers of the test.
 */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
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
type View = {
  holds: {
    destination: string;
    source: string;
    kind: string;
    factor: number;
    setBy: string;
    reason: string;
  }[];
};

let stage: Stage;
let world: World;
let folder: string;
let engine: Engine;
let worker: Engine;
let shell: CommandLine;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], stage);
  shell = commandLine(stage);
  folder = mkdtempSync(join(tmpdir(), "shaping-"));
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  world = await openWorld();
  world.name({ "a.test": { addresses: ["127.1.0.1"] }, "b.test": { addresses: ["127.1.0.2"] } });
});
afterEach(async () => {
  await worker.stop();
  await world.end();
  await engine.sql`delete from destination_hold`;
  await engine.sql`delete from shaping_file`;
});

const file = () => join(folder, "shaping.json");
/** Whole or not at all: a worker may look at any moment. */
function write(rules: ShapingRules | string): void {
  writeFileSync(`${file()}.new`, typeof rules === "string" ? rules : JSON.stringify(rules));
  renameSync(`${file()}.new`, file());
}

async function startWorker(rules: ShapingRules | string): Promise<void> {
  write(rules);
  const settings = { ...world.settings, SHAPING_FILE: file() };
  worker = await startEngine(["deliver"], { ...stage, smtpUrl: "", settings });
}

async function receiverAt(address: string): Promise<Receiver> {
  const receiver = new Receiver();
  await world.peerAt(address, receiver.script);
  return receiver;
}

const send = async (to: string, by = ws): Promise<string> =>
  (await by.client.post<{ id: string }>("/emails", mail({ to }))).body.id;
const read = async (id: string, by = ws) => (await by.client.get<Read>(`/emails/${id}`)).body;
const becomes = (id: string, expected: object, by = ws) =>
  expect.poll(() => read(id, by), { timeout: 40_000 }).toMatchObject(expected);
const holds = async () => (await shell.json<View>("queue")).holds;

test("mail leaves from the addresses of its workspace's pool, in turn", async () => {
  const receiver = await receiverAt("127.1.0.1");
  const other = await engine.workspace();
  await startWorker({
    sources: { a: { address: "127.0.0.11" }, b: { address: "127.0.0.12" }, c: { address: "127.0.0.13" } },
    pools: { default: ["a", "b"], own: ["c"] },
    use: [{ workspace: other.id, pool: "own" }],
    rules: [],
  });
  await becomes(await send("one@a.test", other), { status: "delivered" }, other);
  expect(receiver.from).toEqual(["127.0.0.13"]);
  for (let n = 0; n < 4; n++) await becomes(await send(`${n}@a.test`), { status: "delivered" });
  expect(receiver.from.slice(1).sort()).toEqual(["127.0.0.11", "127.0.0.11", "127.0.0.12", "127.0.0.12"]);
  expect(worker.complaints).toEqual([]);
});

test("a new address sends what its warm-up allows; the rest leaves from the others, or waits", async () => {
  const receiver = await receiverAt("127.1.0.1");
  const today = new Date().toISOString().slice(0, 10);
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
  const rules: ShapingRules = {
    sources: {
      fresh: { address: "127.0.0.11", since: today },
      later: { address: "127.0.0.12", since: tomorrow },
    },
    warm_up: { slow: [1, 1, 1] },
    rules: [{ match: {}, warm_up: "slow" }],
  };
  await startWorker(rules);
  await becomes(await send("one@a.test"), { status: "delivered" });
  const second = await send("two@a.test");
  await becomes(second, { status: "deferred", attempts: 0 });
  expect((await read(second)).reason).toContain("the warm-up of the source address");
  expect(receiver.from).toEqual(["127.0.0.11"]);
  write({ ...rules, sources: { ...rules.sources, old: { address: "127.0.0.13" } } });
  await expect
    .poll(
      async () => {
        await becomes(await send("three@a.test"), {
          status: expect.stringMatching(/^(delivered|deferred)$/),
        });
        return receiver.from.at(-1);
      },
      { timeout: 40_000 },
    )
    .toBe("127.0.0.13");
});

test("a reply suspends its domain for a while, and nothing else", async () => {
  const [receiver, other] = [await receiverAt("127.1.0.1"), await receiverAt("127.1.0.2")];
  receiver.answer = () => "421 4.7.0 [TSS04] too many complaints";
  await startWorker({
    rules: [{ match: {}, on_reply: [{ code: [421], words: ["[tss04]"], do: { suspend_minutes: 30 } }] }],
  });
  await becomes(await send("one@a.test"), { status: "deferred", attempts: 1 });
  const held = await send("two@a.test");
  await becomes(held, { status: "deferred", attempts: 0 });
  const { reason, next_attempt_at } = await read(held);
  expect(reason).toMatch(
    /^Mail to a\.test is suspended until .* UTC: 421 4\.7\.0 \[TSS04\] too many complaints\.$/,
  );
  expect(Date.parse(next_attempt_at as string)).toBeGreaterThan(Date.now() + 25 * 60_000);
  await becomes(await send("one@b.test"), { status: "delivered" });
  expect(other.takenAt).toHaveLength(1);
  expect(await holds()).toMatchObject([
    { destination: "a.test", source: "", kind: "suspended", setBy: "rule" },
  ]);
  receiver.answer = () => null;
  await shell.json("queue", "resume", "a.test");
  await becomes(held, { status: "delivered" });
});

test("a reply makes mail leave from another source address", async () => {
  const receiver = await receiverAt("127.1.0.1");
  receiver.answer = ({ from }) => (from === "127.0.0.11" ? "451 4.7.1 your address is on a list" : null);
  await startWorker({
    sources: { a: { address: "127.0.0.11" }, b: { address: "127.0.0.12" } },
    rules: [{ match: {}, on_reply: [{ words: ["is on a list"], do: { rotate_minutes: 30 } }] }],
  });
  await expect
    .poll(
      async () => {
        const id = await send("one@a.test");
        await becomes(id, { status: expect.stringMatching(/^(delivered|deferred)$/) });
        return holds();
      },
      { timeout: 40_000 },
    )
    .toMatchObject([{ destination: "a.test", source: "a", kind: "suspended" }]);
  for (let n = 0; n < 4; n++) await becomes(await send(`${n}@a.test`), { status: "delivered", attempts: 1 });
  expect(new Set(receiver.from)).toEqual(new Set(["127.0.0.12"]));
});

test("a reply slows its domain down, which gets connections of its own", async () => {
  const receiver = await receiverAt("127.1.0.1");
  world.name({
    "same.test": { mx: [[10, "mx.test"]] },
    "twin.test": { mx: [[10, "mx.test"]] },
    "mx.test": { addresses: ["127.1.0.1"] },
  });
  receiver.answer = (_, message) =>
    message.includes("twin.test") ? "451 4.7.28 unusual rate of mail" : null;
  await startWorker({
    rules: [
      {
        match: {},
        messages_per_minute: 600,
        on_reply: [{ enhanced: ["4.7.28"], do: { slow_down: { factor: 0.01, minutes: 30 } } }],
      },
    ],
  });
  await becomes(await send("one@twin.test"), { status: "deferred", attempts: 1 });
  expect(await holds()).toMatchObject([{ destination: "twin.test", kind: "slowed", factor: 0.01 }]);
  receiver.answer = () => null;
  const ids = await Promise.all(Array.from({ length: 5 }, (_, n) => send(`${n}@twin.test`)));
  await expect
    .poll(
      async () =>
        (await Promise.all(ids.map((id) => read(id)))).filter(({ status }) => status === "deferred").length,
      {
        timeout: 40_000,
      },
    )
    .toBeGreaterThanOrEqual(2);
  for (let n = 0; n < 5; n++) await becomes(await send(`${n}@same.test`), { status: "delivered" });
});

test("a changed file takes effect; a bad one is complained about, and the last good one stays, also after a restart", async () => {
  await receiverAt("127.1.0.1");
  const limiting = (most: number): ShapingRules => ({
    rules: [{ match: { domain: ["a.test"] }, messages_per_hour: most }],
  });
  await startWorker({ rules: [] });
  await becomes(await send("one@a.test"), { status: "delivered" });
  write(limiting(1));
  const isLimited = async () => {
    const id = await send("two@a.test");
    await becomes(id, { status: expect.stringMatching(/^(delivered|deferred)$/) });
    return (await read(id)).reason?.includes("1 message an hour") ?? false;
  };
  await expect.poll(isLimited, { timeout: 40_000 }).toBe(true);
  expect(worker.complaints).toEqual([]);
  write('{"rules": [{"match": {}, "conections": 5}]}');
  await expect.poll(() => worker.complaints.length, { timeout: 10_000 }).toBe(1);
  expect(worker.complaints[0]?.err?.message).toBe(
    `SHAPING_FILE ${file()}: The shaping file has no field \`rules.0.conections\`. The rules before it stay in force. ` +
      "Correct the file; it is read again as soon as it changes.",
  );
  expect(await isLimited()).toBe(true);
  await worker.stop();
  await startWorker("{ not JSON");
  await expect.poll(() => worker.complaints.length, { timeout: 10_000 }).toBe(1);
  expect(worker.complaints[0]?.err?.message).toMatch(
    /It is not JSON: .* The rules that were read on .* stay in force\./,
  );
  expect(await isLimited()).toBe(true);
  await becomes(await send("one@b.test"), { status: "deferred" });
  expect((await shell.postrider("doctor")).out).toContain("shaping file");
});

test("without any good file mail is delivered all the same", async () => {
  await receiverAt("127.1.0.1");
  await startWorker("[]");
  expect(worker.complaints[0]?.err?.message).toContain("No limits are in force.");
  await becomes(await send("one@a.test"), { status: "delivered" });
});
