/**
 * Sends of many megabytes: attachments, and batches of long bodies. The loop is asked for the work it did in
 * one turn; neighbours commit beside them, not behind them.
 */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Statement, type Tx } from "../../src/record/db/connect.ts";
import { GroupCommit } from "../../src/record/db/groupcommit.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { insisted, sendsBeside } from "../rig/neighbour.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { freshWorkspace, mail, type TestWorkspace } from "../rig/workspace.ts";

const MB = 1024 * 1024;
const WORKED_MS_MAX = 50;
const RSS_MB_MAX = 1024;
const TIMEOUT_MS = 10_000;

/** Others look through every table of the shared one. */
let database: OwnDatabase;
let engine: Engine;
let api: EngineProcess;
let url: string;
let neighbour: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  engine = await startEngine([], { databaseUrl: database.url });
  api = await startProcess(["api"], { databaseUrl: database.url, watchesLoop: true });
  url = `http://127.0.0.1:${api.port}`;
  neighbour = await freshWorkspace(engine.keyring, url);
  for (let n = 0; n < 20; n++) await neighbour.client.post("/emails", mail());
});
afterAll(async () => {
  await api?.stop();
  await engine?.stop();
  await database.drop();
});

const attached = (content: Buffer) =>
  mail({ attachments: [{ filename: "a.bin", content: content.toString("base64") }] });
const longBatch = (emails: number, chars: number) =>
  Array.from({ length: emails }, (_, n) => mail({ html: `${n} ${"a".repeat(chars)}` }));

/**
 * The server library reads a request for as long as it finds its buffer full, and then the next one, in one
 * turn.
 */
async function holdsUpNobody(requests: number, attack: () => Promise<unknown>): Promise<void> {
  const workMsMax = requests * WORKED_MS_MAX;
  const sendBeside = () => sendsBeside(neighbour, requests, attack());
  expect(await workedBy(api, sendBeside, workMsMax)).toBeLessThan(workMsMax);
  expect((await api.loop()).rssMbMax).toBeLessThan(RSS_MB_MAX);
}

test("one send of 38 MB", async () => {
  const hostile = await freshWorkspace(engine.keyring, url);
  const body = JSON.stringify(attached(randomBytes(28 * MB)));
  await holdsUpNobody(1, async () => expect((await insisted(hostile, "/emails", body)).status).toBe(200));
});

test("eight sends of 38 MB at once", async () => {
  const hostile = await freshWorkspace(engine.keyring, url);
  const bodies = Array.from({ length: 8 }, () => JSON.stringify(attached(randomBytes(28 * MB))));
  const statuses: number[] = [];
  await holdsUpNobody(bodies.length, () =>
    Promise.all(
      bodies.map(async (body) => statuses.push((await hostile.client.post("/emails", body)).status)),
    ),
  );
  expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect((await insisted(hostile, "/emails", String(bodies[0]))).status).toBe(200);
});

test("batches of long bodies", async () => {
  const hostile = await freshWorkspace(engine.keyring, url);
  const bodies = Array.from({ length: 4 }, () => JSON.stringify(longBatch(20, 1_500_000)));
  const statuses: number[] = [];
  await holdsUpNobody(bodies.length, () =>
    Promise.all(
      bodies.map(async (body) => statuses.push((await hostile.client.post("/emails/batch", body)).status)),
    ),
  );
  expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect((await insisted(hostile, "/emails/batch", String(bodies[0]))).status).toBe(200);
});

test("an attachment of megabytes is kept as it was, once", async () => {
  const ws = await freshWorkspace(engine.keyring, url);
  const content = randomBytes(5 * MB + 3);
  for (let n = 0; n < 2; n++) expect((await ws.client.post("/emails", attached(content))).status).toBe(200);
  const kept = await engine.sql<{ content: Buffer }[]>`
    select string_agg(content, '' order by hash) as content from attachment where workspace_id = ${ws.id}`;
  expect(kept.map((one) => one.content.equals(content))).toEqual([true]);
});

test("a large batch is written whole, once under its idempotency key, or not at all", async () => {
  const ws = await freshWorkspace(engine.keyring, url, "pro", { emails_per_day: 30 });
  const bodies = async () => {
    const [row] = await engine.sql<{ bodies: number; chars: number }[]>`
      select count(*)::int as bodies, coalesce(sum(length(html)), 0)::int as chars
      from body where workspace_id = ${ws.id}`;
    return row;
  };
  const batch = longBatch(20, 200_000);
  const chars = batch.reduce((sum, { html }) => sum + String(html).length, 0);
  for (let n = 0; n < 2; n++) {
    const { status } = await ws.client.post("/emails/batch", batch, { "idempotency-key": "large" });
    expect(status).toBe(200);
    expect(await bodies()).toEqual({ bodies: 20, chars });
  }
  expect((await ws.client.post("/emails/batch", batch)).status).toBe(429);
  expect(await bodies()).toEqual({ bodies: 20, chars });
});

test("no more is written ahead than the disk has taken", async () => {
  const afterEach: Statement[] = [];
  const writePiece = (tx: Tx): Statement[] => {
    const left = tx`
      select (pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn())::int as bytes`;
    afterEach.push(left);
    return [tx`select pg_logical_emit_message(false, 'test', repeat('a', ${4 * MB}))`, left];
  };
  const transaction = {
    ahead: (tx: Tx) => [writePiece(tx), writePiece(tx), writePiece(tx)].flat(),
    read: async () => {},
    write: () => [],
    verdictOf: () => "written",
    committed() {},
  };
  const commit = new GroupCommit<number, string>(
    { what: "test", open: () => transaction, rowsOf: () => 1, bytesOf: (bytes) => bytes },
    { connect: () => connectRecord(database.url, "commits", TIMEOUT_MS), timeoutMs: TIMEOUT_MS },
  );
  expect(await commit.submit(12 * MB)).toBe("written");
  await commit.close();
  const left = await Promise.all(afterEach);
  // others write meanwhile, but not each time
  expect(Math.min(...left.map(([row]) => row?.bytes))).toBeLessThan(MB / 10);
});

test("one that is refused by the record alone leaves no bodies behind", async () => {
  const ws = await freshWorkspace(engine.keyring, url, "pro", { emails_per_day: 30 });
  const answers = await Promise.all(
    [1, 2, 3].map(() => ws.client.post("/emails/batch", longBatch(20, 200_000))),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 429, 429]);
  const [row] = await engine.sql`select count(*)::int as bodies from body where workspace_id = ${ws.id}`;
  expect(row?.bodies).toBe(20);
});
