import PostalMime from "postal-mime";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

type Email = {
  status: string;
  last_event: string;
  attempts: number;
  message_id: string;
  sent_at: string | null;
  delivered_at: string | null;
  delayed_at: string | null;
  bounced_at: string | null;
  next_attempt_at: string | null;
  reason: string | null;
  events: { type: string; at: string; recipient?: string; detail?: string }[];
  delivery_attempts: { at: string; recipient: string; phase: string; reply: string | null }[];
};

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage({ keepRaw: true });
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...stage,
    settings: { RETRY_SCHEDULE: "1,86400" },
  });
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

async function send(more: Record<string, unknown>): Promise<string> {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail(more));
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

/** The e-mail as soon as it is what is looked for. */
async function once(id: string, holds: (email: Email) => boolean): Promise<Email> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    const { body } = await ws.client.get<Email>(`/emails/${id}`);
    if (holds(body)) return body;
    if (performance.now() > deadline) throw new Error(`still ${JSON.stringify(body)}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("delivered, with the receiver's own words", async () => {
  const id = await send({ to: "fine@example.net" });
  const email = await once(id, ({ status }) => status === "delivered");
  expect(email).toMatchObject({
    last_event: "delivered",
    attempts: 1,
    next_attempt_at: null,
    bounced_at: null,
    reason: null,
  });
  expect(email.events.map((event) => event.type)).toEqual(["queued", "sent", "delivered"]);
  expect(email.events[2]).toMatchObject({
    recipient: "fine@example.net",
    detail: expect.stringMatching(/^250 /),
  });
  const [taken] = await stage.sink.ledger.received(
    1,
    ({ messageId }) => `<${messageId}>` === email.message_id,
  );
  expect(taken).toBeDefined();
});

test("deferred by a 4xx, and delivered on the next attempt as the same mail", async () => {
  const id = await send({ to: "once-451@later.example" });
  const delayed = await once(id, ({ status }) => status === "deferred");
  expect(delayed).toMatchObject({ last_event: "delivery_delayed", attempts: 1, delivered_at: null });
  expect(delayed.next_attempt_at).not.toBeNull();
  expect(delayed.delayed_at).not.toBeNull();
  expect(delayed.reason).toMatch(/^Not delivered to later\.example yet: 451 .*The next attempt is /);
  expect(delayed.events.at(-1)).toMatchObject({
    type: "delivery_delayed",
    detail: expect.stringMatching(/^451 /),
  });
  const email = await once(id, ({ status }) => status === "delivered");
  expect(email).toMatchObject({ attempts: 2, message_id: delayed.message_id, sent_at: delayed.sent_at });
  expect(email.delivery_attempts.map(({ phase, reply }) => [phase, reply?.slice(0, 3)])).toEqual([
    ["rcpt", "451"],
    ["dot", "250"],
  ]);
  expect(stage.sink.ledger.count(email.message_id.slice(1, -1))).toBe(1);
});

test("bounced by a 5xx, also after the content", async () => {
  for (const to of ["refuse-550@gone.example", "refuse-data-554@gone.example"]) {
    const email = await once(await send({ to }), ({ status }) => status === "bounced");
    expect(email).toMatchObject({ last_event: "bounced", attempts: 1, delivered_at: null });
    expect(email.bounced_at).not.toBeNull();
    expect(email.reason).toMatch(new RegExp(`^${to}: 55[04] `));
    expect(email.events.at(-1)).toMatchObject({
      type: "bounced",
      recipient: to,
      detail: expect.stringMatching(/^55[04] /),
    });
  }
});

test("each recipient has a fate of its own, and a retry goes only to those that are open", async () => {
  const id = await send({
    to: ["fine@a.example", "refuse-550@b.example"],
    cc: "once-451@c.example",
    bcc: "secret@d.example",
  });
  const email = await once(id, ({ status }) => status === "bounced");
  const fates = email.events.filter((event) => event.recipient).map((event) => [event.recipient, event.type]);
  expect(fates).toEqual([
    ["fine@a.example", "delivered"],
    ["refuse-550@b.example", "bounced"],
    ["once-451@c.example", "delivery_delayed"],
    ["secret@d.example", "delivered"],
    ["once-451@c.example", "delivered"],
  ]);
  const copies = stage.sink.ledger.mails.filter(({ messageId }) => `<${messageId}>` === email.message_id);
  expect(copies.map((copy) => copy.to)).toEqual([
    ["fine@a.example", "secret@d.example"],
    ["once-451@c.example"],
  ]);
  for (const { raw } of copies) expect(String(raw)).not.toContain("secret@d.example");
});

test("what arrives is what was sent, attachments and derived text included", async () => {
  const id = await send({
    to: "whole@example.net",
    subject: "Größe — ✓",
    html: "<h1>Bestellung</h1><p>.Punkt am Anfang</p>",
    headers: { "X-Order": "17" },
    reply_to: "answers@example.com",
    attachments: [
      { filename: "é.txt", content: Buffer.from("inhalt").toString("base64"), content_type: "text/plain" },
    ],
  });
  const [taken] = await stage.sink.ledger.received(1, ({ messageId }) => messageId.startsWith(id));
  const parsed = await PostalMime.parse(taken?.raw as Buffer);
  expect(parsed).toMatchObject({
    subject: "Größe — ✓",
    from: { name: "Acme", address: "orders@example.com" },
  });
  expect(parsed.html?.trim()).toBe("<h1>Bestellung</h1><p>.Punkt am Anfang</p>");
  expect(parsed.text).toContain(".Punkt am Anfang");
  expect(parsed.headers.find(({ key }) => key === "x-order")?.value).toBe("17");
  expect(parsed.replyTo).toEqual([{ name: "", address: "answers@example.com" }]);
  expect(parsed.attachments).toMatchObject([{ filename: "é.txt" }]);
  await settled(engine.sql, ws.id, 20_000);
});

test("scheduled mail goes when it is due, unless it is canceled", async () => {
  const soon = await send({ to: "soon@example.net", scheduled_at: "in 1 hour" });
  const never = await send({ to: "never@example.net", scheduled_at: "in 1 hour" });
  expect((await ws.client.get<Email>(`/emails/${soon}`)).body).toMatchObject({
    status: "scheduled",
    last_event: "scheduled",
  });
  expect((await ws.client.post(`/emails/${never}/cancel`)).status).toBe(200);
  await ws.client.call("PATCH", `/emails/${soon}`, { scheduled_at: "in 1 second" });
  await once(soon, ({ status }) => status === "delivered");
  expect((await ws.client.get<Email>(`/emails/${never}`)).body).toMatchObject({
    status: "canceled",
    last_event: "canceled",
  });
  expect((await ws.client.post(`/emails/${soon}/cancel`)).status).toBe(422);
});
