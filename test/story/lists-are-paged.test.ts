import { afterAll, beforeAll, expect, test } from "vitest";
import type { Route } from "../../src/api/routes.ts";
import { floorId } from "../../src/ids.ts";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
let ids: string[];
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
  ids = await send(45);
});
afterAll(() => api.stop());

const HELD_BY_EMAILS = ["status", "to", "subject", "tag", "api_key_id", "stream", "since", "until"];

type List = { object: "list"; data: { id: string }[]; has_more: boolean; next_cursor: string | null };

type Fields = { properties?: Record<string, unknown> };

/** Of a route that answers with a list: what its items have. */
function fieldsOfItems({ answer }: Route): string[] {
  const list = answer as { properties?: { data?: { items?: Fields } } } | undefined;
  return Object.keys(list?.properties?.data?.items?.properties ?? {});
}

/** Newest first, as lists show them. */
async function send(count: number): Promise<string[]> {
  const { body } = await ws.client.post<{ data: { id: string }[] }>(
    "/emails/batch",
    Array(count).fill(mail()),
  );
  return body.data.map(({ id }) => id).reverse();
}

async function page(query: string): Promise<List & { ids: string[] }> {
  const { status, body } = await ws.client.get<List>(`/emails${query}`);
  expect(status, query).toBe(200);
  return { ...body, ids: body.data.map(({ id }) => id) };
}

test("newest first, twenty unless asked otherwise", async () => {
  const first = await page("");
  expect(first).toMatchObject({
    object: "list",
    has_more: true,
    ids: ids.slice(0, 20),
    next_cursor: ids[19],
  });
  expect((await page("?limit=1")).ids).toEqual([ids[0]]);
  const all = await page("?limit=100");
  expect(all).toMatchObject({ ids, has_more: false, next_cursor: null });
  // a page that ends with the last item says so
  expect(await page("?limit=45")).toMatchObject({ ids, has_more: false, next_cursor: null });
  expect(await page("?limit=44")).toMatchObject({ has_more: true, next_cursor: ids[43] });
});

test.each(["cursor", "after"])("`%s` walks through all of it, each item once", async (name) => {
  const seen: string[] = [];
  let query = "?limit=7";
  for (;;) {
    const { ids: some, has_more, next_cursor } = await page(query);
    seen.push(...some);
    if (!has_more) break;
    query = `?limit=7&${name}=${next_cursor?.toUpperCase()}`;
  }
  expect(seen).toEqual(ids);
});

test("`before` pages back, newest first within the page", async () => {
  expect(await page(`?limit=5&before=${ids[20]}`)).toMatchObject({ ids: ids.slice(15, 20), has_more: true });
  expect(await page(`?limit=5&before=${ids[3]}`)).toMatchObject({ ids: ids.slice(0, 3), has_more: false });
  expect(await page(`?limit=5&before=${ids[0]}`)).toMatchObject({
    ids: [],
    has_more: false,
    next_cursor: null,
  });
});

test("a position that a list does not know is refused: the same page would come for ever", async () => {
  const { body: webhook } = await ws.client.post<{ id: string }>("/webhooks", {
    endpoint: "https://example.com/",
  });
  const asked = [
    "/events/log?before=1",
    "/events/log?cursor=1",
    `/webhooks/${webhook.id}/events?before=${ids[0]}`,
  ];
  for (const path of asked)
    expect((await ws.client.get<Refusal>(path)).body, path).toMatchObject({
      statusCode: 422,
      name: "invalid_parameter",
      message: expect.stringContaining("is not supported by this list"),
    });
});

test("a page stands still while mail is accepted", async () => {
  const fresh = await api.workspace();
  const old = ws;
  ws = fresh;
  try {
    const before = await send(30);
    const seen: string[] = [];
    let query = "?limit=4";
    for (;;) {
      const { ids: some, has_more, next_cursor } = await page(query);
      seen.push(...some);
      if (!has_more) break;
      query = `?limit=4&cursor=${next_cursor}`;
      await send(3);
    }
    expect(seen).toEqual(before);
  } finally {
    ws = old;
  }
});

test("a cursor is a position: its item may be gone, or never have been", async () => {
  expect((await page(`?limit=3&cursor=${floorId(Date.now() + 60_000)}`)).ids).toEqual(ids.slice(0, 3));
  expect((await page(`?cursor=${floorId(Date.now() - 86_400_000)}`)).ids).toEqual([]);
  expect((await page(`?before=${floorId(Date.now() + 60_000)}`)).ids).toEqual([]);
});

test("at most one position, and only ids", async () => {
  for (const query of [
    `?cursor=${ids[0]}&after=${ids[0]}`,
    `?after=${ids[0]}&before=${ids[0]}`,
    "?cursor=abc",
    "?before=",
    "?after=1' or '1'='1",
    `?cursor=${ids[0]}&cursor=${ids[1]}`,
    "?limit=2&limit=3",
    "?status=bounced&status=delivered",
    ...["0", "101", "1.5", "-1", "", "abc", "1e1", "0x10", " 5", "999999999999"].map(
      (limit) => `?limit=${encodeURIComponent(limit)}`,
    ),
  ]) {
    const { body } = await ws.client.get<Refusal>(`/emails${query}`);
    expect(body, query).toMatchObject({ statusCode: 422, name: "invalid_parameter" });
  }
  expect((await page("?limit=2&nonsense=1")).ids).toHaveLength(2);
});

