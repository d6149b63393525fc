import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Heard, openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
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
  expect(engine.complaints).toEqual([]);
});

test.each(["contact.created", "email.accepted"])(
  "of %s, erased while its endpoint is answering",
  async (type) => {
    const { client } = await engine.workspace();
    const { body: webhook } = await client.post<{ id: string }>("/webhooks", {
      endpoint: receiver.url(`/${randomUUID()}`),
      events: [type],
    });
    const asked = new Promise<{ heard: Heard; response: ServerResponse }>((resolve) => {
      receiver.answerWith = (heard, response) => resolve({ heard, response });
    });
    const { body: audience } = await client.post<{ id: string }>("/audiences", { name: "People" });
    const contacts = `/audiences/${audience.id}/contacts`;
    expect((await client.post(contacts, { email: "ada@example.net" })).status).toBe(201);
    expect((await client.post("/emails", mail({ to: "ada@example.net" }))).status).toBe(200);
    const { heard, response } = await asked;
    expect(heard.body).toContain("ada@example.net");
    expect((await client.call("DELETE", `${contacts}/ada@example.net?mode=erase`)).status).toBe(200);
    response.writeHead(500).end(heard.body);
    type Attempts = { data: { http_status_code: number; response: string }[] };
    const attempts = async () => (await client.get<Attempts>(`/webhooks/${webhook.id}/attempts`)).body.data;
    await expect.poll(attempts).toHaveLength(1);
    expect(await attempts()).toMatchObject([{ http_status_code: 500, response: "" }]);
  },
);
