import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { services } from "../rig/services.ts";
import { Client, mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

/** Of an api that soon gives up. Who learns a fate may not: the machine may stand still for a moment. */
const TIMEOUT_MS = 3_000;

let toPostgres: TcpProxy;
let databaseUrl: string;
let api: TestApi;
let direct: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  direct = await testApi();
});
beforeEach(async () => {
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  databaseUrl = `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`;
  api = await testApi({ databaseUrl });
  ws = await api.workspace("free");
  // the key is known and the counters are there: what follows meets Postgres in the commit alone
  await ws.client.get("/emails");
});
afterEach(async () => {
  await api.stop();
  await toPostgres.down();
});
afterAll(() => direct.stop());

/** A statement of its own, as the protocol carries it the first time on a connection. */
const says = (statement: string) => (request: Buffer) => request.includes(`\0${statement}\0`);
const writes = (request: Buffer) => request.includes("insert into email");

/** What one request writes, and where: in all of these places, or in none. */
async function places(): Promise<Record<string, number>> {
  const [row] = await direct.sql<Record<string, number>[]>`
    select (select count(*)::int from email where workspace_id = ${ws.id}) as emails,
           (select count(*)::int from body where workspace_id = ${ws.id}) as bodies,
           (select count(*)::int from bag where workspace_id = ${ws.id}) as bags,
           (select count(*)::int from due where workspace_id = ${ws.id}) as due,
           (select count(*)::int from attachment where workspace_id = ${ws.id}) as attachments,
           (select count(*)::int from claim where workspace_id = ${ws.id}) as claims,
           (select month_used from ledger where workspace_id = ${ws.id})::int as used`;
  return row as Record<string, number>;
}
const NOWHERE = { emails: 0, bodies: 0, bags: 0, due: 0, attachments: 0, claims: 0, used: 0 };
const EVERYWHERE = { emails: 2, bodies: 2, bags: 1, due: 1, attachments: 1, claims: 1, used: 2 };

async function written(): Promise<{ emails: number; used: number }> {
  const [row] = await direct.sql<{ emails: number; used: number }[]>`
    select (select count(*)::int from email where workspace_id = ${ws.id}) as emails,
           (select month_used from ledger where workspace_id = ${ws.id})::int as used`;
  return row as { emails: number; used: number };
}

const reserved = async () => Number(await direct.redis.hget(`{${ws.handle}}:use`, "month_used"));

const send = (client: Client, key?: string) =>
  client.post<{ id: string } & Refusal>(
    "/emails",
    mail(),
    key === undefined ? {} : { "idempotency-key": key },
  );

test("cut after the commit was sent and done: the caller hears 200, once written", async () => {
  const isCut = toPostgres.cutReply(says("commit"));
  const answer = await send(ws.client, "a");
  await isCut;
  expect(answer.status).toBe(200);
  expect(await written()).toEqual({ emails: 1, used: 1 });
  expect(await send(ws.client, "a")).toMatchObject({ status: 200, body: answer.body });
  expect(await written()).toEqual({ emails: 1, used: 1 });
});

test.each([
  "begin",
  "select from ledger",
  "insert into claim",
  "pg_current_xact_id",
  "insert into email",
  "insert into body",
  "insert into attachment",
  "insert into bag",
  "insert into due",
  "update ledger",
  "commit",
])("cut at `%s`: everything is written and answered 200, or nothing and 503", async (statement) => {
  const isMeant = statement.includes(" ")
    ? (request: Buffer) => request.includes(statement)
    : (request: Buffer) => says(statement)(request) || request.includes(`${statement}()`);
  const isCut = toPostgres.cutReply(isMeant);
  const attachments = [{ filename: "a.txt", content: Buffer.from(ws.id).toString("base64") }];
  const batch = [mail({ attachments }), mail({ scheduled_at: "in 1 hour" })];
  const { status } = await ws.client.post("/emails/batch", batch, { "idempotency-key": "once" });
  await isCut;
  expect([200, 503]).toContain(status);
  expect(await places()).toEqual(status === 200 ? EVERYWHERE : NOWHERE);
});

