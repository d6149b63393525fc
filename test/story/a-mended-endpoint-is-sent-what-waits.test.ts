/**
 * Who enables an endpoint again, or gives it another URL, has mended it. Events that it refused wait for
 * hours between their tries, and need not wait any longer: also when no worker holds the endpoint then.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";

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

test.each(["enabled again", "moved"])("an endpoint that is %s", async (how) => {
  const { client, id: workspaceId } = await engine.workspace();
  const path = `/${randomUUID()}`;
  const { body } = await client.post<{ id: string }>("/webhooks", { endpoint: receiver.url(path) });
  const heard = () => receiver.heard.filter((one) => one.path.startsWith(path));
  receiver.answerWith = (_, response) => response.writeHead(500).end();
  const email = newId(clock.now());
  const tell = (type: string) => engine.sql`
    insert into outbox (workspace_id, at, type, subject_id) values (${workspaceId}, now(), ${type}, ${email})`;
  await tell("email.sent");
  await receiver.until(() => heard().length === 1);
  await tell("email.delivered");
  const waits = (ms: number) => engine.sql`
    select from webhook_delivery where webhook_id = ${body.id}
      and due_at > ${new Date(clock.now() + ms)}`;
  await expect.poll(() => waits(0)).toHaveLength(1);
  clock.advance(10_000);
  await expect.poll(() => waits(60_000)).toHaveLength(1);
  if (how === "enabled again") await client.call("PATCH", `/webhooks/${body.id}`, { status: "disabled" });
  await expect
    .poll(() => engine.sql`select from webhook where id = ${body.id} and lease_token is null`)
    .toHaveLength(1);

  receiver.answerWith = (_, response) => response.end("ok");
  const mend = how === "enabled again" ? { status: "enabled" } : { endpoint: receiver.url(`${path}/moved`) };
  await client.call("PATCH", `/webhooks/${body.id}`, mend);
  await receiver.until(() => heard().length === 4);
  expect(heard().map(({ event }) => event.type)).toEqual([
    ...["email.sent", "email.sent", "email.sent", "email.delivered"],
  ]);
});
