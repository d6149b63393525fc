import { afterAll, beforeAll, expect, test } from "vitest";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";
import { mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

const CALLERS = 64;
const TIMEOUT_MS = 1_000;

let redis: OwnRedis;
let toRedis: TcpProxy;
let toPostgres: TcpProxy;
let api: TestApi;
beforeAll(async () => {
  redis = await ownRedis();
  toRedis = await openProxy({ port: redis.port });
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  api = await testApi({
    redisUrl: `redis://127.0.0.1:${toRedis.port}`,
    databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
    timeoutMs: TIMEOUT_MS,
  });
});
afterAll(async () => {
  await api.stop();
  await Promise.all([toRedis.down(), toPostgres.down(), redis.stop()]);
});

async function timed<T>(work: Promise<T>): Promise<{ answer: T; ms: number }> {
  const began = performance.now();
  const answer = await work;
  return { answer, ms: performance.now() - began };
}

test("a Redis that says nothing is 503 in time, and all is well when it speaks again", async () => {
  const ws = await api.workspace();
  expect((await ws.client.post("/emails", mail())).status).toBe(200);
  toRedis.stall();
  const { answer, ms } = await timed(ws.client.post<Refusal>("/emails", mail()));
  expect(answer.body).toEqual({
    statusCode: 503,
    name: "service_unavailable",
    message: "Redis does not answer. Try again in 1 second.",
  });
  expect(ms).toBeLessThan(TIMEOUT_MS + 1_000);
  toRedis.flow();
  await expect
    .poll(async () => (await ws.client.post("/emails", mail())).status, { timeout: 10_000 })
    .toBe(200);
});

test("the reply of reserve is lost again and again, and the quota stays exact", async () => {
  const ws = await api.workspace("free");
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
  const [ledger] = await api.sql`select day_used from ledger where workspace_id = ${ws.id}`;
  expect(ledger?.day_used).toBe(100);
}, 60_000);

test("a Postgres that says nothing of a template is 503 in time", async () => {
  const ws = await api.workspace();
  const template = { id: "a", variables: {} };
  await ws.client.call("PUT", "/templates/a", { html: "x" });
  toPostgres.stall();
  const { answer, ms } = await timed(ws.client.post<Refusal>("/emails", mail({ html: undefined, template })));
  toPostgres.flow();
  expect(answer.body).toEqual({
    statusCode: 503,
    name: "service_unavailable",
    message: "Postgres does not answer. Try again in 1 second.",
  });
  expect(ms).toBeLessThan(TIMEOUT_MS + 1_000);
  await expect
    .poll(async () => (await ws.client.post("/emails", mail({ html: undefined, template }))).status, {
      timeout: 10_000,
    })
    .toBe(200);
});

test("a Postgres that stalls in the commit is never a hang: what was answered is what is written", async () => {
  const ws = await api.workspace("free");
  expect((await ws.client.post("/emails", mail())).status).toBe(200);
  toPostgres.stall();
  const sending = Promise.all(
    Array.from({ length: CALLERS }, () => timed(ws.client.post<Refusal>("/emails", mail()))),
  );
  await new Promise((resolve) => setImmediate(resolve));
  const stalled = await sending;
  toPostgres.flow();
  for (const { answer, ms } of stalled) {
    expect([200, 500, 503]).toContain(answer.status);
    expect(ms).toBeLessThan(6 * TIMEOUT_MS);
  }
  await expect.poll(async () => (await ws.client.get("/emails")).status, { timeout: 10_000 }).toBe(200);
  const accepted = 1 + stalled.filter(({ answer }) => answer.status === 200).length;
  const unknown = stalled.filter(({ answer }) => answer.status === 500).length;
  const [emails] = await api.sql`select count(*)::int from email where workspace_id = ${ws.id}`;
  const [ledger] = await api.sql`select day_used from ledger where workspace_id = ${ws.id}`;
  expect(ledger?.day_used).toBe(emails?.count);
  expect(emails?.count).toBeGreaterThanOrEqual(accepted);
  expect(emails?.count).toBeLessThanOrEqual(accepted + unknown);
}, 60_000);
