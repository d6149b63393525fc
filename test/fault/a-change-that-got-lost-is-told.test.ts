/**
 * A change of one e-mail is one transaction. When Postgres is lost meanwhile the caller hears the truth: 503
 * when nothing was done, "outcome unknown" when it may have been.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { services } from "../rig/services.ts";
import { Client, mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

/** Of an api that soon gives up. Where a store answers none may, though the machine stands still. */
const TIMEOUT_MS = 1_000;

let toPostgres: TcpProxy;
let databaseUrl: string;
let api: TestApi;
let ws: TestWorkspace;
let id: string;
beforeEach(async () => {
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  databaseUrl = `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`;
  api = await testApi({ databaseUrl });
  ws = await api.workspace();
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ scheduled_at: "in 1 hour" }));
  id = body.id;
});
afterEach(async () => {
  await api.stop();
  await toPostgres.down();
});

const cancel = (client = ws.client) => client.post<Refusal>(`/emails/${id}/cancel`);
const commits = (request: Buffer) => request.includes("commit");

test("the answer to its commit is lost: the outcome is unknown, and it was done", async () => {
  // on a new connection `commit` is said in full
  toPostgres.cut();
  await expect.poll(async () => (await ws.client.get(`/emails/${id}`)).status).toBe(200);
  const isCut = toPostgres.cutReply(commits);
  const { status, body } = await cancel();
  await isCut;
  expect(status).toBe(500);
  expect(body).toMatchObject({ name: "application_error", message: "Outcome unknown, try again." });
  await expect
    .poll(async () => (await ws.client.get<{ status: string }>(`/emails/${id}`)).body.status)
    .toBe("canceled");
});

test("the connection is cut before the commit: 503, and nothing was done", async () => {
  const isCut = toPostgres.cutReply((request) => request.includes("for update"));
  const { status, body } = await cancel();
  await isCut;
  expect(status).toBe(503);
  expect(body.name).toBe("service_unavailable");
  await expect.poll(async () => (await cancel()).status).toBe(200);
});

test("Postgres refuses connections: 503 for changes and for reads", async () => {
  await toPostgres.down();
  expect((await cancel()).status).toBe(503);
  expect((await ws.client.get(`/emails/${id}`)).status).toBe(503);
});

test("Postgres is silent: a read is 503, a change is unknown", async () => {
  const hasty = await testApi({ databaseUrl, timeoutMs: TIMEOUT_MS });
  try {
    const client = new Client(hasty.url, ws.client.key);
    await expect.poll(async () => (await client.get("/emails")).status).toBe(200);
    toPostgres.stall();
    expect((await client.get(`/emails/${id}`)).status).toBe(503);
    expect((await cancel(client)).status).toBe(500);
    toPostgres.flow();
  } finally {
    await hasty.stop();
  }
});
