/**
 * One fleet serves several databases: the same address takes the requests of workspaces in either, their mail
 * is delivered, links and reports find them, and neither knows of the other. A cell that is away is missed by
 * its own workspaces alone.
 */
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openCells, type TwoCells } from "../rig/cells.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { arf, dsn, handIn } from "../rig/reports.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { idIn } from "../rig/submitting.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

let cells: TwoCells;
let sink: Sink;
let engine: Engine;
let here: TestWorkspace;
let there: TestWorkspace;
beforeAll(async () => {
  [cells, sink] = await Promise.all([openCells(), openSink({ keepRaw: true })]);
  const { databaseUrl, redisUrl } = cells.home;
  engine = await startEngine(["api", "deliver", "keeper", "automate", "inbound", "submission", "webhooks"], {
    ...{ databaseUrl, redisUrl },
    smtpUrl: sink.url,
    settings: {
      CELLS_FILE: cells.file,
      BOUNCE_DOMAIN: "bounces.example.net",
      FEEDBACK_ADDRESSES: "fbl@example.net",
      INBOUND_PORT: "0",
      SUBMISSION_PORT: "0",
      SUBMISSION_TLS_PORT: "0",
    },
  });
  here = await cells.home.workspace(engine.url);
  there = await cells.other.workspace(engine.url);
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([sink.close(), cells.close()]);
});

const POLL = { timeout: 20_000, interval: 50 };

async function sent(by: TestWorkspace, more: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await by.client.post<{ id: string }>("/emails", mail(more));
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

async function delivered(by: TestWorkspace, id: string): Promise<void> {
  const status = async () => (await by.client.get<{ status: string }>(`/emails/${id}`)).body.status;
  await expect.poll(status, POLL).toBe("delivered");
  expect(sink.ledger.mails.filter(({ messageId }) => messageId.startsWith(id))).toHaveLength(1);
}

test("each workspace sends, and its mail is in its own database", async () => {
  for (const [workspace, cell] of [
    [here, cells.home],
    [there, cells.other],
  ] as const) {
    const id = await sent(workspace);
    await delivered(workspace, id);
    const rows = await cell.sql`select from email where workspace_id = ${workspace.id} and id = ${id}`;
    expect(rows).toHaveLength(1);
  }
  expect(await cells.home.sql`select from email where workspace_id = ${there.id}`).toHaveLength(0);
});

test("neither sees what the other has", async () => {
  const id = await sent(there);
  expect((await here.client.get(`/emails/${id}`)).status).toBe(404);
  await delivered(there, id);
});

test("a quota is counted where the workspace is", async () => {
  const workspace = await cells.other.workspace(engine.url, "pro", { emails_per_month: 2 });
  await sent(workspace);
  await sent(workspace);
  const third = await workspace.client.post<{ name: string }>("/emails", mail());
  expect([third.status, third.body.name]).toEqual([429, "quota_exceeded"]);
});

test("an idempotency key answers as before", async () => {
  const send = () => there.client.post<{ id: string }>("/emails", mail(), { "Idempotency-Key": "once" });
  const [first, second] = [await send(), await send()];
  expect(second.body.id).toBe(first.body.id);
});

test("a revoked key of another cell is refused at once", async () => {
  const key = await there.key(["full"]);
  expect((await key.client.get("/domains")).status).toBe(200);
  const { status } = await commandLine({
    ...cells.home,
    settings: { CELLS_FILE: cells.file },
  }).postrider("--cell", "west", "key", "revoke", key.id);
  expect(status).toBe(0);
  expect((await key.client.get("/domains")).status).toBe(401);
});

test("a key that no cell has is refused as any other", async () => {
  const gone = await cells.other.workspace(engine.url);
  await cells.other.sql`delete from workspace where id = ${gone.id}`;
  const { status, body } = await gone.client.get<{ name: string }>("/domains");
  expect([status, body.name]).toEqual([401, "invalid_api_key"]);
});

test("mail over SMTP goes to the cell of its sender", async () => {
  const transport = createTransport({
    host: "127.0.0.1",
    port: engine.submissionPort,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: "anybody", pass: there.client.key },
  });
  const { response } = await transport.sendMail({
    from: "orders@example.com",
    to: "smtp@example.net",
    subject: "Order",
    text: "Thanks",
  });
  transport.close();
  await delivered(there, idIn(response));
});

test("a report about a mail is applied in its cell", async () => {
  const id = await sent(there, { to: "gone@example.net" });
  await delivered(there, id);
  const copy = sink.ledger.mails.find(({ messageId }) => messageId.startsWith(id));
  await handIn(engine.inboundPort, copy?.from ?? "", dsn({ recipient: "gone@example.net" }));
  const status = async () => (await there.client.get<{ status: string }>(`/emails/${id}`)).body.status;
  await expect.poll(status, POLL).toBe("bounced");
});

test("a complaint that names no cell is heard by the one that it is about", async () => {
  const id = await sent(there, { to: "cross@example.net" });
  await delivered(there, id);
  const copy = sink.ledger.mails.find(({ messageId }) => messageId.startsWith(id));
  await handIn(engine.inboundPort, "fbl@example.net", arf({ header: [`Return-Path: <${copy?.from}>`] }));
  const status = async () => (await there.client.get<{ status: string }>(`/emails/${id}`)).body.status;
  await expect.poll(status, POLL).toBe("complained");
  expect((await here.client.get("/suppressions/cross@example.net")).status).toBe(404);
});

test("a link leads to its cell", async () => {
  const id = await sent(there);
  const { body } = await there.client.post<{ url: string }>(`/emails/${id}/share`, {});
  const answer = await fetch(new URL(new URL(body.url).pathname, engine.url));
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining("Order 1")]);
});

test("the command line makes a workspace in the cell that it names", async () => {
  const run = commandLine({ ...cells.home, settings: { CELLS_FILE: cells.file } });
  const { id } = await run.json<{ id: string }>(
    "--cell",
    "west",
    "workspace",
    "create",
    "--name",
    "W",
    "--plan",
    "pro",
  );
  expect(await cells.other.sql`select from workspace where id = ${id}`).toHaveLength(1);
  const { key } = await run.json<{ key: string }>(
    "--cell",
    "west",
    "key",
    "create",
    "--workspace",
    id,
    "--preset",
    "full",
  );
  const answer = await fetch(`${engine.url}/api/v1/domains`, { headers: { authorization: `Bearer ${key}` } });
  expect(answer.status).toBe(200);
  const unknown = await run.postrider("--cell", "north", "workspace", "list");
  expect([unknown.status, unknown.err]).toEqual([78, expect.stringContaining("There is no cell north")]);
});

test("a cell that is away is missed by its own workspaces alone", async () => {
  await cells.other.redisServer.kill();
  expect((await there.client.post("/emails", mail())).status).toBe(503);
  await delivered(here, await sent(here));
  const { status, checks } = await readiness();
  expect(status).toBe("ready");
  expect(checks).toMatchObject({
    postgres: "ok",
    redis: "ok",
    "west postgres": "ok",
    "west redis": "no answer",
  });
});

async function readiness() {
  const answer = await fetch(`${engine.url}/readyz`);
  return (await answer.json()) as { status: string; checks: Record<string, string> };
}
