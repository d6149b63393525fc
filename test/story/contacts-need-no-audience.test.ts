/**
 * /contacts without an audience: the default one, or those that are named; found wherever the key may see.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

type Item = { id: string; email: string; audience_id: string; tags: string[]; first_name: string | null };
type List = { data: Item[]; has_more: boolean; next_cursor: string | null };
type Group = { id: string; name: string };

const audienceOf = async (name: string) =>
  (await ws.client.post<{ id: string }>("/audiences", { name })).body.id;
const added = async (body: object) => {
  const answer = await ws.client.post<{ object: string; id: string }>("/contacts", body);
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 201, body: { object: "contact" } });
  return answer.body.id;
};
let made = 0;
const address = () => `person-${++made}@example.net`;

test("a workspace begins with one audience, and contacts without one go there", async () => {
  const fresh = await api.workspace();
  const { data } = (await fresh.client.get<{ data: Group[] }>("/audiences")).body;
  expect(data).toEqual([expect.objectContaining({ name: "General" })]);
  const { body } = await fresh.client.post<{ id: string }>("/contacts", { email: "a@example.net" });
  const [general] = data as [Group];
  expect((await fresh.client.get(`/audiences/${general.id}/contacts/a@example.net`)).body).toMatchObject({
    id: body.id,
  });
  const again = await fresh.client.post<{ id: string }>("/contacts", { email: "A@example.net", tags: ["x"] });
  expect(again).toMatchObject({ status: 201, body: { id: body.id } });
});

test("when the default audience was deleted another takes its place", async () => {
  const fresh = await api.workspace();
  const [general] = (await fresh.client.get<{ data: Group[] }>("/audiences")).body.data as [Group];
  await fresh.client.call("DELETE", `/audiences/${general.id}`);
  const both = await Promise.all(
    ["a@example.net", "b@example.net"].map((email) => fresh.client.post("/contacts", { email })),
  );
  expect(both.map(({ status }) => status)).toEqual([201, 201]);
  const { data } = (await fresh.client.get<{ data: Group[] }>("/audiences")).body;
  expect(data).toHaveLength(1);
  expect(data[0]?.id).not.toBe(general.id);
});

describe("one contact", () => {
  test("is read, changed, tagged, archived and erased by id and by address", async () => {
    const email = address();
    const id = await added({ email, first_name: "Ann" });
    for (const who of [id, email]) {
      expect((await ws.client.get<Item>(`/contacts/${who}`)).body).toMatchObject({
        object: "contact",
        id,
        email,
      });
      expect((await ws.client.call("PATCH", `/contacts/${who}`, { first_name: "B" })).body).toEqual({
        object: "contact",
        id,
      });
      expect((await ws.client.post(`/contacts/${who}/tags`, { add: [who] })).status).toBe(200);
    }
    expect((await ws.client.get<Item>(`/contacts/${id}`)).body.tags).toEqual([id, email].sort());
    expect((await ws.client.call("DELETE", `/contacts/${email}`)).body).toEqual({
      object: "contact",
      contact: email,
      deleted: true,
    });
    expect((await ws.client.get(`/contacts/${id}`)).status).toBe(404);
    expect((await ws.client.call("DELETE", `/contacts/${id}`)).status).toBe(404);
    expect((await ws.client.call("DELETE", `/contacts/${id}?mode=erase`)).status).toBe(200);
    expect((await ws.client.call("DELETE", `/contacts/${id}?mode=erase`)).status).toBe(404);
  });

  test("is taken from the default audience first, then from the newest", async () => {
    const [older, newer] = [await audienceOf("older"), await audienceOf("newer")];
    const email = address();
    const [inNewer, inOlder] = [
      await added({ email, audience_id: newer }),
      await added({ email, segments: [{ id: older }] }),
    ];
    const found = async () => (await ws.client.get<Item>(`/contacts/${email}`)).body.id;
    expect(await found()).toBe(inNewer);
    const inDefault = await added({ email });
    expect(await found()).toBe(inDefault);
    await ws.client.call("DELETE", `/contacts/${inDefault}`);
    await ws.client.call("DELETE", `/contacts/${inNewer}`);
    expect(await found()).toBe(inOlder);
  });

  test("goes into several audiences at once, or into none", async () => {
    const [a, b] = [await audienceOf("a"), await audienceOf("b")];
    const email = address();
    const unknown = "01890000-0000-7000-8000-000000000000";
    const refused = await ws.client.post("/contacts", { email, segments: [{ id: a }, { id: unknown }] });
    expect(refused.status).toBe(404);
    expect((await ws.client.get(`/contacts/${email}`)).status).toBe(404);
    await added({ email, segments: [{ id: a }, { id: b }, { id: a }] });
    const { data } = (await ws.client.get<{ data: Group[] }>(`/contacts/${email}/segments`)).body;
    expect(data.map(({ id }) => id)).toEqual([b, a]);
  });

  test("is added to an audience and taken out of it", async () => {
    const segment = await audienceOf("segment");
    const id = await added({ email: address(), first_name: "Ann", tags: ["vip"] });
    const copy = await ws.client.post<{ id: string }>(`/contacts/${id}/segments/${segment}`);
    expect(copy.status).toBe(201);
    expect((await ws.client.get(`/audiences/${segment}/contacts/${copy.body.id}`)).body).toMatchObject({
      first_name: "Ann",
      tags: ["vip"],
    });
    const removed = await ws.client.call("DELETE", `/contacts/${id}/segments/${segment}`);
    expect(removed).toMatchObject({ status: 200, body: { id: copy.body.id, deleted: true } });
    expect((await ws.client.call("DELETE", `/contacts/${id}/segments/${segment}`)).status).toBe(404);
  });

  test.each([
    [{}, "missing_required_field"],
    [{ email: "a@example.net", segments: [{ id: "x" }] }, "validation_error"],
    [{ email: "a@example.net", segments: "x" }, "validation_error"],
    [{ email: "a@example.net", audience_id: 7 }, "validation_error"],
    [{ email: "a@example.net", topics: [{ id: "x", subscription: "opt_in" }] }, "validation_error"],
  ])("%j is refused: %s", async (body, name) => {
    expect((await ws.client.post<Refusal>("/contacts", body)).body).toMatchObject({ statusCode: 422, name });
  });
});

test("the list shows the contacts of every audience, page by page", async () => {
  const fresh = await api.workspace();
  const ids: string[] = [];
  const { body: other } = await fresh.client.post<{ id: string }>("/audiences", { name: "Other" });
  for (let n = 0; n < 7; n++) {
    const body = { email: `p${n}@example.net`, ...(n % 2 === 1 && { audience_id: other.id }) };
    ids.unshift((await fresh.client.post<{ id: string }>("/contacts", body)).body.id);
  }
  const seen: string[] = [];
  for (let query = "?limit=3"; query !== ""; ) {
    const { data, next_cursor } = (await fresh.client.get<List>(`/contacts${query}`)).body;
    seen.push(...data.map(({ id }) => id));
    query = next_cursor === null ? "" : `?limit=3&after=${next_cursor}`;
  }
  expect(seen).toEqual(ids);
  const back = (await fresh.client.get<List>(`/contacts?limit=2&before=${ids[3]}`)).body;
  expect(back.data.map(({ id }) => id)).toEqual(ids.slice(1, 3));
  await fresh.client.call("DELETE", `/audiences/${other.id}`);
  const left = (await fresh.client.get<List>("/contacts")).body.data;
  expect(left.map(({ email }) => email)).toEqual([
    "p6@example.net",
    "p4@example.net",
    "p2@example.net",
    "p0@example.net",
  ]);
});

test("a key that is limited to an audience sees only that one", async () => {
  const mine = await audienceOf("mine");
  const email = address();
  const visible = await added({ email: address(), audience_id: mine });
  const hidden = await added({ email });
  const { client } = await ws.key(["contacts:read", "contacts:write"], [mine]);
  const { data } = (await client.get<List>("/contacts")).body;
  expect(data.map(({ id }) => id)).toEqual([visible]);
  expect((await client.get(`/contacts/${visible}`)).status).toBe(200);
  for (const who of [hidden, email]) expect((await client.get(`/contacts/${who}`)).status).toBe(404);
  expect((await client.post("/contacts", { email })).status).toBe(404);
});

describe("filters", () => {
  let audience: string;
  let ids: Record<string, string>;
  beforeAll(async () => {
    audience = await audienceOf("filtered");
    ids = {};
    const people = {
      ann: { tags: ["vip", "new"] },
      bob: { tags: ["vip"], unsubscribed: true },
      cy: {},
      dee: { tags: ["vip"] },
      pat: { double_opt_in: true },
    };
    for (const [name, more] of Object.entries(people))
      ids[name] = await added({ email: `${name}+f@example.net`, audience_id: audience, ...more });
    await ws.client.call("DELETE", `/contacts/${ids.dee}`);
  });

  test.each([
    ["status=subscribed", ["cy", "ann"]],
    ["status=unsubscribed", ["bob"]],
    ["status=pending", ["pat"]],
    ["tag=vip", ["bob", "ann"]],
    ["tag=vip&status=subscribed", ["ann"]],
    ["tag=nobody", []],
    ["email=ANN%2Bf@example.net", ["ann"]],
    ["email=ann+f@example.net", ["ann"]],
    ["email=ann+f@example.net&tag=vip&status=subscribed", ["ann"]],
    ["email=bob%2Bf@example.net&status=subscribed", []],
    ["email=dee%2Bf@example.net", []],
    ["tag=vip&limit=1", ["bob"]],
  ])("%s finds %j", async (query, names) => {
    const wanted = names.map((name) => ids[name]);
    const one = (await ws.client.get<List>(`/audiences/${audience}/contacts?${query}`)).body;
    expect(one.data.map(({ id }) => id)).toEqual(wanted);
    const { client } = await ws.key(["contacts:read"], [audience]);
    const all = (await client.get<List>(`/contacts?${query}`)).body;
    expect(all.data.map(({ id }) => id)).toEqual(wanted);
  });

  test("an empty id names no audience, not the default one", async () => {
    const email = address();
    for (const audience_id of ["", " "])
      expect((await ws.client.post<Refusal>("/contacts", { email, audience_id })).body).toMatchObject({
        statusCode: 422,
        name: "validation_error",
        message: "The `audience_id` field must be a UUID.",
      });
    expect((await ws.client.get(`/contacts/${email}`)).status).toBe(404);
  });

  test("tags follow their contact", async () => {
    const tagged = async () =>
      (await ws.client.get<List>(`/contacts?tag=moving`)).body.data.map(({ id }) => id);
    const id = await added({ email: address(), tags: ["moving"] });
    expect(await tagged()).toEqual([id]);
    await ws.client.post(`/contacts/${id}/tags`, { remove: ["moving"] });
    expect(await tagged()).toEqual([]);
    await ws.client.post(`/contacts/${id}/tags`, { add: ["moving"] });
    await ws.client.call("DELETE", `/contacts/${id}`);
    expect(await tagged()).toEqual([]);
    const { email } = (await ws.client.get<Item>(`/contacts/${await added({ email: address() })}`)).body;
    await added({ email, tags: ["moving"] });
    expect(await tagged()).toHaveLength(1);
    await ws.client.call("DELETE", `/contacts/${email}?mode=erase`);
    expect(await tagged()).toEqual([]);
  });

  test("a tag of as many characters as one may have is found, whatever alphabet it is in", async () => {
    const tag = "\u{1f4e8}".repeat(100);
    const id = await added({ email: address(), tags: [tag] });
    for (const path of ["/contacts", `/audiences/${audience}/contacts`]) {
      const { status, body } = await ws.client.get<List>(`${path}?tag=${encodeURIComponent(tag)}`);
      expect(status, path).toBe(200);
      if (path === "/contacts") expect(body.data.map((one) => one.id)).toEqual([id]);
    }
    const tooLong = encodeURIComponent(`${tag}x`);
    expect((await ws.client.get<Refusal>(`/contacts?tag=${tooLong}`)).body.name).toBe("invalid_parameter");
  });

  test.each(["status=open", "status=", "tag=", "tag=%00", "email=nobody", `tag=${"x".repeat(101)}`])(
    "%s is refused",
    async (query) => {
      for (const path of ["/contacts", `/audiences/${audience}/contacts`])
        expect((await ws.client.get<Refusal>(`${path}?${query}`)).body).toMatchObject({
          statusCode: 422,
          name: "invalid_parameter",
        });
    },
  );
});
