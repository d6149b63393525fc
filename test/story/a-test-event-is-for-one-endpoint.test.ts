import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
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
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

type Endpoint = { id: string; path: string };
async function addTo(workspace: TestWorkspace): Promise<Endpoint> {
  const path = `/${randomUUID()}`;
  const { body } = await workspace.client.post<{ id: string }>("/webhooks", { endpoint: receiver.url(path) });
  return { id: body.id, path };
}

async function tell(workspace: TestWorkspace): Promise<void> {
  await engine.sql`
    insert into outbox (workspace_id, at, type, subject_id)
    values (${workspace.id}, now(), 'email.sent', ${newId(Date.now())})`;
}

const typesAt = ({ path }: Endpoint) =>
  receiver.heard.filter((one) => one.path === path).map(({ event }) => event.type);

test("the others of its workspace are not sent it, not even when it is replayed", async () => {
  const workspace = await engine.workspace();
  const [tested, other] = [await addTo(workspace), await addTo(workspace)];
  const sent = await workspace.client.post<{ id: string }>(`/webhooks/${tested.id}/test`);
  expect(sent.status).toBe(202);
  await receiver.until(() => typesAt(tested).length === 1);
  await tell(workspace);
  await receiver.until(() => typesAt(tested).length + typesAt(other).length >= 3);
  expect(typesAt(tested)).toEqual(["webhook.test", "email.sent"]);
  expect(typesAt(other)).toEqual(["email.sent"]);
  const replayed = await workspace.client.post(`/webhooks/${other.id}/replay`, { event_id: sent.body.id });
  expect(replayed.status).toBe(404);
});

test("one that is refused is not sent again", async () => {
  const workspace = await engine.workspace();
  const failing = await addTo(workspace);
  receiver.answerWith = (_, response) => response.writeHead(500).end();
  // one that has failed so often that a single event at a time is tried
  await engine.sql`update webhook set failures = 50, failing_since = now() where id = ${failing.id}`;
  await workspace.client.post(`/webhooks/${failing.id}/test`);
  await receiver.until(() => typesAt(failing).length === 1);
  await expect
    .poll(
      () =>
        engine.sql`select from webhook_delivery where webhook_id = ${failing.id} and failed_at is not null`,
    )
    .toHaveLength(1);
  await tell(workspace);
  receiver.answerWith = (_, response) => response.end();
  clock.advance(10 * MINUTE_MS);
  await receiver.until(() => typesAt(failing).includes("email.sent"));
  expect(typesAt(failing)).toEqual(["webhook.test", "email.sent"]);
});
