/**
 * A receiver that takes a mail and reports afterwards that it could not deliver it is heard: the mail is
 * bounced.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ReportLoop } from "../rig/loop.ts";
import { dsn, handIn } from "../rig/reports.ts";
import { mail } from "../rig/workspace.ts";

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

test("a mail leaves with a return path of its own, and a report that comes to it bounces the mail", async () => {
  const { id, copies } = await loop.send("gone@example.net");
  const path = copies[0]?.from as string;
  expect(path).toMatch(/^[0-9a-z]{56}@bounces\.postrider\.test$/);
  await loop.once(id, ({ status }) => status === "delivered");
  const answers = await handIn(loop.port, path.toUpperCase(), dsn({ recipient: "gone@example.net" }));
  expect(answers).toEqual(["250 2.1.5 ok", "250 2.0.0 kept"]);
  const email = await loop.once(id, ({ status }) => status === "bounced");
  expect(email.last_event).toBe("bounced");
  expect(email.bounced_at).not.toBeNull();
  expect(email.events.at(-1)).toMatchObject({
    type: "bounced",
    recipient: "gone@example.net",
    detail: "550 5.1.1 no such user (reported by store.example.net)",
  });
  expect(await loop.counts()).toMatchObject({ attempted: 1, delivered: 1, hard: 1 });
  const { body } = await loop.ws.client.get("/suppressions/gone@example.net");
  expect(body).toMatchObject({ reason: "bounce", evidence: email.events.at(-1)?.detail });
  const again = await loop.ws.client.post<{ id: string }>("/emails", mail({ to: "gone@example.net" }));
  await loop.once(again.body.id, ({ status }) => status === "suppressed");
});

test("each recipient has a return path, and only the one whose report came is bounced", async () => {
  const { id, copies } = await loop.send(["first@example.net", "second@example.org", "third@example.net"]);
  expect(new Set(copies.map(({ from }) => from)).size).toBe(3);
  await loop.once(id, ({ status }) => status === "delivered");
  await handIn(loop.port, copies[1]?.from as string, dsn({ recipient: "second@example.org" }));
  const email = await loop.once(id, ({ status }) => status === "bounced");
  const bounced = email.events.filter(({ type }) => type === "bounced");
  expect(bounced.map(({ recipient }) => recipient)).toEqual(["second@example.org"]);
});

test("a delay is told once, and changes no outcome", async () => {
  const { id, copies } = await loop.send("slow@example.net");
  await loop.once(id, ({ status }) => status === "delivered");
  const delay = dsn({ recipient: "slow@example.net", action: "delayed", status: "4.4.1" });
  for (let n = 0; n < 3; n++) await handIn(loop.port, copies[0]?.from as string, delay);
  expect((await loop.results()).slice(-3).sort()).toEqual([
    "delayed",
    "ignored: it is known, or over",
    "ignored: it is known, or over",
  ]);
  const { status, events } = await loop.show(id);
  expect(status).toBe("delivered");
  expect(events.map(({ type }) => type)).toEqual(["queued", "sent", "delivered", "delivery_delayed"]);
});
