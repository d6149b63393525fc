/**
 * Mail that is dear to compose, as large as it may be and many at once, through a real worker: its event loop
 * is asked for the work it did in one turn, since this machine may stand still for others.
 */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import type { Mail } from "../rig/ledger.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const MB = 1024 * 1024;
const WORKED_MS_MAX = 50;
/** Some hundred MB pass through processes that others keep waiting. */
const TEST_MS_MAX = 400_000;

let database: OwnDatabase;
let redis: OwnRedis;
let engine: Engine;
let worker: EngineProcess;
let sink: Sink;
let ws: TestWorkspace;
beforeAll(async () => {
  [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
  const stores = { databaseUrl: database.url, redisUrl: redis.url, smtpUrl: sink.url };
  engine = await startEngine(["api", "keeper"], stores);
  worker = await startProcess(["deliver"], { ...stores, watchesLoop: true });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  await brought([mail()]);
});
afterAll(async () => {
  await worker?.stop();
  await engine?.stop();
  await Promise.all([sink?.close(), redis?.stop(), database?.drop()]);
});

async function sent(one: object): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", one);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

async function sentAsBatch(mails: readonly object[]): Promise<string[]> {
  const { status, body } = await ws.client.post<{ data: { id: string }[] }>("/emails/batch", mails);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data.map(({ id }) => id);
}

/** Sends them at once and waits until the receiver has all of them. */
async function brought(mails: readonly object[], asBatch = false): Promise<void> {
  const ids = asBatch ? await sentAsBatch(mails) : await Promise.all(mails.map(sent));
  const isOne = ({ messageId }: Mail) => ids.some((id) => messageId.startsWith(id));
  await sink.ledger.received(ids.length, isOne, TEST_MS_MAX);
}

function longestTurn(mails: readonly object[], asBatch = false): Promise<number> {
  return workedBy(worker, () => brought(mails, asBatch), WORKED_MS_MAX);
}

test(
  "an attachment of 28 MB",
  async () => {
    const content = randomBytes(28 * MB).toString("base64");
    const large = mail({ attachments: [{ filename: "a.bin", content }] });
    expect(await longestTurn([large])).toBeLessThan(WORKED_MS_MAX);
  },
  TEST_MS_MAX,
);

test(
  "many long texts at once",
  async () => {
    const pieces = [
      "&#1",
      "<a href=x>",
      "<td>",
      "<a a/a/a/a>",
      "<div style=display:none><b>",
      "x<hr>",
      "\u200b",
      "<b>",
    ];
    const mails = pieces.map((piece) =>
      mail({ html: piece.repeat(Math.floor((1.9 * MB) / Buffer.byteLength(piece))) }),
    );
    expect(await longestTurn(mails)).toBeLessThan(WORKED_MS_MAX);
  },
  TEST_MS_MAX,
);

const people = Array.from({ length: 50 }, (_, n) => `é${"x".repeat(250)} <a${n}@${"ü".repeat(20)}.example>`);
const headers = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`X-${n}`, "üa".repeat(170)]));
test.each([
  ["recipients with long names", { to: people }],
  ["long headers", { headers }],
])(
  "a batch of e-mails with %s",
  async (_, more) => {
    const batch = Array.from({ length: 100 }, () => mail(more));
    expect(await longestTurn(batch, true)).toBeLessThan(WORKED_MS_MAX);
  },
  TEST_MS_MAX,
);
