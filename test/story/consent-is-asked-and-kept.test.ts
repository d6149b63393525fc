/**
 * Double opt-in, consent, unsubscribing by link: nobody is subscribed against their word, and what they said
 * is kept.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { addressHasher, Links } from "../../src/audience/links.ts";
import { listConsents } from "../../src/record/contacts/contacts.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import { MovableClock } from "../rig/clock.ts";
import { eventually } from "../rig/eventually.ts";
import { type Client, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
let api: TestApi;
let clock: MovableClock;
let workspace: TestWorkspace;
let client: Client;
let audience: string;
beforeAll(async () => {
  clock = new MovableClock(Date.now());
  api = await testApi({ clock });
});
afterAll(() => api.stop());
beforeEach(async () => {
  // the clock has moved past the days that were made ahead
  await makePartitions(api.sql, clock.now());
  workspace = await api.workspace();
  client = workspace.client;
  audience = await newAudience(true);
});

type Contact = { id: string; status: string; unsubscribed: boolean };
type Mail = { id: string; to: string[]; from: string; subject: string; html: string; text: string };

test("a new contact is pending, gets one mail, and the button on its page subscribes", async () => {
  await add("new@x.example");
  expect((await contact("new@x.example")).status).toBe("pending");
  const [mail] = await mailsTo("new@x.example", 1);
  expect(mail).toMatchObject({
    from: "no-reply@mail.example.org",
    subject: "Please confirm: mail from Readers & friends",
  });
  expect(mail?.html).toContain("Readers &#38; friends");
  const link = linkIn(mail as Mail);

  const shown = await fetch(link);
  expect(shown.headers.get("content-type")).toContain("text/html");
  expect(await said(shown)).toBe(
    "Confirm your subscription? Do you want to receive these e-mails? Nothing changes until you press the button. Confirm",
  );
  expect((await contact("new@x.example")).status).toBe("pending");

  const confirmed = await fetch(link, { method: "POST", headers: { "user-agent": "Browser/1.0" } });
  expect(confirmed.status).toBe(200);
  expect(await said(confirmed)).toBe("Thank you Your subscription is confirmed.");
  expect((await contact("new@x.example")).status).toBe("subscribed");
  const again = await fetch(link, { method: "POST" });
  expect(again.status).toBe(200);
  expect(await said(again)).toBe("Thank you Your subscription is confirmed.");
  expect(await consents("new@x.example")).toMatchObject([
    { kind: "confirmed", source: "confirmation", ipAddress: "127.0.0.1", userAgent: "Browser/1.0" },
  ]);

  await client.call("PATCH", `/audiences/${audience}/contacts/new@x.example`, { unsubscribed: true });
  const after = await fetch(link, { method: "POST" });
  expect(after.status).toBe(410);
  expect(await said(after)).toContain("This link no longer works");
  expect((await contact("new@x.example")).status).toBe("unsubscribed");
});

test("the link of somebody who complained opens nothing any more", async () => {
  await add("cross@x.example");
  const [mail] = await mailsTo("cross@x.example", 1);
  await client.post("/suppressions", { email: "cross@x.example", reason: "complaint" });
  expect((await fetch(linkIn(mail as Mail), { method: "POST" })).status).toBe(410);
  expect((await contact("cross@x.example")).status).toBe("unsubscribed");
});

test("at most one mail in 24 hours, and three in all until one is answered", async () => {
  await add("again@x.example");
  await mailsTo("again@x.example", 1);
  for (let hour = 0; hour < 5; hour++) {
    clock.advance(4 * 3_600_000);
    await add("again@x.example");
  }
  await mailsTo("again@x.example", 1);
  for (let day = 0; day < 3; day++) {
    clock.advance(DAY_MS);
    await add("again@x.example");
    await mailsTo("again@x.example", Math.min(3, day + 2));
  }
  const [oldest, , newest] = await mailsTo("again@x.example", 3);
  expect((await fetch(linkIn(oldest as Mail), { method: "POST" })).status).toBe(200);
  expect((await fetch(linkIn(newest as Mail), { method: "POST" })).status).toBe(410);
});

test("a link is good for seven days", async () => {
  await add("late@x.example");
  const [mail] = await mailsTo("late@x.example", 1);
  clock.advance(7 * DAY_MS + 1_000);
  expect((await fetch(linkIn(mail as Mail), { method: "POST" })).status).toBe(410);
  expect((await contact("late@x.example")).status).toBe("pending");
});

test("unsubscribed:false subscribes nobody who is pending or unsubscribed: they are asked", async () => {
  await add("no@x.example");
  const [first] = await mailsTo("no@x.example", 1);
  await client.call("PATCH", `/audiences/${audience}/contacts/no@x.example`, { unsubscribed: true });
  expect((await fetch(linkIn(first as Mail), { method: "POST" })).status).toBe(410);
  clock.advance(DAY_MS);
  await add("no@x.example", { unsubscribed: false });
  expect((await contact("no@x.example")).status).toBe("unsubscribed");
  const [second] = await mailsTo("no@x.example", 2);
  await fetch(linkIn(second as Mail), { method: "POST" });
  expect((await contact("no@x.example")).status).toBe("subscribed");
  expect((await consents("no@x.example")).map(({ kind }) => kind)).toEqual(["withdrawn", "confirmed"]);
});

test("one who is new and unsubscribed leaves a record of it", async () => {
  await add("out-at-once@x.example", { unsubscribed: true });
  expect((await contact("out-at-once@x.example")).status).toBe("unsubscribed");
  expect(await consents("out-at-once@x.example")).toMatchObject([
    { kind: "withdrawn", source: "api", keyId: workspace.keyId },
  ]);
});

test("a consent record stands in for the confirmation, with the full permission", async () => {
  const consent = {
    source: "paper form",
    captured_at: "2026-01-05T10:00:00+01:00",
    ip_address: "192.0.2.7",
    user_agent: "Pen",
    text: "Yes, write to me.",
    text_version: "2",
  };
  await add("paper@x.example", { double_opt_in: false, consent });
  expect((await contact("paper@x.example")).status).toBe("subscribed");
  expect(await consents("paper@x.example")).toMatchObject([
    {
      kind: "given",
      source: "paper form",
      capturedAt: new Date("2026-01-05T09:00:00Z"),
      ipAddress: "192.0.2.7",
      userAgent: "Pen",
      wording: "Yes, write to me.",
      textVersion: "2",
      keyId: workspace.keyId,
    },
  ]);
  expect(await mailsTo("paper@x.example", 0)).toEqual([]);
});

test("a consent record with an address that is none is refused", async () => {
  const consent = { source: "form", captured_at: "2026-01-05T10:00:00Z", ip_address: "192.0.2.700" };
  expect(await add("odd@x.example", { double_opt_in: false, consent })).toMatchObject({
    status: 422,
    body: { message: "The `consent.ip_address` field must be an IPv4 or IPv6 address." },
  });
});

test("double_opt_in:true asks in any audience", async () => {
  audience = await newAudience(false);
  await add("plain@x.example");
  await add("asked@x.example", { double_opt_in: true });
  expect((await contact("plain@x.example")).status).toBe("subscribed");
  expect((await contact("asked@x.example")).status).toBe("pending");
  await mailsTo("asked@x.example", 1);
});

test("the unsubscribe link acts on POST only, for ever, and also for one who is archived", async () => {
  audience = await newAudience(false);
  const { body } = await add("out@x.example");
  const links = new Links("a secret of the tests, long enough for any use", api.url);
  const url = links.unsubscribeUrl({ workspaceId: workspace.id, audienceId: audience, contactId: body.id });
  clock.advance(400 * DAY_MS);
  const shown = await fetch(url);
  expect(await said(shown)).toBe(
    "Unsubscribe? Do you want to stop receiving these e-mails? Nothing changes until you press the button. Unsubscribe",
  );
  expect((await contact("out@x.example")).unsubscribed).toBe(false);
  await client.call("DELETE", `/audiences/${audience}/contacts/out@x.example`);
  const done = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: "List-Unsubscribe=One-Click",
  });
  expect(done.status).toBe(200);
  expect(await said(done)).toBe("You are unsubscribed You will not receive these e-mails any more.");
  await add("out@x.example");
  expect(await contact("out@x.example")).toMatchObject({ id: body.id, unsubscribed: true });
  expect((await fetch(`${url.slice(0, -2)}AA`)).status).toBe(404);
  clock.advance(-400 * DAY_MS);
});

test("an unsubscribe link means its address, also when the contact was erased and added again", async () => {
  audience = await newAudience(false);
  const { body } = await add("back@x.example");
  const links = new Links("a secret of the tests, long enough for any use", api.url);
  const target = { workspaceId: workspace.id, audienceId: audience, contactId: body.id };
  const url = links.unsubscribeUrl({ ...target, identity: "back@x.example" });
  const sealed = new URL(url).searchParams.get("to") as string;
  expect(Buffer.from(sealed, "base64url").toString("latin1")).not.toContain("back");
  const erase = () => client.call("DELETE", `/audiences/${audience}/contacts/back@x.example?mode=erase`);
  expect((await erase()).status).toBe(200);
  await add("back@x.example");
  const damaged = `${url.slice(0, -3)}AAA`;
  for (const [link, unsubscribed] of [
    [damaged, false],
    [url, true],
  ] as const) {
    expect((await fetch(link, { method: "POST" })).status).toBe(200);
    expect((await contact("back@x.example")).unsubscribed).toBe(unsubscribed);
  }
});

test("who unsubscribes after their contact was erased is unsubscribed when they are added again", async () => {
  audience = await newAudience(false);
  const { body } = await add("later@x.example");
  const links = new Links("a secret of the tests, long enough for any use", api.url);
  const target = { workspaceId: workspace.id, audienceId: audience, contactId: body.id };
  const url = links.unsubscribeUrl({ ...target, identity: "later@x.example" });
  await client.call("DELETE", `/audiences/${audience}/contacts/later@x.example?mode=erase`);
  for (let n = 0; n < 2; n++) expect((await fetch(url, { method: "POST" })).status).toBe(200);
  await add("later@x.example");
  expect((await contact("later@x.example")).unsubscribed).toBe(true);
});

test("who was unsubscribed and erased stays unsubscribed, though only a keyed hash is kept", async () => {
  audience = await newAudience(false);
  const { body } = await add("never@x.example", { unsubscribed: true });
  expect(
    (await client.call("DELETE", `/audiences/${audience}/contacts/never@x.example?mode=erase`)).status,
  ).toBe(200);
  const again = await add("Never@X.example");
  expect(again.body.id).not.toBe(body.id);
  expect((await contact("never@x.example")).unsubscribed).toBe(true);
  const hash = addressHasher("a secret of the tests, long enough for any use")("never@x.example");
  expect(await api.sql`select 1 from suppression where address_hash = ${hash}`).toHaveLength(1);
});

test("a consent record of somebody erased who had unsubscribed takes back nothing unless it is said", async () => {
  audience = await newAudience(false);
  const skipping = { double_opt_in: false, consent: { source: "list", captured_at: "2026-01-01T00:00:00Z" } };
  await add("listed@x.example", { unsubscribed: true });
  await client.call("DELETE", `/audiences/${audience}/contacts/listed@x.example?mode=erase`);
  await add("listed@x.example", skipping);
  expect((await contact("listed@x.example")).unsubscribed).toBe(true);
  await add("listed@x.example", { ...skipping, unsubscribed: false });
  expect((await contact("listed@x.example")).unsubscribed).toBe(false);
});

async function newAudience(doubleOptIn: boolean): Promise<string> {
  const body = { name: "Readers & friends", double_opt_in: doubleOptIn };
  return (await client.post<{ id: string }>("/audiences", body)).body.id;
}

function add(email: string, more: object = {}) {
  return client.post<{ id: string }>(`/audiences/${audience}/contacts`, { email, ...more });
}

async function contact(email: string): Promise<Contact> {
  return (await client.get<Contact>(`/audiences/${audience}/contacts/${email}`)).body;
}

async function consents(email: string) {
  return listConsents(api.sql, workspace.id, (await contact(email)).id);
}

/** Newest first; waits until there are so many. */
async function mailsTo(address: string, count: number): Promise<Mail[]> {
  return eventually(async () => {
    const { body } = await client.get<{ data: Mail[] }>("/emails?limit=100");
    const mails = body.data.filter(({ to }) => to.includes(address));
    expect(mails).toHaveLength(count);
    return Promise.all(mails.map(async ({ id }) => (await client.get<Mail>(`/emails/${id}`)).body));
  });
}

/** The words that somebody reads on a page: heading, text, button. */
async function said(page: Response): Promise<string> {
  const body = (await page.text()).replace(/^.*<body>/s, "");
  return body
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();
}

function linkIn({ text }: Mail): string {
  const link = /https:\/\/mail\.example\.org(\/confirm\/\S+)/.exec(text);
  return api.url + (link?.[1] as string);
}
