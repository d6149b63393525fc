/**
 * An owner asks for an event again while it is being tried for the ninth time: it begins anew, however that
 * attempt ends.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "webhooks"], { ...stage, settings: TO_LOOPBACK });
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
});

test("an event that is asked for again meanwhile is sent again at once", async () => {
  const { id: workspaceId, client } = await engine.workspace();
  const { body: webhook } = await client.post<{ id: string }>("/webhooks", { endpoint: receiver.url() });
  receiver.answerWith = (_, response) => response.writeHead(500).end();
  await engine.sql`
    insert into outbox (workspace_id, at, type, subject_id)
    values (${workspaceId}, now(), 'email.sent', ${newId(Date.now())})`;
  const rowWith = async (tries: number) => {
    const rows = await engine.sql`
      select from webhook_delivery where webhook_id = ${webhook.id} and tries = ${tries}`;
    return rows.length === 1;
  };
  await expect.poll(() => rowWith(1), { timeout: 20_000 }).toBe(true);
  let fail = () => {};
  receiver.answerWith = (_, response) => {
    fail = () => response.writeHead(500).end();
  };
  await engine.sql`update webhook set failures = 0, retry_at = null, updated_at = now() where id = ${webhook.id}`;
  await engine.sql`
    update webhook_delivery set tries = 8, due_at = now() where webhook_id = ${webhook.id}`;
  await receiver.until(({ heard }) => heard.length === 2);
  const eventId = receiver.heard[1]?.headers["webhook-id"];
  const replayed = await client.post(`/webhooks/${webhook.id}/replay`, { event_id: eventId });
  expect(replayed.status).toBe(202);
  receiver.answerWith = (_, response) => response.end("ok");
  fail();
  const attempts = () => engine.sql`select from webhook_attempt where webhook_id = ${webhook.id}`;
  await expect.poll(async () => (await attempts()).length, { interval: 5 }).toBeGreaterThanOrEqual(2);
  expect(await rowWith(9)).toBe(false);
  await receiver.until(({ heard }) => heard.length === 3);
  await expect
    .poll(() => engine.sql`select from webhook_delivery where webhook_id = ${webhook.id}`)
    .toHaveLength(0);
});
