import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MovableClock } from "../rig/clock.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const DAY_MS = 86_400_000;

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
});

test("a secret signs for a day after it was replaced, however often it is rotated meanwhile", async () => {
  const { client, id: workspaceId } = await engine.workspace();
  const endpoint = receiver.url("/");
  const made = await client.post<{ id: string; signing_secret: string }>("/webhooks", { endpoint });
  const { id, signing_secret: first } = made.body;
  const rotate = () => client.post<{ message: string }>(`/webhooks/${id}/signing-secret/rotate`);
  for (let n = 0; n < 3; n++) expect((await rotate()).status).toBe(200);
  const refused = await rotate();
  expect(refused.status).toBe(422);
  expect(refused.body.message).toContain("old secrets of this webhook still sign. Rotate again after 20");
  const { postrider } = commandLine(stage);
  const said = await postrider("webhook", "rotate", id, "--workspace", workspaceId);
  expect(said).toMatchObject({ status: 1, err: expect.stringContaining("Rotate again after 20") });

  await client.post(`/webhooks/${id}/test`);
  await receiver.until(() => receiver.heard.length === 1);
  const [heard] = receiver.heard;
  const headers = heard?.headers as Record<string, string>;
  expect(new Webhook(first).verify(heard?.body as string, headers)).toMatchObject({ type: "webhook.test" });
  clock.advance(DAY_MS);
  expect((await rotate()).status).toBe(200);
});
