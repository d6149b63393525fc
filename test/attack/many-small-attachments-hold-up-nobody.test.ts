/**
 * An e-mail may have thousands of small attachments, each with a long name. They are kept, listed, read and
 * composed a few at a time.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { sendsBeside } from "../rig/neighbour.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { freshWorkspace, mail, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
/** The least of a few: the first ones also compile. */
const RUNS = 10;
/** As many as the values of one e-mail allow, and of one request. */
const ATTACHMENTS = 3_300;
const MAILS = 20;

let database: OwnDatabase;
let redis: OwnRedis;
let engine: Engine;
let api: EngineProcess;
let worker: EngineProcess;
let sink: Sink;
let ws: TestWorkspace;
let neighbour: TestWorkspace;
beforeAll(async () => {
  [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
  const stores = { databaseUrl: database.url, redisUrl: redis.url, smtpUrl: sink.url };
  engine = await startEngine(["keeper"], stores);
  api = await startProcess(["api"], { ...stores, watchesLoop: true });
  worker = await startProcess(["deliver"], { ...stores, watchesLoop: true });
  const url = `http://127.0.0.1:${api.port}`;
  ws = await freshWorkspace(engine.keyring, url);
  neighbour = await freshWorkspace(engine.keyring, url);
});
afterAll(async () => {
  await worker?.stop();
  await api?.stop();
  await engine?.stop();
  await Promise.all([sink?.close(), redis?.stop(), database?.drop()]);
});

let contents = 0;
/** Each has contents of its own. */
function many(filename: string, more: object = {}) {
  const attachments = Array.from({ length: ATTACHMENTS }, () => ({
    filename,
    content: Buffer.from(String(contents++)).toString("base64"),
  }));
  return mail({ attachments, ...more });
}

test("one e-mail, sent, delivered and read", async () => {
  const worked = { sending: Infinity, delivering: Infinity, reading: Infinity };
  const isEnough = () => Math.max(...Object.values(worked)) <= WORKED_MS_MAX;
  for (let n = 0; n < RUNS && !isEnough(); n++) {
    const one = JSON.stringify(many("é".repeat(255)));
    await Promise.all([api.loop(), worker.loop()]);
    const { status, body } = await ws.client.post<{ id: string }>("/emails", one);
    expect(status, JSON.stringify(body)).toBe(200);
    worked.sending = Math.min(worked.sending, (await api.loop()).workedMsMax);
    await sink.ledger.received(1, ({ messageId }) => messageId.startsWith(body.id));
    worked.delivering = Math.min(worked.delivering, (await worker.loop()).workedMsMax);
    expect((await ws.client.get(`/emails/${body.id}`)).status).toBe(200);
    expect((await ws.client.get(`/emails/${body.id}/attachments?limit=100`)).status).toBe(200);
    worked.reading = Math.min(worked.reading, (await api.loop()).workedMsMax);
  }
  expect(worked.sending).toBeLessThan(WORKED_MS_MAX);
  expect(worked.delivering).toBeLessThan(WORKED_MS_MAX);
  expect(worked.reading).toBeLessThan(WORKED_MS_MAX);
});

test("a batch of them is accepted, and a neighbour sends meanwhile", async () => {
  const send = async () => {
    const batch = JSON.stringify(
      Array.from({ length: MAILS }, () => many("a", { scheduled_at: "in 1 day" })),
    );
    const attack = ws.client.post("/emails/batch", batch);
    await sendsBeside(neighbour, 1, attack);
    const { status, body } = await attack;
    expect(status, JSON.stringify(body)).toBe(200);
  };
  expect(await workedBy(api, send, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
