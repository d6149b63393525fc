/**
 * Who complains about a mail is heard: by a feedback loop of a provider, or by another system through the
 * API.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Mail } from "../rig/ledger.ts";
import { FEEDBACK, ReportLoop } from "../rig/loop.ts";
import { arf, dsn, handIn } from "../rig/reports.ts";
import { mail } from "../rig/workspace.ts";

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open();
});
afterAll(() => loop.close());

/** A mail that was delivered, and the fields of its header. */
async function delivered(to: string | string[]) {
  const { id, copies } = await loop.send(to);
  await loop.once(id, ({ status }) => status === "delivered");
  const [copy] = copies as [Mail, ...Mail[]];
  const header = String(copy.raw).split("\r\n\r\n", 1)[0]?.split("\r\n") ?? [];
  return { id, path: copy.from, header };
}

test("a feedback loop that shows our return path makes the mail complained, and its reader is left alone", async () => {
  const { client } = loop.ws;
  const audience = await client.post<{ id: string }>("/audiences", { name: "Readers" });
  const contacts = `/audiences/${audience.body.id}/contacts`;
  await client.post(contacts, { email: "cross@example.net" });
  const { id, path, header } = await delivered("cross@example.net");
  const before = await loop.counts();
  await handIn(loop.port, FEEDBACK, arf({ header: [`Return-Path: <${path}>`, ...header] }));
  const email = await loop.once(id, ({ status }) => status === "complained");
  expect(email.last_event).toBe("complained");
  expect(email.complained_at).not.toBeNull();
  expect(email.events.at(-1)).toMatchObject({ type: "complained", recipient: "cross@example.net" });
  const after = await loop.counts();
  expect(after.complained).toBe((before.complained ?? 0) + 1);
  expect((await client.get("/suppressions/cross@example.net")).body).toMatchObject({ reason: "complaint" });
  expect((await client.get(`${contacts}/cross@example.net`)).body).toMatchObject({ unsubscribed: true });
});

test("one that shows no return path is believed for our Message-ID and mark", async () => {
  const { id, header } = await delivered("alone@example.org");
  await handIn(loop.port, FEEDBACK, arf({ header }));
  const { events } = await loop.once(id, ({ status }) => status === "complained");
  expect(events.at(-1)).toMatchObject({ type: "complained", recipient: "alone@example.org" });
});

test("of several recipients only the one complains whose return path is shown", async () => {
  const { id, path, header } = await delivered(["one@example.net", "two@example.org"]);
  await handIn(loop.port, FEEDBACK, arf({ recipient: "two@example.org", header }));
  expect((await loop.results()).at(-1)).toBe("ignored: it does not say which recipient it is about");
  const shown = arf({ recipient: "two@example.org", header: [`Return-Path: <${path}>`, ...header] });
  await handIn(loop.port, FEEDBACK, shown);
  const { events } = await loop.once(id, ({ status }) => status === "complained");
  expect(events.filter(({ type }) => type === "complained").map(({ recipient }) => recipient)).toEqual([
    "one@example.net",
  ]);
});

test("a complaint comes after a bounce, and a bounce changes no complaint", async () => {
  const { id, path, header } = await delivered("both@example.net");
  await handIn(loop.port, path, dsn({ recipient: "both@example.net" }));
  await loop.once(id, ({ status }) => status === "bounced");
  await handIn(loop.port, path, arf({ header }));
  await loop.once(id, ({ status }) => status === "complained");
  await handIn(loop.port, path, dsn({ recipient: "both@example.net" }));
  expect((await loop.results()).at(-1)).toBe("ignored: complained stands");
  expect((await loop.show(id)).status).toBe("complained");
});

test("what is no complaint is none: mail that was taken out of the junk folder, failed signatures", async () => {
  const { id, path, header } = await delivered("fine@example.net");
  for (const type of ["not-spam", "auth-failure"])
    await handIn(loop.port, FEEDBACK, arf({ type, header: [`Return-Path: <${path}>`, ...header] }));
  expect((await loop.results()).slice(-2)).toEqual([
    "ignored: feedback of the type not-spam",
    "ignored: feedback of the type auth-failure",
  ]);
  expect((await loop.show(id)).status).toBe("delivered");
});

