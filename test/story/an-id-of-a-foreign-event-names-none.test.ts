/**
 * The id of an event ends in its number within the workspace, so an id that a receiver got from another
 * workspace ends in the number of an event here.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

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

/** A workspace that was told of its first event, which has the number 1. */
async function told() {
  const { client, id } = await engine.workspace();
  const made = await client.post<{ id: string }>("/webhooks", {
    endpoint: receiver.url(`/${id}`),
    events: ["email.accepted"],
  });
  const sent = await client.post<{ id: string }>("/emails", mail());
  const heard = () => receiver.heard.filter(({ path }) => path === `/${id}`);
  await receiver.until(() => heard().length === 1);
  return { client, id, webhook: `/webhooks/${made.body.id}`, eventId: `${sent.body.id}_1`, heard };
}

test("an id of an event of another workspace names no event: nothing is shown, and nothing sent again", async () => {
  const [one, other] = [await told(), await told()];
  expect(other.heard()[0]?.headers["webhook-id"]).toBe(other.eventId);
  const foreign = other.eventId;
  const shown = await one.client.get(`${one.webhook}/events/${foreign}`);
  expect(shown.status).toBe(404);
  const attempts = await one.client.get<{ data: unknown[] }>(`${one.webhook}/events/${foreign}/attempts`);
  expect(attempts.body.data).toEqual([]);
  expect((await one.client.post(`${one.webhook}/events/${foreign}/replay`, {})).status).toBe(404);
  expect((await one.client.post(`${one.webhook}/replay`, { event_id: foreign })).status).toBe(404);
  const [, , webhookId = ""] = one.webhook.split("/");
  const { postrider } = commandLine(stage);
  const of = [webhookId, "--workspace", one.id, "--event", foreign];
  expect(await postrider("webhook", "replay", ...of)).toMatchObject({ status: 1 });
  expect((await postrider("webhook", "attempts", ...of)).out).not.toContain("email.accepted");

  const again = await one.client.post(`${one.webhook}/events/${one.eventId.toUpperCase()}/replay`, {});
  expect(again.body).toEqual({ object: "webhook_event", id: one.eventId });
  await receiver.until(() => one.heard().length === 2);
  const own = await one.client.get<{ data: unknown[] }>(`${one.webhook}/events/${one.eventId}/attempts`);
  expect(own.body.data.length).toBeGreaterThan(0);
  expect((await one.client.get(`${one.webhook}/events/${one.eventId}`)).status).toBe(200);
});
