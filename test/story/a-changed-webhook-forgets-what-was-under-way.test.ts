import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { POST_MS_MAX } from "../../src/webhooks/post.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const MINUTE_MS = 60_000;

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
const clock = new MovableClock(Date.now());
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "webhooks"], { ...stage, clock, settings: TO_LOOPBACK });
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

/** A workspace with an endpoint that is being sent an event, and has not answered. */
async function asked(
  failures = 0,
): Promise<{ workspace: TestWorkspace; id: string; path: string; response: ServerResponse }> {
  const workspace = await engine.workspace();
  const path = `/${randomUUID()}`;
  const { body } = await workspace.client.post<{ id: string }>("/webhooks", { endpoint: receiver.url(path) });
  await engine.sql`update webhook set failures = ${failures} where id = ${body.id}`;
  const held = new Promise<ServerResponse>((resolve) => {
    // what webhooks of other tests try again does not count
    receiver.answerWith = (heard, response) => (heard.path === path ? resolve(response) : response.end("ok"));
  });
  await engine.sql`
    insert into outbox (workspace_id, at, type, subject_id)
    values (${workspace.id}, now(), 'email.sent', ${newId(Date.now())})`;
  return { workspace, id: body.id, path, response: await held };
}

const attemptsOf = (id: string) => engine.sql`select status from webhook_attempt where webhook_id = ${id}`;

test("the 410 of its former URL does not disable it", async () => {
  const { workspace, id, response } = await asked();
  const moved = `/${randomUUID()}`;
  await workspace.client.call("PATCH", `/webhooks/${id}`, { endpoint: receiver.url(moved) });
  receiver.answerWith = (_, answer) => answer.end("ok");
  response.writeHead(410).end();
  await expect.poll(() => attemptsOf(id)).toHaveLength(1);
  clock.advance(MINUTE_MS);
  await receiver.until(() => receiver.heard.some(({ path }) => path === moved));
  expect((await workspace.client.get(`/webhooks/${id}`)).body).toMatchObject({
    status: "enabled",
    disabled_for: null,
  });
});

/** On a connection that was kept open by the event before, as most are. */
async function askedAgain() {
  const { workspace, id, path, response } = await asked();
  response.end("ok");
  await expect.poll(() => attemptsOf(id)).toHaveLength(1);
  const next = nextAsked(path);
  await engine.sql`
    insert into outbox (workspace_id, at, type, subject_id)
    values (${workspace.id}, now(), 'email.sent', ${newId(Date.now())})`;
  const { port, answer } = await next;
  const [first] = receiver.heard.filter((one) => one.path === path);
  expect(port).toBe(first?.port);
  const gone = receiver.open;
  return { workspace, id, path, answer, heard: receiver.heard.length, hungUp: () => receiver.open < gone };
}

/** The next request there, which is not answered. */
function nextAsked(path: string): Promise<{ port: number; answer: ServerResponse }> {
  return new Promise((resolve) => {
    receiver.answerWith = ({ path: at, port }, answer) =>
      at === path ? resolve({ port, answer }) : answer.end("ok");
  });
}

test("its former URL is not sent again what it has not answered", async () => {
  const { workspace, id, path, heard, hungUp } = await askedAgain();
  const moved = `/${randomUUID()}`;
  await workspace.client.call("PATCH", `/webhooks/${id}`, { endpoint: receiver.url(moved) });
  receiver.answerWith = (_, answer) => answer.end("ok");
  await receiver.until(hungUp);
  await receiver.until(() => receiver.heard.some((one) => one.path === moved));
  expect(receiver.heard.slice(heard).filter((one) => one.path === path)).toEqual([]);
});

test("its former URL is not waited for where it was asked once more over a new connection", async () => {
  const { workspace, id, path, answer } = await askedAgain();
  const again = nextAsked(path);
  answer.destroy();
  const { answer: last } = await again;
  const hungUp = new Promise((resolve) => last.on("close", resolve));
  const moved = `/${randomUUID()}`;
  await workspace.client.call("PATCH", `/webhooks/${id}`, { endpoint: receiver.url(moved) });
  const began = performance.now();
  await hungUp;
  expect(performance.now() - began).toBeLessThan(POST_MS_MAX / 2);
  await receiver.until(() => receiver.heard.some((one) => one.path === moved));
});

test("one that is removed is not sent again what it has not answered", async () => {
  const { workspace, id, path, heard, hungUp } = await askedAgain();
  await workspace.client.call("DELETE", `/webhooks/${id}`);
  await receiver.until(hungUp);
  // what is sent after it has come when this has
  const other = await asked();
  other.response.end("ok");
  expect(receiver.heard.slice(heard).filter((one) => one.path === path)).toEqual([]);
});

test("enabled again it is not left in peace for what it was asked before", async () => {
  const { workspace, id, response } = await asked(50);
  await workspace.client.call("PATCH", `/webhooks/${id}`, { status: "enabled" });
  receiver.answerWith = (_, answer) => answer.end("ok");
  response.writeHead(500).end();
  await expect.poll(() => attemptsOf(id)).toHaveLength(1);
  expect((await workspace.client.get(`/webhooks/${id}`)).body).toMatchObject({
    failures: 0,
    failing_since: null,
    next_attempt_at: null,
  });
});

test.each([
  ["another secret", "POST", "/signing-secret/rotate", undefined],
  ["a choice of events", "PATCH", "", { events: ["email.sent"] }],
])("%s forgets nothing", async (_, method, path, body) => {
  const { workspace, id, response } = await asked();
  expect((await workspace.client.call(method, `/webhooks/${id}${path}`, body)).status).toBe(200);
  response.writeHead(429, { "retry-after": "120" }).end();
  await expect.poll(() => attemptsOf(id)).toHaveLength(1);
  const { body: shown } = await workspace.client.get<{ next_attempt_at: string }>(`/webhooks/${id}`);
  expect(shown).toMatchObject({ failures: 1, next_attempt_at: expect.any(String) });
  expect(Date.parse(shown.next_attempt_at)).toBeGreaterThan(clock.now() + MINUTE_MS);
});