test("another system reports through the API, as often as it likes", async () => {
  const { id } = await delivered(["a@example.net", "b@example.net"]);
  const before = await loop.counts();
  const { message_id } = await loop.show(id);
  const at = new Date().toISOString();
  const items = [
    { email_id: id, recipient: "A@example.net", type: "bounce", category: "soft", detail: "452 4.2.2 full" },
    { message_id, recipient: "b@example.net", type: "complaint", at },
  ];
  for (let n = 0; n < 3; n++) {
    const { status, body } = await loop.ws.client.post("/feedback", items);
    expect([status, body]).toEqual([202, { object: "feedback", accepted: 2 }]);
  }
  const email = await loop.once(id, ({ status }) => status === "complained");
  await loop.results();
  expect((await loop.show(id)).events.filter(({ type }) => type === "bounced")).toMatchObject([
    { recipient: "a@example.net", detail: "452 4.2.2 full" },
  ]);
  expect(email.complained_at).toBe(at);
  const after = await loop.counts();
  expect(after).toEqual({
    ...before,
    soft: (before.soft ?? 0) + 1,
    complained: (before.complained ?? 0) + 1,
  });
});

test.each(["soft", "block"])("a mail told of as %s bounces hard afterwards, once", async (category) => {
  const address = `told-${category}@example.net`;
  const { id } = await delivered(address);
  const before = await loop.counts();
  const tell = (category: string) =>
    loop.ws.client.post("/feedback", [{ email_id: id, type: "bounce", category, detail: category }]);
  await tell(category);
  await loop.once(id, ({ status }) => status === "bounced");
  for (const told of ["hard", "hard", category]) await tell(told);
  expect((await loop.results()).slice(-3).sort()).toEqual([
    "bounced",
    "ignored: bounced stands",
    "ignored: bounced stands",
  ]);
  expect(await loop.counts()).toEqual({ ...before, hard: (before.hard ?? 0) + 1 });
  const { events } = await loop.show(id);
  expect(events.filter(({ type }) => type === "bounced").map(({ detail }) => detail)).toEqual([
    category,
    "hard",
  ]);
  const { body } = await loop.ws.client.get(`/suppressions/${address}`);
  expect(body).toMatchObject({ reason: "bounce", evidence: "hard" });
});

test("a report from a clock that is ahead counts as of now, and leaves the times of later ones right", async () => {
  const { id } = await delivered("ahead@example.net");
  const at = new Date(Date.now() + 86_400_000).toISOString();
  await loop.ws.client.post("/feedback", [{ email_id: id, type: "bounce", at }]);
  await loop.once(id, ({ status }) => status === "bounced");
  await loop.ws.client.post("/feedback", [{ email_id: id, type: "complaint" }]);
  const { bounced_at, complained_at } = await loop.once(id, ({ status }) => status === "complained");
  for (const time of [bounced_at, complained_at])
    expect(Date.parse(time ?? "")).toBeLessThanOrEqual(Date.now());
});

test("a report about mail that is still on its way waits for the outcome", async () => {
  const { body } = await loop.ws.client.post<{ id: string }>(
    "/emails",
    mail({ to: "early@example.net", scheduled_at: "in 1 minute" }),
  );
  await loop.ws.client.post("/feedback", [{ email_id: body.id, type: "bounce" }]);
  await loop.ws.client.call("PATCH", `/emails/${body.id}`, { scheduled_at: "in 1 second" });
  const email = await loop.once(body.id, ({ status }) => status === "bounced");
  expect(email.events.map(({ type }) => type)).toEqual(["scheduled", "sent", "delivered", "bounced"]);
});

test("what names no mail, no time or no type is refused with its place", async () => {
  const refusal = async (body: unknown) =>
    (await loop.ws.client.post<{ message: string }>("/feedback", body)).body.message;
  expect(await refusal([])).toContain("1 to 100");
  expect(await refusal([{ type: "bounce" }])).toContain("`[0].email_id`");
  expect(await refusal([{ email_id: "no", type: "bounce" }])).toBe(
    "The `[0].email_id` field must be a UUID.",
  );
  expect(await refusal([{ message_id: "<no@x.com>", type: "bounce" }])).toContain("`[0].message_id`");
  const email_id = "01234567-89ab-7def-8123-456789abcdef";
  expect(
    await refusal([
      { email_id, type: "bounce" },
      { email_id, type: "joy" },
    ]),
  ).toContain("`[1].type`");
  expect(await refusal([{ email_id, type: "bounce", at: "yesterday" }])).toContain("`[0].at`");
});
