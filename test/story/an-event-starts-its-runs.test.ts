/** POST /events: what is answered, which automations start, and how often a contact may enter. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Flows, type Shop, startFlows } from "../rig/flows.ts";
import { emptyRedis } from "../rig/wholeredis.ts";
import type { Refusal } from "../rig/workspace.ts";

const DAY_MS = 24 * 3_600_000;
let flows: Flows;

beforeAll(async () => {
  flows = await startFlows();
});
afterAll(async () => {
  await flows.stop();
  expect(flows.faults).toEqual([]);
});

const WAITING = { steps: [{ wait: "2d" }] };
const count = async (shop: Shop, id: string) => (await shop.runs(id)).length;

test("an event is accepted with its contact, whether or not anybody listens", async () => {
  const shop = await flows.shop();
  const contactId = await shop.contact("Ann@Example.net");
  const { status, body } = await shop.track("ann@example.NET", { event: "order.paid:v-1_x" });
  expect(status).toBe(202);
  expect(body).toEqual({
    object: "event",
    id: expect.stringMatching(/^evt_[0-9a-z]{26}$/),
    name: "order.paid:v-1_x",
    contact_id: contactId,
    accepted: true,
  });
  const properties = JSON.parse('{"__proto__":{"a":1},"constructor":2}') as object;
  expect((await shop.track("ann@example.net", { properties })).status).toBe(202);
  const [kept] = await flows.sql<{ text: string }[]>`
    select properties::text as text from event where workspace_id = ${shop.id} and properties is not null`;
  expect(kept?.text).toBe('{"__proto__":{"a":1},"constructor":2}');
});

test("a repeated /events/send is answered again when the contact was deleted or is found elsewhere", async () => {
  const shop = await flows.shop();
  const id = await shop.contact("gone@example.net");
  const event = { event: "order.paid", email: "gone@example.net" };
  const sent = (body: object = event) =>
    shop.client.post<Refusal>("/events/send", body, { "idempotency-key": "once" });
  const first = await sent();
  expect(first.status).toBe(202);
  await shop.client.call("DELETE", `/audiences/${shop.audienceId}/contacts/${id}`);
  expect(await sent()).toMatchObject({ status: 202, body: first.body });
  expect((await sent({ ...event, event: "other" })).status).toBe(404);
  const { body } = await shop.client.post<{ id: string }>("/audiences", { name: "Another" });
  await shop.client.post(`/audiences/${body.id}/contacts`, { email: event.email });
  expect(await sent()).toMatchObject({ status: 202, body: first.body });
});

test("what is refused, and with what", async () => {
  const shop = await flows.shop();
  await shop.contact("bo@example.net");
  const event = { audience_id: shop.audienceId, email: "bo@example.net", name: "signup" };
  const post = async (body: unknown) => {
    const answer = await shop.client.post<Refusal>("/events", body);
    return [answer.status, answer.body.name, answer.body.message];
  };
  expect(await post({ ...event, audience_id: undefined })).toEqual([
    422,
    "missing_required_field",
    "Missing `audience_id` field.",
  ]);
  expect(await post({ ...event, audience_id: "x" })).toEqual([
    422,
    "validation_error",
    "The `audience_id` field must be a UUID.",
  ]);
  expect((await post({ ...event, name: "a b" }))[0]).toBe(422);
  expect((await post({ ...event, name: "a".repeat(101) }))[0]).toBe(422);
  expect((await post({ ...event, name: "a".repeat(100) }))[0]).toBe(202);
  expect((await post({ ...event, email: "Bo <bo@example.net>" }))[0]).toBe(422);
  expect((await post({ ...event, properties: [] }))[0]).toBe(422);
  expect((await post({ ...event, properties: null }))[0]).toBe(202);
  expect((await post([event]))[0]).toBe(422);
  // 16,384 bytes, of which {"k":""} takes 8; a two-byte letter counts as two
  expect((await post({ ...event, properties: { k: "x".repeat(16_376) } }))[0]).toBe(202);
  expect((await post({ ...event, properties: { k: "x".repeat(16_377) } }))[0]).toBe(422);
  expect((await post({ ...event, properties: { k: "é".repeat(8_188) } }))[0]).toBe(202);
  expect((await post({ ...event, properties: { k: "é".repeat(8_189) } }))[0]).toBe(422);
  expect(await post({ ...event, email: "nobody@example.net" })).toEqual([
    404,
    "not_found",
    "There is no such audience, or no contact with this address in it. Add the contact first.",
  ]);
  await shop.client.call("DELETE", `/audiences/${shop.audienceId}/contacts/bo@example.net`);
  expect((await post(event))[0]).toBe(404);
});

test("free and essentials do not include events; a key sees only its audiences", async () => {
  for (const plan of ["free", "essentials"] as const) {
    const { client } = await flows.api.workspace(plan);
    const answer = await client.post<Refusal>("/events", {});
    expect([answer.status, answer.body.name]).toEqual([402, "plan_required"]);
  }
  const shop = await flows.shop();
  await shop.contact("cy@example.net");
  const event = { audience_id: shop.audienceId, email: "cy@example.net", name: "signup" };
  const other = await shop.client.post<{ id: string }>("/audiences", { name: "Other" });
  const elsewhere = await shop.key(["events:write"], [other.body.id]);
  const refused = await elsewhere.client.post<Refusal>("/events", event);
  const unknown = await elsewhere.client.post<Refusal>("/events", {
    ...event,
    audience_id: "01890000-0000-7000-8000-000000000001",
  });
  expect(refused.status).toBe(404);
  expect(unknown.body).toEqual(refused.body);
  const here = await shop.key(["events:write"], [shop.audienceId]);
  expect((await here.client.post("/events", event)).status).toBe(202);
  const sender = await shop.key(["emails:send"]);
  expect((await sender.client.post("/events", event)).status).toBe(403);
});

test("the same event fifty times at once with one key starts one run, also when Redis forgot", async () => {
  const shop = await flows.shop();
  const id = await shop.automate(WAITING);
  await shop.contact("di@example.net");
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => shop.track("di@example.net", { key: "order-1" })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
  await emptyRedis(flows.api.redis);
  expect((await shop.track("di@example.net", { key: "order-1" })).body).toEqual(answers[0]?.body);
  expect(await count(shop, id)).toBe(1);
  const other = await shop.track("di@example.net", { key: "order-1", properties: { other: true } });
  expect(other.status).toBe(409);
  expect(await count(shop, id)).toBe(1);
  flows.clock.advance(DAY_MS);
  expect((await shop.track("di@example.net", { key: "order-1" })).body.id).not.toBe(answers[0]?.body.id);
  expect(await count(shop, id)).toBe(2);
});

test("a 404 is not remembered", async () => {
  const shop = await flows.shop();
  expect((await shop.track("late@example.net", { key: "k" })).status).toBe(404);
  await shop.contact("late@example.net");
  expect((await shop.track("late@example.net", { key: "k" })).status).toBe(202);
});

test("every matching automation starts, the others do not", async () => {
  const shop = await flows.shop();
  const first = await shop.automate({ ...WAITING, name: "first" });
  const second = await shop.automate({ ...WAITING, name: "second" });
  const cased = await shop.automate({ ...WAITING, name: "cased", event: "Signup" });
  const filtered = await shop.automate({
    ...WAITING,
    name: "filtered",
    filters: [
      { field: "event.properties.total", gt: 10 },
      {
        or: [
          { field: "contact.tags", contains: "vip" },
          { field: "contact.properties.city", eq: "Rome" },
        ],
      },
    ],
  });
  await shop.contact("ed@example.net", { tags: ["vip"] });
  await shop.contact("flo@example.net", { properties: { city: "Oslo" } });
  await shop.track("ed@example.net", { properties: { total: 11 } });
  await shop.track("ed@example.net", { properties: { total: 10 } });
  await shop.track("flo@example.net", { properties: { total: 11 } });
  expect(await Promise.all([first, second, cased, filtered].map((id) => count(shop, id)))).toEqual([
    3, 3, 0, 1,
  ]);
});

test("entry: every event starts a run", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ ...WAITING, entry: "every" });
  await shop.contact("gil@example.net");
  await Promise.all(Array.from({ length: 20 }, () => shop.track("gil@example.net")));
  expect(await count(shop, id)).toBe(20);
});

test("entry: once for each contact, whatever comes at the same time", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ ...WAITING, entry: "once" });
  await shop.contact("hal@example.net");
  await shop.contact("ida@example.net");
  await Promise.all(
    Array.from({ length: 20 }, (_, n) => shop.track(n % 2 ? "hal@example.net" : "ida@example.net")),
  );
  flows.clock.advance(3 * DAY_MS);
  await flows.go();
  await shop.track("hal@example.net");
  expect(await count(shop, id)).toBe(2);
});

test("entry: one at a time, the next when the last has ended", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ ...WAITING, entry: "one_active" });
  await shop.contact("jo@example.net");
  for (let round = 1; round <= 3; round++) {
    await Promise.all(Array.from({ length: 10 }, () => shop.track("jo@example.net")));
    expect(await count(shop, id)).toBe(round);
    await flows.go();
    flows.clock.advance(2 * DAY_MS);
    await flows.go();
  }
});

test("entry: after a cooldown", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ ...WAITING, entry: { cooldown: "7d" } });
  await shop.contact("kim@example.net");
  await Promise.all(Array.from({ length: 10 }, () => shop.track("kim@example.net")));
  expect(await count(shop, id)).toBe(1);
  flows.clock.advance(7 * DAY_MS - 1);
  await shop.track("kim@example.net");
  expect(await count(shop, id)).toBe(1);
  flows.clock.advance(1);
  await Promise.all(Array.from({ length: 10 }, () => shop.track("kim@example.net")));
  expect(await count(shop, id)).toBe(2);
});

test("a change of the policy counts the entries that were made before", async () => {
  const shop = await flows.shop();
  const id = await shop.automate({ ...WAITING, entry: "every" });
  await shop.contact("lou@example.net");
  await shop.track("lou@example.net");
  await shop.automate({ ...WAITING, entry: "once" });
  await shop.track("lou@example.net");
  expect(await count(shop, id)).toBe(1);
});
