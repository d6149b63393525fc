// @module-tag one-redis: puts a proxy in front of its Redis
import { afterAll, beforeAll, expect, test } from "vitest";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";
import { Client, mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const CALLERS = 64;
const TIMEOUT_MS = 1_000;
/** The machine may stand still for some seconds. Without a timeout nobody would be answered at all. */
const BUSY_MS_MAX = 5_000;

let redis: OwnRedis;
let toRedis: TcpProxy;
let toPostgres: TcpProxy;
/** Gives up soon. */
let api: TestApi;
/** Gives up when a store is away, and not when it takes a moment. */
let patient: TestApi;
beforeAll(async () => {
  redis = await ownRedis();
  toRedis = await openProxy({ port: redis.port });
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  const stores = {
    redisUrl: `redis://127.0.0.1:${toRedis.port}`,
    databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
  };
  api = await testApi({ ...stores, timeoutMs: TIMEOUT_MS });
  patient = await testApi(stores);
});
afterAll(async () => {
  await Promise.all([api.stop(), patient.stop()]);
  await Promise.all([toRedis.down(), toPostgres.down(), redis.stop()]);
});

const hasty = ({ client }: TestWorkspace) => new Client(api.url, client.key);

/** Its connections are there, and another workspace has sent over them. */
async function warmedUp(): Promise<void> {
  const other = await patient.workspace();
  await expect.poll(async () => (await hasty(other).post("/emails", mail())).status).toBe(200);
}

async function timed<T>(work: Promise<T>): Promise<{ answer: T; ms: number }> {
  const began = performance.now();
  const answer = await work;
  return { answer, ms: performance.now() - began };
}

test("a Redis that says nothing is 503 in time, and all is well when it speaks again", async () => {
  const client = hasty(await patient.workspace());
  await expect.poll(async () => (await client.post("/emails", mail())).status).toBe(200);
  toRedis.stall();
  const { answer, ms } = await timed(client.post<Refusal>("/emails", mail()));
  expect(answer.body).toEqual({
    statusCode: 503,
    name: "service_unavailable",
    message: "Redis does not answer. Try again in 1 second.",
  });
  expect(ms).toBeLessThan(TIMEOUT_MS + BUSY_MS_MAX);
  toRedis.flow();
  await expect.poll(async () => (await client.post("/emails", mail())).status).toBe(200);
});

test("the reply of reserve is lost again and again, and the quota stays exact", async () => {
  const ws = await patient.workspace("free");
  await ws.client.get("/emails");
  let [accepted, unknown, answers] = [0, 0, 0];
  const caller = async (): Promise<void> => {
    for (;;) {
      const { status, body } = await ws.client.post<Refusal>("/emails", mail());
      answers++;
      if (status === 200) accepted++;
      // of a commit that took longer than it may
      if (status === 500 && body.message.startsWith("Outcome unknown")) unknown++;
      if (status === 429) return;
      if (answers < 200 && answers % 25 === 0) toRedis.cut();
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  expect(accepted).toBeLessThanOrEqual(100);
  expect(accepted + unknown).toBeGreaterThanOrEqual(100);
  const [ledger] = await patient.sql`select day_used from ledger where workspace_id = ${ws.id}`;
  expect(ledger?.day_used).toBe(100);
});

test("a Postgres that says nothing of a template is 503 in time", async () => {
  const ws = await patient.workspace();
  const template = { id: "a", variables: {} };
  await ws.client.call("PUT", "/templates/a", { html: "x" });
  await warmedUp();
  const send = () => hasty(ws).post<Refusal>("/emails", mail({ html: undefined, template }));
  toPostgres.stall();
  const { answer, ms } = await timed(send());
  toPostgres.flow();
  expect(answer.body).toEqual({
    statusCode: 503,
    name: "service_unavailable",
    message: "Postgres does not answer. Try again in 1 second.",
  });
  expect(ms).toBeLessThan(TIMEOUT_MS + BUSY_MS_MAX);
  await expect.poll(async () => (await send()).status).toBe(200);
});

test("a Postgres that stalls in the commit is never a hang: what was answered is what is written", async () => {
  const ws = await patient.workspace("free");
  expect((await ws.client.post("/emails", mail())).status).toBe(200);
  await warmedUp();
  toPostgres.stall();
  const sending = Promise.all(
    Array.from({ length: CALLERS }, () => timed(hasty(ws).post<Refusal>("/emails", mail()))),
  );
  await new Promise((resolve) => setImmediate(resolve));
  const stalled = await sending;
  toPostgres.flow();
  for (const { answer, ms } of stalled) {
    expect([200, 500, 503]).toContain(answer.status);
    expect(ms).toBeLessThan(6 * TIMEOUT_MS + BUSY_MS_MAX);
  }
  await expect.poll(async () => (await hasty(ws).get("/emails")).status).toBe(200);
  const accepted = 1 + stalled.filter(({ answer }) => answer.status === 200).length;
  const unknown = stalled.filter(({ answer }) => answer.status === 500).length;
  const [written] = await patient.sql`
    select (select count(*)::int from email where workspace_id = ${ws.id}) as emails,
           (select day_used from ledger where workspace_id = ${ws.id}) as used`;
  expect(written?.used).toBe(written?.emails);
  expect(written?.emails).toBeGreaterThanOrEqual(accepted);
  expect(written?.emails).toBeLessThanOrEqual(accepted + unknown);
});
