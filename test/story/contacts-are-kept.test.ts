/** Contacts: added, updated, listed, tagged, archived; and what an audience-restricted key sees of it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let workspace: TestWorkspace;
let client: Client;
let audience: string;
beforeAll(async () => {
  api = await testApi();
  workspace = await api.workspace();
  client = workspace.client;
  audience = await newAudience();
});
afterAll(() => api.stop());

type Contact = {
  id: string;
  email: string;
  first_name: string | null;
  last_name: string | null;
  unsubscribed: boolean;
  status: string;
  tags: string[];
  properties: Record<string, unknown>;
  created_at: string;
  updated_at: string;
};
type List<T> = { object: string; data: T[]; has_more: boolean; next_cursor: string | null };

test("a contact is added, and found by its address in any spelling and by its id", async () => {
  const added = await client.post<{ object: string; id: string }>(`/audiences/${audience}/contacts`, {
    email: "Anna.Müller@BÜCHER.example",
    first_name: "Anna",
    properties: { city: "Köln", visits: 3 },
    tags: ["vip", "beta"],
  });
  expect(added.status).toBe(201);
  expect(added.body).toEqual({ object: "contact", id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
  for (const who of ["anna.müller@bücher.example", "ANNA.MÜLLER@xn--bcher-kva.example", added.body.id]) {
    const { status, body } = await client.get<Contact>(
      `/audiences/${audience}/contacts/${encodeURIComponent(who)}`,
    );
    expect(status).toBe(200);
    expect(body).toEqual({
      object: "contact",
      id: added.body.id,
      email: "Anna.Müller@BÜCHER.example",
      first_name: "Anna",
      last_name: null,
      created_at: expect.stringMatching(/Z$/),
      updated_at: expect.stringMatching(/Z$/),
      unsubscribed: false,
      status: "subscribed",
      tags: ["beta", "vip"],
      properties: { city: "Köln", visits: 3 },
    });
  }
});

test("adding a known contact changes what is given, clears what is null, adds tags and merges properties", async () => {
  const path = `/audiences/${audience}/contacts`;
  const first = await client.post<{ id: string }>(path, {
    email: "b@x.example",
    first_name: "B",
    last_name: "C",
    properties: { one: 1, two: 2 },
    tags: ["a"],
  });
  const second = await client.post<{ id: string }>(path, {
    email: "B@X.example",
    last_name: null,
    properties: { two: null, three: { deep: [1] } },
    tags: ["b", "a"],
  });
  expect(second).toMatchObject({ status: 201, body: first.body });
  const { body } = await client.get<Contact>(`${path}/b@x.example`);
  expect(body).toMatchObject({ email: "b@x.example", first_name: "B", last_name: null, tags: ["a", "b"] });
  expect(body.properties).toEqual({ one: 1, three: { deep: [1] } });
});

test("null clears the tags, whether a contact is added again or changed", async () => {
  const path = `/audiences/${audience}/contacts`;
  const tagsOf = async () => (await client.get<Contact>(`${path}/untagged@x.example`)).body.tags;
  await client.post(path, { email: "untagged@x.example", tags: ["a", "b"] });
  await client.post(path, { email: "untagged@x.example", tags: null });
  expect(await tagsOf()).toEqual([]);
  await client.call("PATCH", `${path}/untagged@x.example`, { tags: ["c"] });
  await client.call("PATCH", `${path}/untagged@x.example`, { tags: null });
  expect(await tagsOf()).toEqual([]);
});

test("64 requests for one new contact make one, and nothing of them is lost", async () => {
  const path = `/audiences/${audience}/contacts`;
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, n) =>
      client.post<{ id: string }>(path, {
        email: "many@x.example",
        tags: [`t${n}`],
        properties: { [`p${n}`]: n },
      }),
    ),
  );
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
  const { body } = await client.get<Contact>(`${path}/many@x.example`);
  expect(body.tags).toHaveLength(64);
  expect(Object.keys(body.properties)).toHaveLength(64);
});

test("PATCH changes, an empty one does not, and unsubscribing is kept", async () => {
  const path = `/audiences/${audience}/contacts`;
  await client.post(path, { email: "p@x.example", first_name: "P" });
  const before = await client.get<Contact>(`${path}/p@x.example`);
  expect((await client.call("PATCH", `${path}/p@x.example`, {})).body).toEqual({
    object: "contact",
    id: before.body.id,
  });
  expect((await client.get<Contact>(`${path}/p@x.example`)).body).toEqual(before.body);
  await client.call("PATCH", `${path}/${before.body.id}`, { unsubscribed: true, first_name: null });
  expect((await client.get<Contact>(`${path}/p@x.example`)).body).toMatchObject({
    unsubscribed: true,
    status: "unsubscribed",
    first_name: null,
  });
});

test("tags are added and removed", async () => {
  const path = `/audiences/${audience}/contacts`;
  const { body } = await client.post<{ id: string }>(path, { email: "t@x.example", tags: ["x", "y"] });
  const tagged = await client.post(`${path}/t@x.example/tags`, {
    add: ["a", 'quo"te\\,{}'],
    remove: ["x", "none"],
  });
  expect(tagged).toMatchObject({
    status: 200,
    body: { object: "contact", id: body.id, tags: ["a", 'quo"te\\,{}', "y"] },
  });
  const both = await client.post<Refusal>(`${path}/t@x.example/tags`, { add: ["a"], remove: ["a"] });
  expect(both).toMatchObject({ status: 422, body: { name: "validation_error" } });
  expect((await client.post(`${path}/t@x.example/tags`, {})).status).toBe(422);
  expect((await client.post(`${path}/nobody@x.example/tags`, { add: ["a"] })).status).toBe(404);
});

test("an archived contact is gone, and comes back as it was when it is added again", async () => {
  const path = `/audiences/${audience}/contacts`;
  const { body } = await client.post<{ id: string }>(path, { email: "gone@x.example", tags: ["old"] });
  await client.call("PATCH", `${path}/gone@x.example`, { unsubscribed: true });
  const archived = await client.call("DELETE", `${path}/Gone@x.example`);
  expect(archived).toMatchObject({
    status: 200,
    body: { object: "contact", contact: "Gone@x.example", deleted: true },
  });
  for (const call of [
    client.get(`${path}/gone@x.example`),
    client.call("PATCH", `${path}/gone@x.example`, {}),
    client.call("DELETE", `${path}/${body.id}`),
    client.post(`${path}/gone@x.example/tags`, { add: ["a"] }),
  ])
    expect((await call).status).toBe(404);
  const list = await client.get<List<Contact>>(`${path}?limit=100`);
  expect(list.body.data.map(({ id }) => id)).not.toContain(body.id);
  await client.post(path, { email: "gone@x.example", first_name: "Back" });
  expect((await client.get<Contact>(`${path}/gone@x.example`)).body).toMatchObject({
    id: body.id,
    tags: ["old"],
    first_name: "Back",
    unsubscribed: true,
  });
});

test("a list goes from page to page, also while contacts are added, and back", async () => {
  const audience = await newAudience();
  const path = `/audiences/${audience}/contacts`;
  const ids: string[] = [];
  for (let n = 0; n < 25; n++)
    ids.unshift((await client.post<{ id: string }>(path, { email: `c${n}@x.example` })).body.id);
  const first = await client.get<List<Contact>>(`${path}?limit=10`);
  await client.post(path, { email: "late@x.example" });
  const second = await client.get<List<Contact>>(`${path}?limit=10&cursor=${first.body.next_cursor}`);
  const third = await client.get<List<Contact>>(`${path}?limit=10&after=${second.body.next_cursor}`);
  expect([first, second, third].flatMap(({ body }) => body.data.map(({ id }) => id))).toEqual(ids);
  expect(third.body).toMatchObject({ object: "list", has_more: false, next_cursor: null });
  const back = await client.get<List<Contact>>(`${path}?limit=10&before=${second.body.data[0]?.id}`);
  expect(back.body.data.map(({ id }) => id)).toEqual(ids.slice(0, 10));
});

test("limits hold for the whole contact, and a refused change changes nothing", async () => {
  const path = `/audiences/${audience}/contacts`;
  await client.post(path, {
    email: "big@x.example",
    properties: { a: "x".repeat(9_000) },
    first_name: "Big",
  });
  const tooMuch = await client.post<Refusal>(path, {
    email: "big@x.example",
    first_name: "Small",
    properties: { b: "x".repeat(9_000) },
  });
  expect(tooMuch).toMatchObject({ status: 422, body: { message: expect.stringContaining("`properties`") } });
  expect((await client.get<Contact>(`${path}/big@x.example`)).body.first_name).toBe("Big");
  const tags = Array.from({ length: 150 }, (_, n) => `tag${n}`);
  await client.post(path, { email: "big@x.example", tags });
  const tooMany = await client.post(path, { email: "big@x.example", tags: tags.map((name) => `${name}b`) });
  expect(tooMany.status).toBe(422);
});

test.each([
  [{}, "missing_required_field"],
  [{ email: null }, "validation_error"],
  [{ email: "not an address" }, "validation_error"],
  [{ email: "Name <a@x.example>" }, "validation_error"],
  [{ email: "<a@x.example>" }, "validation_error"],
  [{ email: "a@x.example", first_name: "x".repeat(201) }, "validation_error"],
  [{ email: "a@x.example", tags: [""] }, "validation_error"],
  [{ email: "a@x.example", properties: [] }, "validation_error"],
  [{ email: "a@x.example", unsubscribed: "yes" }, "validation_error"],
  [{ email: "a@x.example", double_opt_in: false }, "missing_required_field"],
  [{ email: "a@x.example", consent: { source: "form" } }, "missing_required_field"],
  [{ email: "a@x.example", consent: { source: "form", captured_at: "yesterday" } }, "validation_error"],
  [
    { email: "a@x.example", consent: { source: "form", captured_at: "0000-01-01T00:00:00Z" } },
    "validation_error",
  ],
  [
    { email: "a@x.example", consent: { source: "form", captured_at: "9999-12-31T23:59:59-01:00" } },
    "validation_error",
  ],
])("what is wrong is named: %j", async (body, name) => {
  const refused = await client.post<Refusal>(`/audiences/${audience}/contacts`, body);
  expect(refused).toMatchObject({ status: 422, body: { name } });
});

test("ids and addresses in the path are checked", async () => {
  expect((await client.get<Refusal>("/audiences/not-an-id")).body.name).toBe("invalid_parameter");
  expect((await client.get<Refusal>(`/audiences/${audience}/contacts/nonsense`)).body.name).toBe(
    "invalid_parameter",
  );
  const unknown = "01890000-0000-7000-8000-000000000000";
  expect(await client.get(`/audiences/${unknown}`)).toMatchObject({
    status: 404,
    body: { name: "not_found" },
  });
  expect((await client.get(`/audiences/${audience}/contacts/${unknown}`)).status).toBe(404);
});

test("a restricted key sees its own audiences, and every other is one that does not exist", async () => {
  const mine = await newAudience();
  const other = await newAudience();
  const { client: restricted } = await workspace.key(["contacts:read", "contacts:write"], [mine]);
  const seen = await restricted.get<List<{ id: string }>>("/audiences");
  expect(seen.body.data.map(({ id }) => id)).toEqual([mine]);
  const unknown = "01890000-0000-7000-8000-000000000000";
  for (const [method, path, body] of [
    ["GET", ""],
    ["GET", "/contacts"],
    ["POST", "/contacts", { email: "a@x.example" }],
    ["GET", "/contacts/a@x.example"],
    ["PATCH", "/contacts/a@x.example", {}],
    ["DELETE", "/contacts/a@x.example"],
    ["POST", "/contacts/a@x.example/tags", { add: ["a"] }],
  ] as const) {
    const hidden = await restricted.call(method, `/audiences/${other}${path}`, body);
    const missing = await restricted.call(method, `/audiences/${unknown}${path}`, body);
    expect(hidden.status).toBe(404);
    expect(hidden.body).toEqual(missing.body);
  }
  expect((await restricted.post(`/audiences/${mine}/contacts`, { email: "a@x.example" })).status).toBe(201);
});

test("the audience preset adds and changes, and sees nothing that is stored", async () => {
  const { client: writer } = await workspace.key(["contacts:write"], [audience]);
  const path = `/audiences/${audience}/contacts`;
  const added = await writer.post(path, { email: "w@x.example", tags: ["a"] });
  expect(await writer.post(path, { email: "w@x.example" })).toMatchObject({ status: 201, body: added.body });
  const tagged = await writer.post<object>(`${path}/w@x.example/tags`, { add: ["b"] });
  expect(Object.keys(tagged.body)).toEqual(["object", "id"]);
  expect(await writer.get(path)).toMatchObject({
    status: 403,
    body: { message: "This API key lacks the `contacts:read` permission." },
  });
  expect((await writer.get(`${path}/w@x.example`)).status).toBe(403);
  expect(await writer.call("DELETE", `${path}/w@x.example?mode=erase`)).toMatchObject({
    status: 403,
    body: { message: "This API key lacks the `full` permission." },
  });
  const skipping = await writer.post(path, { email: 1, double_opt_in: false });
  expect(skipping).toMatchObject({
    status: 403,
    body: { message: "This API key lacks the `full` permission." },
  });
});

test("an audience by either name, and deleted", async () => {
  const made = await client.post<{ id: string }>("/segments", {
    name: "By another name",
    double_opt_in: true,
  });
  expect(made).toMatchObject({ status: 201, body: { object: "segment", name: "By another name" } });
  expect((await client.get(`/audiences/${made.body.id}`)).body).toEqual({
    object: "audience",
    id: made.body.id,
    name: "By another name",
    created_at: expect.any(String),
    double_opt_in: true,
  });
  expect((await client.get(`/segments/${made.body.id}/contacts`)).status).toBe(200);
  const gone = await client.call("DELETE", `/segments/${made.body.id}`);
  expect(gone.body).toEqual({ object: "segment", id: made.body.id, deleted: true });
  expect((await client.get(`/audiences/${made.body.id}`)).status).toBe(404);
  expect((await client.post(`/audiences/${made.body.id}/contacts`, { email: "a@x.example" })).status).toBe(
    404,
  );
});

async function newAudience(): Promise<string> {
  const { body } = await client.post<{ id: string }>("/audiences", { name: "People" });
  return body.id;
}
