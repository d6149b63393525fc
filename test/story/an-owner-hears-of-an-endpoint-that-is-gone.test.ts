import { afterAll, beforeAll, expect, test } from "vitest";
import { hashPassword } from "../../src/admission/password.ts";
import { newId } from "../../src/ids.ts";
import { insertOwner } from "../../src/record/workspaces/workspaces.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const SETTINGS = { ...TO_LOOPBACK, MAIL_FROM: "Operator <ops@mail.example>" };

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
beforeAll(async () => {
  stage = await openStage({ keepRaw: true });
  receiver = await openReceiver();
  receiver.answerWith = (_, response) => response.writeHead(410).end();
  engine = await startEngine(["api", "deliver", "webhooks", "keeper"], { ...stage, settings: SETTINGS });
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

/** What an engine that starts does at once: owners are told. */
async function swept(until: () => Promise<void>): Promise<void> {
  const other = await startEngine(["webhooks"], { ...stage, settings: SETTINGS });
  await until();
  await other.stop();
}

test("who was told that an endpoint fails is told when it is disabled by a 410", async () => {
  const { client, id: workspaceId } = await engine.workspace();
  const owner = { id: newId(Date.now()), workspaceId, email: "owner@owner.example" };
  await insertOwner(engine.sql, { ...owner, passwordHash: await hashPassword("a password") }, new Date());
  const { body } = await client.post<{ id: string }>("/webhooks", { endpoint: receiver.url("/") });
  const subjects = () =>
    stage.sink.ledger.mails
      .filter(({ to }) => to.includes(owner.email))
      .map(({ raw }) => /^Subject: (.*)$/m.exec(String(raw))?.[1]?.trim());

  await engine.sql`
    update webhook set failures = 50, failing_since = now() - interval '2 days', retry_at = now() + interval '1 hour'
    where id = ${body.id}`;
  const failing = "A webhook endpoint accepts no events";
  await swept(() => expect.poll(subjects, { timeout: 20_000 }).toEqual([failing]));

  await engine.sql`update webhook set retry_at = null where id = ${body.id}`;
  await client.post(`/webhooks/${body.id}/test`);
  await expect
    .poll(async () => (await client.get(`/webhooks/${body.id}`)).body, { timeout: 20_000 })
    .toMatchObject({ status: "disabled", disabled_for: "gone" });
  await swept(() =>
    expect.poll(subjects, { timeout: 20_000 }).toEqual([failing, "A webhook endpoint was disabled"]),
  );
});
