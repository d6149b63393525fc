import { Resend } from "resend";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type Heard, openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Created = { id: string; signing_secret: string; public_key?: string };

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
let workspace: TestWorkspace;
let created: Created;
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "deliver", "inbound", "webhooks"], {
    ...stage,
    settings: { ...TO_LOOPBACK, INBOUND_PORT: "0" },
  });
  workspace = await engine.workspace();
  const { status, body } = await workspace.client.post<Created>("/webhooks", { endpoint: receiver.url() });
  expect(status).toBe(201);
  created = body;
});
afterAll(async () => {
  await engine.stop();
  await receiver.close();
  await stage.close();
  expect(engine.complaints).toEqual([]);
});

async function send(more: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await workspace.client.post<{ id: string }>("/emails", mail(more));
  expect(status).toBe(200);
  return body.id;
}

function headersOf({ headers }: Heard, prefix: string): Record<string, string> {
  return Object.fromEntries(
    ["id", "timestamp", "signature"].map((name) => [
      `${prefix}-${name}`,
      String(headers[`${prefix}-${name}`]),
    ]),
  );
}

test("an endpoint is told of an e-mail from its acceptance to its end, in order", async () => {
  const id = await send({ tags: [{ name: "kind", value: "receipt" }] });
  await receiver.until(() => receiver.about(id).length === 3);
  expect(receiver.typesOf(id)).toEqual(["email.accepted", "email.sent", "email.delivered"]);
  const [accepted] = receiver.about(id);
  expect(accepted?.method).toBe("POST");
  expect(accepted?.headers["content-type"]).toBe("application/json");
  expect(accepted?.event).toEqual({
    type: "email.accepted",
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    data: {
      email_id: id,
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      message_id: `<${id}@example.com>`,
      from: "Acme <orders@example.com>",
      to: ["one@example.net"],
      subject: "Order 1",
      tags: { kind: "receipt" },
    },
  });
});

test("a bounce is told of with the words of the receiver", async () => {
  const id = await send({ to: "refuse-550@example.net" });
  await receiver.until(() => receiver.typesOf(id).includes("email.bounced"));
  expect(receiver.about(id).at(-1)?.event.data).toMatchObject({
    recipient: "refuse-550@example.net",
    bounce: { message: expect.stringContaining("550"), type: "Permanent" },
  });
});

test("a bounce is permanent only where nobody is there", async () => {
  const typeOf = async (to: string) => {
    const id = await send({ to });
    await receiver.until(() => receiver.typesOf(id).includes("email.bounced"));
    return receiver.about(id).at(-1)?.event.data.bounce;
  };
  expect(await typeOf("refuse-550+gone@example.net")).toMatchObject({ type: "Permanent" });
  // a full mailbox, a refusal by policy: whoever reads the webhook must not drop the address
  expect(await typeOf("refuse-552@example.net")).toMatchObject({ type: "Transient" });
  expect(await typeOf("refuse-554@example.net")).toMatchObject({ type: "Transient" });
});

test("a bounce that is reported later is told by its category, too", async () => {
  const later = async (category: string) => {
    const recipient = `${category}@example.net`;
    const id = await send({ to: recipient });
    await receiver.until(() => receiver.typesOf(id).includes("email.delivered"));
    const report = {
      ...{ email_id: id, recipient, type: "bounce", category },
      at: new Date().toISOString(),
    };
    expect((await workspace.client.post("/feedback", [report])).status).toBe(202);
    await receiver.until(() => receiver.typesOf(id).includes("email.bounced"));
    return receiver.about(id).at(-1)?.event.data.bounce;
  };
  expect(await later("soft")).toMatchObject({ type: "Transient" });
  expect(await later("block")).toMatchObject({ type: "Transient" });
  expect(await later("hard")).toMatchObject({ type: "Permanent" });
});

test("three verifiers that others wrote take what is sent, and not what was changed on its way", async () => {
  const id = await send();
  await receiver.until(() => receiver.about(id).length === 3);
  const resend = new Resend("re_unused");
  for (const heard of receiver.about(id)) {
    const { body, headers } = heard;
    const secret = created.signing_secret;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/);
    const standard = headersOf(heard, "webhook");
    const verifyAll = (text: string) => [
      new StandardWebhook(secret).verify(text, standard),
      new SvixWebhook(secret).verify(text, headersOf(heard, "svix")),
      resend.webhooks.verify({
        payload: text,
        headers: {
          id: String(headers["svix-id"]),
          timestamp: String(headers["svix-timestamp"]),
          signature: String(headers["svix-signature"]),
        },
        webhookSecret: secret,
      }),
    ];
    expect(verifyAll(body)).toEqual(Array(3).fill(heard.event));
    expect(() => verifyAll(`${body} `)).toThrow("No matching signature");
    expect(headers["webhook-id"]).not.toContain(".");
  }
});

test("the id of what is sent is that of the event log", async () => {
  const { body } = await workspace.client.get<{ data: { id: string }[] }>("/events/log?limit=1000");
  const logged = body.data.map(({ id }) => id);
  for (const { headers } of receiver.heard) expect(logged).toContain(headers["webhook-id"]);
});