test("no list ignores a filter: that would answer with everything", async () => {
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "Readers" });
  const ofContacts = [
    "/contacts",
    ...["audiences", "segments"].map((name) => `/${name}/${audience.id}/contacts`),
  ];
  const { body: webhook } = await ws.client.post<{ id: string }>("/webhooks", {
    endpoint: "https://hooks.example.net/",
    events: ["email.sent"],
  });
  const ofEvents = ["/events/log", `/webhooks/${webhook.id}/events`, `/webhooks/${webhook.id}/attempts`];
  const lists = ["/emails", "/audiences", "/segments", "/templates", ...ofContacts, ...ofEvents];
  const filters = {
    ...{ status: "bounced", to: "a@x.com", subject: "Hi", tag: "a:b", api_key_id: ids[0], stream: "bulk" },
    ...{
      since: "2026-01-01T00:00:00Z",
      until: "",
      email: "a@x.com",
      last_event: "sent",
      unsubscribed: "true",
    },
    ...{ Status: "bounced", "status[]": "bounced", "filter[status]": "bounced", "created_at[gte]": "2026" },
    ...{ q: "a", search: "a", state: "bounced", "status.in": "bounced", apiKeyId: "x", "api-key-id": "x" },
  };
  for (const list of lists) {
    for (const [name, value] of Object.entries(filters)) {
      if (list === "/emails" && HELD_BY_EMAILS.includes(name)) continue;
      if (ofContacts.includes(list) && ["status", "tag", "email"].includes(name)) continue;
      const query = new URLSearchParams({ limit: "2", [name]: String(value) });
      const { body } = await ws.client.get<Refusal>(`${list}?${query}`);
      const message = `The \`${name}\` parameter is not supported by this list. Remove it and filter the items you receive.`;
      expect(body, `${list}?${query}`).toEqual({ statusCode: 422, name: "invalid_parameter", message });
    }
    const others = "?limit=2&nonsense=1&utm_source=docs&constructor=1&__proto__=1&_=1234";
    expect((await ws.client.get(`${list}${others}`)).status, list).toBe(200);
  }
});

test("a field of the items is no parameter that a list ignores", async () => {
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "Fields" });
  const { body: webhook } = await ws.client.post<{ id: string }>("/webhooks", {
    endpoint: "https://hooks.example.net/",
  });
  await ws.client.post("/contacts", { email: "fields@example.net" });
  const automation = await ws.client.post<{ id: string }>("/automations", {
    ...{ name: "Fields", audience_id: audience.id, event: "fields", entry: "every" },
    steps: [{ tag: { add: ["seen"] } }],
  });
  const params: Record<string, string> = {
    ...{ audiences: audience.id, segments: audience.id, webhooks: webhook.id, emails: ids[0] as string },
    ...{ contacts: "fields@example.net", automations: automation.body.id, events: `${ids[0]}_1` },
  };
  let asked = 0;
  for (const route of api.routes) {
    const fields = fieldsOfItems(route);
    const known = (route.query ?? []).flatMap(({ name, alias = name }) => [name, alias]);
    if (!known.includes("limit")) continue;
    const path = route.path.replace("/api/v1", "").replace(/([a-z]+)\/\{[^}]+\}/g, (_, kind: string) => {
      return `${kind}/${params[kind]}`;
    });
    expect((await ws.client.get(path)).status, path).toBe(200);
    for (const field of fields.filter((one) => !known.includes(one))) {
      const { body } = await ws.client.get<Refusal>(`${path}?${field}=a`);
      expect(body, `${path}?${field}=a`).toMatchObject({
        statusCode: 422,
        name: "invalid_parameter",
        message: expect.stringContaining("is not supported by this list"),
      });
      asked++;
    }
  }
  expect(asked).toBeGreaterThan(100);
});

test("of two names of a filter one is given", async () => {
  const { body } = await ws.client.get<Refusal>("/suppressions?reason=bounce&origin=complaint");
  expect(body).toMatchObject({
    statusCode: 422,
    name: "invalid_parameter",
    message: "Only one of `reason` and `origin` may be given.",
  });
});

test("a key without `full` pages through its own only", async () => {
  const { client } = await ws.key(["emails:send"]);
  for (let n = 0; n < 3; n++) await client.post("/emails", mail());
  const { body } = await client.get<List>("/emails?limit=2");
  expect(body).toMatchObject({ has_more: true });
  const rest = await client.get<List>(`/emails?limit=2&cursor=${body.next_cursor}`);
  expect(rest.body).toMatchObject({ has_more: false });
  expect(rest.body.data).toHaveLength(1);
});
