/**
 * Whoever is not there is not written to twice: a hard bounce suppresses its address with the same commit,
 * and mail to it is accepted, ends as suppressed with the evidence, and costs no place in the caps. Whoever
 * may be there is not suppressed.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Event = { type: string; recipient?: string; detail?: string };
type Email = { status: string; last_event: string; events: Event[]; attempts: number };
type Suppression = {
  id: string;
  email: string;
  reason: string;
  origin: string;
  evidence: string;
  source_id: string;
};

const POLL = { timeout: 20_000, interval: 50 };

let database: OwnDatabase;
let redis: OwnRedis;
let sink: Sink;
let engine: Engine;
let ws: TestWorkspace;
beforeAll(async () => {
  [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
  engine = await startEngine(["api", "deliver", "keeper"], {
    databaseUrl: database.url,
    redisUrl: redis.url,
    smtpUrl: sink.url,
    settings: { RETRY_SCHEDULE: "1,86400" },
  });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([sink.close(), redis.stop(), database.drop()]);
});

async function send(more: Record<string, unknown>, by: TestWorkspace = ws): Promise<string> {
  const { status, body } = await by.client.post<{ id: string }>("/emails", mail(more));
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

async function get(id: string): Promise<Email> {
  return (await ws.client.get<Email>(`/emails/${id}`)).body;
}

async function ended(id: string): Promise<Email> {
  await expect.poll(async () => (await get(id)).status, POLL).not.toBe("accepted");
  return get(id);
}

const suppressionOf = (address: string) => ws.client.get<Suppression>(`/suppressions/${address}`);
const capsUsed = async () =>
  (
    await engine.sql<
      { used: number }[]
    >`select cap_day_used as used from ledger where workspace_id = ${ws.id}`
  )[0]?.used as number;
const monthUsed = async () =>
  (
    await engine.sql<{ used: number }[]>`select month_used as used from ledger where workspace_id = ${ws.id}`
  )[0]?.used as number;
const hardBounces = async () =>
  (
    await engine.sql<{ sum: number }[]>`
    select coalesce(sum(hard_bounced), 0)::int as sum from tally where workspace_id = ${ws.id}`
  )[0]?.sum;

test("a hard bounce is in the list as soon as the mail has bounced, with the receiver's own words", async () => {
  const id = await send({ to: "refuse-550@gone.example" });
  expect(await ended(id)).toMatchObject({ status: "bounced" });
  const { body } = await suppressionOf("REFUSE-550@gone.example");
  expect(body).toMatchObject({
    object: "suppression",
    email: "refuse-550@gone.example",
    reason: "bounce",
    origin: "bounce",
    scope: "workspace",
    evidence: "550 5.1.1 no such user",
    source_id: id,
  });
});

test("mail to it is accepted, ends as suppressed at once, is charged to the quota and not to the caps", async () => {
  const before = { caps: await capsUsed(), month: await monthUsed(), bounces: await hardBounces() };
  const id = await send({ to: "refuse-550@gone.example" });
  const email = await get(id);
  expect(email).toMatchObject({ status: "suppressed", last_event: "suppressed", attempts: 0 });
  expect(email.events.at(-1)).toMatchObject({
    type: "suppressed",
    recipient: "refuse-550@gone.example",
    detail: expect.stringContaining("after a bounce: 550 5.1.1 no such user"),
  });
  expect(await capsUsed()).toBe(before.caps);
  expect(await monthUsed()).toBe(before.month + 1);
  expect(await hardBounces()).toBe(before.bounces);
  expect(sink.ledger.count(`${id}@example.com`)).toBe(0);
});

test("the others of a mail get theirs, and the caps count only them", async () => {
  const before = await capsUsed();
  const id = await send({ to: ["alive@fine.example", "refuse-550@gone.example"], cc: "also@fine.example" });
  const email = await ended(id);
  expect(await capsUsed()).toBe(before + 2);
  expect(email.status).toBe("suppressed");
  const told = email.events.map(({ type, recipient }) => [type, recipient]);
  expect(told).toContainEqual(["suppressed", "refuse-550@gone.example"]);
  expect(told).toContainEqual(["delivered", "alive@fine.example"]);
  expect(told).toContainEqual(["delivered", "also@fine.example"]);
});

test("another workspace is not held back by it", async () => {
  const other = await engine.workspace("pro");
  const id = await send({ to: "refuse-550@gone.example" }, other);
  const stored = async () => (await engine.sql`select status from email where id = ${id}`)[0]?.status;
  await expect.poll(stored, POLL).toBe("bounced");
});

test.each(["refuse-552@full.example", "once-451@later.example"])(
  "%s may be there: not suppressed",
  async (to) => {
    await ended(await send({ to }));
    expect((await suppressionOf(to)).status).toBe(404);
  },
);

test("mail that was scheduled before is asked again when it is due", async () => {
  const to = "refuse-550@later.example";
  const early = await send({
    to: [to, "alive@later.example"],
    scheduled_at: "in 1 hour",
  });
  const alone = await send({ to, scheduled_at: "in 1 hour" });
  expect((await ws.client.post("/suppressions", { email: to })).status).toBe(201);
  await engine.sql`update due set at = now() where email_id = any(${[early, alone]}::uuid[])`;
  await expect.poll(async () => (await get(alone)).status, POLL).toBe("suppressed");
  await expect.poll(async () => (await get(early)).status, POLL).toBe("suppressed");
  const told = (await get(early)).events.map(({ type, recipient }) => [type, recipient]);
  expect(told).toContainEqual(["suppressed", to]);
  expect(told).toContainEqual(["delivered", "alive@later.example"]);
  expect(sink.ledger.count(`${alone}@example.com`)).toBe(0);
});

test("undoing it takes back its count, once, and mail goes out again", async () => {
  const to = "refuse-550@undone.example";
  const before = (await hardBounces()) ?? 0;
  await ended(await send({ to }));
  await expect.poll(hardBounces, POLL).toBe(before + 1);
  const { body } = await suppressionOf(to);
  const undone = await ws.client.call<{ deleted: boolean }>("DELETE", `/suppressions/${body.id}`);
  expect(undone).toMatchObject({ status: 200, body: { object: "suppression", id: body.id, deleted: true } });
  expect(await hardBounces()).toBe(before);
  expect((await ws.client.call("DELETE", `/suppressions/${body.id}`)).status).toBe(404);
  expect(await hardBounces()).toBe(before);
  expect((await suppressionOf(to)).status).toBe(404);
  expect(await ended(await send({ to }))).toMatchObject({ status: "bounced" });
});
