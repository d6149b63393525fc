/**
 * A suspended workspace: its keys are refused at once, nothing of it leaves, nothing is lost, and it goes on
 * under its caps.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apply } from "../../src/automation/apply.ts";
import { newId } from "../../src/ids.ts";
import { BagQueue } from "../../src/queue/bagqueue.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Bag, firstRow, noteEpoch } from "../../src/record/mail/bags.ts";
import { mailCommit } from "../../src/record/mail/commit.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { emptyRedis } from "../rig/wholeredis.ts";
import { Client, mail, type TestWorkspace } from "../rig/workspace.ts";

type Held = { scheduled: number; waiting: number; deferred: number; in_line: number; on_its_way: number };
type Suspended = { id: string; suspended: boolean; reason: string | null; held: Held };

const REFUSED = { status: 403, body: { statusCode: 403, name: "workspace_suspended" } };
const POLL = { interval: 50 };

let stage: Stage;
let engine: Engine;
let other: Engine;
let cli: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  const settings = { RETRY_SCHEDULE: "1", EMAIL_LIFETIME_HOURS: "1" };
  engine = await startEngine(["api", "deliver", "keeper", "automate"], { ...stage, settings });
  other = await startEngine(["api"], stage);
  cli = commandLine(stage);
});
afterAll(async () => {
  await Promise.all([engine.stop(), other.stop()]);
  await stage.close();
});

const suspend = (ws: TestWorkspace, ...more: string[]) =>
  cli.json<Suspended>("workspace", "suspend", ws.id, ...more);
const resume = (ws: TestWorkspace, ...more: string[]) =>
  cli.json<Suspended>("workspace", "resume", ws.id, ...more);

async function send(ws: TestWorkspace, more: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail(more));
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

const statusOf = async (id: string) =>
  (await engine.sql<{ status: string }[]>`select status from email where id = ${id}`)[0]?.status;
const isHeld = async (id: string) =>
  (await engine.sql<{ held: boolean }[]>`select is_held as held from due where email_id = ${id}`)[0]?.held;
const copies = (id: string) => stage.sink.ledger.count(`${id}@example.com`);
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();

test("its keys are refused on every api from the next request on, with Redis emptied too, and work again after", async () => {
  const ws = await engine.workspace();
  const elsewhere = new Client(other.url, ws.client.key);
  for (const client of [ws.client, elsewhere]) expect((await client.get("/emails")).status).toBe(200);
  const said = await suspend(ws, "--reason", "phishing");
  expect(said).toMatchObject({ id: ws.id, suspended: true, reason: "phishing" });
  for (const client of [ws.client, elsewhere]) {
    expect(await client.post("/emails", mail())).toMatchObject(REFUSED);
    expect(await client.get("/audiences")).toMatchObject(REFUSED);
    expect(await client.get("/no/such/path")).toMatchObject(REFUSED);
  }
  await emptyRedis(engine.redis);
  expect(await elsewhere.get("/emails")).toMatchObject(REFUSED);
  const listed = async () => (await cli.json<{ id: string }[]>("workspace", "list")).find(isIt);
  const isIt = ({ id }: { id: string }) => id === ws.id;
  expect(await listed()).toMatchObject({ suspended_for: "phishing", resumed_at: null, resumed_for: null });
  await resume(ws, "--reason", "all clear");
  expect(await listed()).toMatchObject({ suspended_for: null, resumed_for: "all clear" });
  for (const client of [ws.client, elsewhere]) expect((await client.get("/emails")).status).toBe(200);
  const unknown = await cli.postrider("workspace", "suspend", randomUUID());
  expect(unknown).toMatchObject({ status: 1 });
});

test("links show nothing of it to anybody meanwhile", async () => {
  const ws = await engine.workspace();
  const content = Buffer.from("payload").toString("base64");
  const id = await send(ws, { html: "<p>Your bank</p>", attachments: [{ filename: "a.html", content }] });
  const { body: shared } = await ws.client.post<{ url: string }>(`/emails/${id}/share`, {});
  type Listed = { data: { download_url: string }[] };
  const { body: listed } = await ws.client.get<Listed>(`/emails/${id}/attachments`);
  const links = [shared.url, (listed.data[0] as Listed["data"][0]).download_url];
  const statuses = () =>
    Promise.all(links.map(async (link) => (await fetch(new URL(new URL(link).pathname, engine.url))).status));
  expect(await statuses()).toEqual([200, 200]);
  await suspend(ws);
  expect(await statuses()).toEqual([404, 404]);
  await resume(ws);
  expect(await statuses()).toEqual([200, 200]);
});

test("scheduled, waiting and deferred mail stays, is reported, and goes on afterwards", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  const filling = Array.from({ length: 48 }, (_, n) => mail({ to: `fill-in${n}@example.net` }));
  await ws.client.post("/emails/batch", filling);
  const deferred = await send(ws, { to: `once-451+${ws.handle}@example.net` });
  await expect.poll(() => statusOf(deferred), POLL).toBe("deferred");
  const scheduled = await send(ws, { scheduled_at: inMs(3_600_000) });
  const later = await send(ws, { scheduled_at: inMs(3_600_000) });
  await send(ws);
  const waiting = await send(ws);
  expect(await statusOf(waiting)).toBe("waiting");
  const { held } = await suspend(ws);
  expect(held.scheduled).toBe(2);
  expect(held.waiting).toBe(1);
  // what comes due is set aside
  await engine.sql`update due set at = now() where workspace_id = ${ws.id} and email_id = ${scheduled}`;
  await expect.poll(() => isHeld(scheduled), POLL).toBe(true);
  const before = [deferred, scheduled, waiting, later].map(copies);
  expect(before.slice(1)).toEqual([0, 0, 0]);
  await engine.sql`update ledger set next_release_at = now() where workspace_id = ${ws.id}`;
  await expect
    .poll(async () => {
      const [row] = await engine.sql<{ at: Date | null }[]>`
        select next_release_at as at from ledger where workspace_id = ${ws.id}`;
      return row?.at;
    }, POLL)
    .toBeNull();
  expect(await statusOf(waiting)).toBe("waiting");

  await resume(ws);
  // one place is left in the hour, or none: the rest waits, and nothing goes beyond the cap
  await expect.poll(() => isHeld(scheduled), POLL).not.toBe(true);
  await expect.poll(() => statusOf(scheduled), POLL).toBe("waiting");
  await engine.keyring.changeWorkspace(ws.id, { limits: { cap_hour: 1_000 } });
  await engine.sql`update ledger set next_release_at = now() where workspace_id = ${ws.id}`;
  for (const id of [deferred, scheduled, waiting])
    await expect.poll(() => statusOf(id), POLL).toBe("delivered");
  expect([deferred, scheduled, waiting].map(copies)).toEqual([1, 1, 1]);
  expect(await statusOf(later)).toBe("scheduled");
});

test("a request that was admitted before is refused when it is written under the new version", async () => {
  const ws = await engine.workspace();
  await send(ws);
  const holder = connectRecord(stage.databaseUrl, "setup", 30_000);
  // the commit waits for the ledger; meanwhile the workspace is suspended behind its back
  const sending = await holder.begin(async (tx) => {
    await tx`select from ledger where workspace_id = ${ws.id} for update`;
    const sent = ws.client.post("/emails", mail());
    await expect.poll(waiters, POLL).toBeGreaterThan(0);
    await tx`update workspace set suspended_at = now(), version = version + 1 where id = ${ws.id}`;
    return { sent };
  });
  await holder.end({ timeout: 1 });
  expect(await sending.sent).toMatchObject(REFUSED);
});

const waiters = async () =>
  (
    await engine.sql<{ n: number }[]>`
      select count(*)::int as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%ledger%'`
  )[0]?.n;

test("a bag that is in line already goes nowhere, and waits for nobody's job", async () => {
  const ws = await engine.workspace();
  await engine.keyring.suspend(ws.id, null);
  const client = connectRedis(stage.redisUrl, "queue", 20_000);
  const line = new BagQueue(client);
  const made: Bag[] = [];
  const connect = () => connectRecord(stage.databaseUrl, "commits", 20_000);
  const commit = mailCommit({ connect, timeoutMs: 20_000 }, (bags) => made.push(...bags), Buffer.from);
  const id = newId(Date.now());
  const head = { from: "a@example.com", to: ["b@example.net"], cc: [], bcc: [], reply_to: [], subject: "s" };
  const email = {
    workspaceId: ws.id,
    id,
    keyId: null,
    bulk: false,
    stream: "",
    head: JSON.stringify(head),
    weight: 1,
  };
  const whole = { ...email, bytes: 200, html: null, plain: "x", extra: null, scheduledAt: null };
  // the engine's own mail has no version to be refused under
  const own = { workspaceId: ws.id, version: null, given: 0, counted: 1, claim: null };
  await commit.submit({ ...own, emails: [whole], attachments: [] });
  for (const { epoch, queued } of await line.enqueue(made.map(firstRow)))
    await noteEpoch(engine.sql, queued, epoch);
  const bag = async () =>
    (
      await engine.sql<{ epoch: string | null; generation: number }[]>`
        select epoch, generation from bag where workspace_id = ${ws.id}`
    )[0];
  await expect.poll(async () => (await bag())?.generation, POLL).toBeGreaterThan(0);
  expect(await bag()).toMatchObject({ epoch: null });
  expect(copies(id)).toBe(0);
  await resume(ws);
  await expect.poll(() => statusOf(id), POLL).toBe("delivered");
  await commit.close();
  await line.close();
  client.disconnect();
});

test("what workers hold comes back but for what receivers are taking, and lives on from the day it is resumed", async () => {
  const ws = await engine.workspace();
  const old = await send(ws, { to: `defer-451+${ws.handle}@example.net` });
  await expect.poll(() => statusOf(old), POLL).toBe("deferred");
  await suspend(ws);
  // set aside: a try that was under way, or is being made ready, would find the mail too old
  await expect.poll(() => isHeld(old), POLL).toBe(true);
  await engine.sql`update email set sent_at = now() - interval '3 hours' where id = ${old}`;
  await resume(ws);
  const attempts = async () =>
    (await engine.sql<{ n: number }[]>`select attempts as n from email where id = ${old}`)[0]?.n ?? 0;
  const made = await attempts();
  await expect.poll(attempts, POLL).toBeGreaterThan(made + 1);
  expect(await statusOf(old)).toBe("deferred");
});

test("automations stand still and go on", async () => {
  const ws = await engine.workspace();
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "All" });
  await ws.client.post(`/audiences/${audience.id}/contacts`, { email: "ann@example.net" });
  const send = { from: "a@example.com", subject: "Welcome", html: "<p>Hi</p>" };
  const document = {
    name: "Welcome",
    audience_id: audience.id,
    event: "joined",
    entry: "every",
    steps: [{ wait: "1h" }, { send }],
  };
  await apply(engine.sql, ws.id, document, Date.now());
  const tracked = { audience_id: audience.id, email: "ann@example.net", name: "joined" };
  expect((await ws.client.post("/events", tracked)).status).toBe(202);
  const run = async () =>
    (
      await engine.sql<{ state: string; position: string; held: boolean }[]>`
        select state, position, is_held as held from run where workspace_id = ${ws.id}`
    )[0];
  await expect.poll(async () => (await run())?.position, POLL).not.toBe("0");
  await suspend(ws);
  await engine.sql`update run set wake_at = now() where workspace_id = ${ws.id}`;
  await expect.poll(async () => (await run())?.held, POLL).toBe(true);
  expect(await engine.sql`select from email where workspace_id = ${ws.id}`).toHaveLength(0);
  await resume(ws);
  await expect.poll(async () => (await run())?.state, POLL).toBe("finished");
  expect(await engine.sql`select from email where workspace_id = ${ws.id}`).toHaveLength(1);
});

test("once it is suspended no worker starts any more of a full bag, and all of it goes after", async () => {
  const ws = await engine.workspace();
  const ids = await ws.client.send(
    Array.from({ length: 100 }, (_, n) => mail({ to: `slow-3000+${ws.handle}.${n}@example.net` })),
  );
  const ours = new Set(ids.map((id) => `${id}@example.com`));
  await stage.sink.ledger.received(1, ({ messageId }) => ours.has(messageId));
  await engine.keyring.suspend(ws.id, null); // as the command and the console do
  const endedAt = Date.now();
  const withWorkers = () =>
    engine.sql`select from bag where workspace_id = ${ws.id} and token is not null`.then(
      ({ length }) => length,
    );
  await expect.poll(withWorkers, { timeout: 10_000, ...POLL }).toBe(0);
  const taken = () => stage.sink.ledger.mails.filter(({ messageId }) => ours.has(messageId));
  expect(taken().filter(({ begunAt }) => begunAt > endedAt)).toEqual([]);
  expect(taken().length).toBeLessThan(100);

  await resume(ws);
  await stage.sink.ledger.received(100, ({ messageId }) => ours.has(messageId));
  expect(stage.sink.ledger.compare(ours).repeated.filter((id) => ours.has(id))).toEqual([]);
});
