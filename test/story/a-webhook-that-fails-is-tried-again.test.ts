import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import type { Sql, Tx } from "../../src/record/db/connect.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type Shown = {
  status: string;
  failures: number;
  failing_since: string | null;
  disabled_for: string | null;
  events_behind: number;
  events_missed: number;
};
type Attempt = { event_id: string; http_status_code: number; response: string; error: string | null };

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
const clock = new MovableClock(Date.now());
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "webhooks"], {
    ...stage,
    clock,
    settings: TO_LOOPBACK,
  });
});
afterEach(() => {
  receiver.answerWith = (_, response) => response.end("ok");
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

/** A workspace with one endpoint, at a path of its own. */
async function listening(): Promise<{ workspace: TestWorkspace; id: string; path: string }> {
  const workspace = await engine.workspace();
  const path = `/${randomUUID()}`;
  const { status, body } = await workspace.client.post<{ id: string }>("/webhooks", {
    endpoint: receiver.url(path),
  });
  expect(status).toBe(201);
  return { workspace, id: body.id, path };
}

/** Events as triggers write them, of e-mails that nobody has any more. */
async function tell(
  workspace: TestWorkspace,
  subjects: readonly string[],
  type = "email.sent",
  sql: Sql | Tx = engine.sql,
): Promise<void> {
  await sql`
    insert into outbox (workspace_id, at, type, subject_id)
    select ${workspace.id}, now(), ${type}, id from unnest(${[...subjects]}::uuid[]) as s(id)`;
}

const freshIds = (count: number) => Array.from({ length: count }, () => newId(Date.now()));
const heardAt = (path: string) => receiver.heard.filter((one) => one.path === path);

async function shown({ client }: TestWorkspace, id: string): Promise<Shown> {
  return (await client.get<Shown>(`/webhooks/${id}`)).body;
}

async function attemptsOf({ client }: TestWorkspace, id: string): Promise<Attempt[]> {
  return (await client.get<{ data: Attempt[] }>(`/webhooks/${id}/attempts?limit=100`)).body.data;
}

test("ten times over three days, under one id, each signed for its own time; then it has failed", async () => {
  const { workspace, id, path } = await listening();
  receiver.answerWith = (_, response) => response.writeHead(500).end("not today");
  await tell(workspace, freshIds(1));
  const began = clock.now();
  for (let tries = 1; tries < 10; tries++) {
    await receiver.until(() => heardAt(path).length === tries);
    await expect.poll(async () => (await attemptsOf(workspace, id)).length).toBe(tries);
    const [{ due }] = (await engine.sql<{ due: Date }[]>`
      select due_at as due from webhook_delivery where webhook_id = ${id}`) as unknown as [{ due: Date }];
    clock.set(due.getTime());
  }
  await receiver.until(() => heardAt(path).length === 10);
  expect(clock.now() - began).toBeGreaterThan(3 * DAY_MS);
  expect(clock.now() - began).toBeLessThan(4 * DAY_MS);
  const heard = heardAt(path);
  expect(new Set(heard.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  expect(new Set(heard.map(({ headers }) => headers["webhook-timestamp"])).size).toBe(10);
  expect(new Set(heard.map(({ headers }) => headers["webhook-signature"])).size).toBe(10);
  await expect.poll(async () => (await attemptsOf(workspace, id)).length).toBe(10);
  for (const attempt of await attemptsOf(workspace, id))
    expect(attempt).toMatchObject({ http_status_code: 500, response: "not today" });
  const { body } = await workspace.client.get<{ data: { id: string; status: string }[] }>(
    `/webhooks/${id}/events`,
  );
  expect(body.data).toEqual([expect.objectContaining({ status: "failed" })]);

  // and all that failed can be sent again
  receiver.answerWith = (_, response) => response.end("ok");
  const again = await workspace.client.post(`/webhooks/${id}/replay`, { failed: true });
  expect(again).toMatchObject({ status: 202, body: { events: 1 } });
  await receiver.until(() => heardAt(path).length === 11);
  expect(heardAt(path).at(-1)?.headers["webhook-id"]).toBe(heard[0]?.headers["webhook-id"]);
  await expect
    .poll(
      async () => (await workspace.client.get<typeof body>(`/webhooks/${id}/events`)).body.data[0]?.status,
    )
    .toBe("success");
});

test("what follows an event of the same e-mail waits for it; other e-mails do not", async () => {
  const { workspace, path } = await listening();
  const [stuck = "", other = ""] = freshIds(2);
  let isWell = false;
  receiver.answerWith = ({ event }, response) =>
    response.writeHead(isWell || event.data.email_id !== stuck ? 200 : 500).end();
  await tell(workspace, [stuck], "email.accepted");
  await tell(workspace, [stuck, other], "email.sent");
  await tell(workspace, [stuck, other], "email.delivered");
  const typesOf = (id: string) =>
    heardAt(path)
      .filter(({ event }) => event.data.email_id === id)
      .map(({ event }) => event.type);
  await receiver.until(() => typesOf(other).length === 2);
  await tell(workspace, [stuck], "email.complained");
  await expect
    .poll(() => engine.sql`select from webhook_delivery where subject_id = ${stuck}`)
    .toHaveLength(4);
  expect(typesOf(stuck)).toEqual(["email.accepted"]);
  expect(typesOf(other)).toEqual(["email.sent", "email.delivered"]);
  isWell = true;
  clock.advance(6 * SECOND_MS);
  await receiver.until(() => typesOf(stuck).length === 5);
  expect(typesOf(stuck)).toEqual([
    "email.accepted",
    "email.accepted",
    "email.sent",
    "email.delivered",
    "email.complained",
  ]);
});

test("Retry-After is heeded", async () => {
  const { workspace, id, path } = await listening();
  receiver.answerWith = (_, response) => response.writeHead(429, { "retry-after": "120" }).end();
  await tell(workspace, freshIds(1));
  await receiver.until(() => heardAt(path).length === 1);
  await expect.poll(async () => (await shown(workspace, id)).failures).toBe(1);
  receiver.answerWith = (_, response) => response.end();
  // what is new waits too
  await tell(workspace, freshIds(1));
  clock.advance(110 * SECOND_MS);
  await expect.poll(async () => (await shown(workspace, id)).events_behind).toBe(1);
  expect(heardAt(path).length).toBe(1);
  clock.advance(20 * SECOND_MS);
  await receiver.until(() => heardAt(path).length === 3);
});

test("410 disables an endpoint at once; enabled again it goes on where it stopped", async () => {
  const { workspace, id, path } = await listening();
  receiver.answerWith = (_, response) => response.writeHead(410).end();
  const [gone = "", missed = ""] = freshIds(2);
  await tell(workspace, [gone]);
  await expect.poll(() => shown(workspace, id)).toMatchObject({ status: "disabled", disabled_for: "gone" });
  await tell(workspace, [missed]);
  expect((await workspace.client.post(`/webhooks/${id}/test`)).status).toBe(422);
  receiver.answerWith = (_, response) => response.end();
  await workspace.client.call("PATCH", `/webhooks/${id}`, { status: "enabled" });
  clock.advance(6 * SECOND_MS);
  await receiver.until(() => heardAt(path).length === 3);
  expect(
    heardAt(path)
      .map(({ event }) => event.data.email_id)
      .sort(),
  ).toEqual([gone, gone, missed].sort());
  await expect
    .poll(() => shown(workspace, id))
    .toMatchObject({ status: "enabled", disabled_for: null, failures: 0, events_behind: 0 });
});

/** And nobody holds it any more. */
async function disable({ client }: TestWorkspace, id: string): Promise<void> {
  await client.call("PATCH", `/webhooks/${id}`, { status: "disabled" });
  await expect
    .poll(() => engine.sql`select from webhook where id = ${id} and lease_token is null`)
    .toHaveLength(1);
}

test("what the log no longer holds is counted, and said", async () => {
  const { workspace, id, path } = await listening();
  await disable(workspace, id);
  // before they are numbered
  await engine.sql.begin(async (tx) => {
    await tell(workspace, freshIds(5), "email.sent", tx);
    await tx`delete from outbox where workspace_id = ${workspace.id}`;
  });
  // numbered, and dropped with the days of which they were
  await tell(workspace, freshIds(10));
  await expect
    .poll(() => engine.sql`select from outbox where workspace_id = ${workspace.id} and sequence is not null`)
    .toHaveLength(10);
  await engine.sql`delete from outbox where workspace_id = ${workspace.id} and sequence <= 4`;
  await workspace.client.call("PATCH", `/webhooks/${id}`, { status: "enabled" });
  await receiver.until(() => heardAt(path).length === 6);
  await expect.poll(() => shown(workspace, id)).toMatchObject({ events_missed: 4, events_behind: 0 });
  // all that there is
  await disable(workspace, id);
  await tell(workspace, freshIds(3));
  await expect
    .poll(() => engine.sql`select from outbox where workspace_id = ${workspace.id} and sequence is not null`)
    .toHaveLength(9);
  await engine.sql`delete from outbox where workspace_id = ${workspace.id}`;
  await workspace.client.call("PATCH", `/webhooks/${id}`, { status: "enabled" });
  await expect.poll(() => shown(workspace, id)).toMatchObject({ events_missed: 7, events_behind: 0 });
});