/** What Postgres says before it ends a connection, or all of them; the protocol allows an answer after it. */
function lastWords(severity: string, code: string): Buffer {
  const fields = Buffer.from(`SFATAL\0V${severity}\0C${code}\0Mthe end\0\0`);
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + fields.length);
  const ready = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);
  return Buffer.concat([Buffer.from("E"), length, fields, ready]);
}

test.each([
  ["FATAL", "XX000"],
  ["FATAL", "25P03"],
  ["PANIC", "53100"],
])("%s %s instead of the answer to a commit that was done: 200, once written", async (severity, code) => {
  const isReplaced = toPostgres.replaceReply(lastWords(severity, code), says("commit"));
  const answer = await send(ws.client, "f");
  await isReplaced;
  expect(answer.status).toBe(200);
  expect(await written()).toEqual({ emails: 1, used: 1 });
  expect(await send(ws.client, "f")).toMatchObject({ status: 200, body: answer.body });
});

test("cut before the writes arrived: rolled back, 503, refunded, and the key is free again", async () => {
  const isStalled = toPostgres.stallRequest(writes);
  const sending = send(ws.client, "b");
  await isStalled;
  expect(await reserved()).toBe(1);
  toPostgres.cut();
  toPostgres.flow();
  const answer = await sending;
  expect(answer.body).toMatchObject({ statusCode: 503, name: "service_unavailable" });
  expect(await written()).toEqual({ emails: 0, used: 0 });
  await expect.poll(reserved).toBe(0);
  expect((await send(ws.client, "b")).status).toBe(200);
  expect(await written()).toEqual({ emails: 1, used: 1 });
});

test("cut in the first words of the transaction: nothing was sent that could be written, 503", async () => {
  const isStalled = toPostgres.stallRequest(says("begin"));
  const sending = send(ws.client, "c");
  await isStalled;
  toPostgres.cut();
  toPostgres.flow();
  expect((await sending).status).toBe(503);
  expect(await written()).toEqual({ emails: 0, used: 0 });
  await expect.poll(reserved).toBe(0);
});

/** Gives up soon. */
async function hastyClient(): Promise<Client> {
  const hasty = await testApi({ databaseUrl, timeoutMs: TIMEOUT_MS });
  onTestFinished(() => hasty.stop());
  const client = new Client(hasty.url, ws.client.key);
  await client.get("/emails");
  return client;
}

test("committed and nobody left to ask: 500, and the same idempotency key tells what happened", async () => {
  const client = await hastyClient();
  const isCut = toPostgres.cutReply(says("commit"));
  const sending = send(client, "d");
  await isCut;
  await toPostgres.down();
  const answer = await sending;
  expect(answer.body).toMatchObject({
    statusCode: 500,
    name: "application_error",
    message: "Outcome unknown, retry with the same Idempotency-Key.",
  });
  expect(await written()).toEqual({ emails: 1, used: 1 });
  expect(await reserved(), "what may be written is not refunded").toBe(1);
  await toPostgres.up();
  await expect.poll(async () => (await send(client, "d")).status).toBe(200);
  expect(await written()).toEqual({ emails: 1, used: 1 });
});

test("without a key the caller reads that a retry may send it twice", async () => {
  const client = await hastyClient();
  const isCut = toPostgres.cutReply(says("commit"));
  const sending = send(client);
  await isCut;
  await toPostgres.down();
  expect((await sending).body).toMatchObject({
    statusCode: 500,
    name: "application_error",
    message:
      "Outcome unknown: it may have been accepted. Requests with an `Idempotency-Key` can be retried safely.",
  });
  await toPostgres.up();
  await expect.poll(written).toEqual({ emails: 1, used: 1 });
});

test("many in one commit share its fate", async () => {
  const isCut = toPostgres.cutReply(says("commit"));
  const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => send(ws.client, `e${n}`)));
  await isCut;
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await written()).toEqual({ emails: 30, used: 30 });
});
