import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { insertAudience } from "../../src/record/contacts/audiences.ts";
import { keysIn } from "../rig/wholeredis.ts";
import { mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
let other: TestApi;
beforeAll(async () => {
  [api, other] = await Promise.all([testApi(), testApi()]);
});
afterAll(() => Promise.all([api.stop(), other.stop()]));

const sending = { name: "n", permissions: ["emails:send" as const], audienceIds: null };

test("owners and admins manage keys, members do not", async () => {
  const ws = await api.workspace();
  for (const role of ["owner", "admin", "operator"] as const)
    expect(await api.keyring.createKey(ws.id, sending, role)).toHaveProperty("key");
  expect(await api.keyring.createKey(ws.id, sending, "member")).toMatchObject({ status: 403 });
  expect(await api.keyring.revokeKey(ws.keyId, "member")).toMatchObject({ status: 403 });
  expect((await ws.client.get("/emails")).status).toBe(200);
});

test("fifty active keys and no more, also when many are made at once", async () => {
  const ws = await api.workspace();
  const made = await Promise.all(
    Array.from({ length: 60 }, () => api.keyring.createKey(ws.id, sending, "owner")),
  );
  expect(made.filter((one) => "key" in one)).toHaveLength(49);
  expect(made.find((one) => "status" in one)).toMatchObject({ status: 422 });
  await api.keyring.revokeKey(ws.keyId, "owner");
  expect(await api.keyring.createKey(ws.id, sending, "owner")).toHaveProperty("key");
});

test("Free has one key, limited to nothing", async () => {
  const ws = await api.workspace("free");
  expect(await api.keyring.createKey(ws.id, sending, "owner")).toMatchObject({ status: 402 });
  await api.keyring.revokeKey(ws.keyId, "owner");
  const audienceId = newId(Date.now());
  await insertAudience(
    api.sql,
    { workspaceId: ws.id, id: audienceId, name: "a", doubleOptIn: false },
    new Date(),
  );
  expect(
    await api.keyring.createKey(ws.id, { ...sending, audienceIds: [audienceId] }, "owner"),
  ).toMatchObject({ status: 402 });
  expect(await api.keyring.createKey(ws.id, { ...sending, audienceIds: [] }, "owner")).toMatchObject({
    status: 422,
  });
  expect(await api.keyring.createKey(ws.id, sending, "owner")).toHaveProperty("key");
});

test("a revoked key fails with the next request, on every api", async () => {
  const ws = await api.workspace();
  const { id, client } = await ws.key(["emails:send"]);
  const elsewhere = () =>
    fetch(`${other.url}/api/v1/emails`, { headers: { authorization: `Bearer ${client.key}` } });
  expect((await client.get("/emails")).status).toBe(200);
  expect((await elsewhere()).status).toBe(200);
  await api.keyring.revokeKey(id, "owner");
  expect((await client.get<Refusal>("/emails")).body).toMatchObject({
    statusCode: 401,
    name: "invalid_api_key",
  });
  expect((await elsewhere()).status).toBe(401);
  await api.redis.del(`{${ws.handle}}:workspace`);
  expect((await elsewhere()).status).toBe(401);
});

test("a copy of a key that Redis kept too long cannot send: the commit knows better", async () => {
  const ws = await api.workspace();
  const { id, client } = await ws.key(["emails:send"]);
  await client.get("/emails");
  const keys = (await keysIn(api.redis, `{${ws.handle}}:*`)).filter((key) => !key.endsWith(":rates"));
  const old = await Promise.all(keys.map(async (key) => [key, await api.redis.dumpBuffer(key)] as const));
  await api.keyring.revokeKey(id, "owner");
  for (const [key, dump] of old) if (dump) await api.redis.restore(key, 0, dump, "REPLACE");
  const refused = await client.post<Refusal>("/emails", mail());
  expect([401, 503]).toContain(refused.status);
  const [row] = await api.sql`select count(*)::int from email where workspace_id = ${ws.id}`;
  expect(row?.count).toBe(0);
});

test("an e-mail is read with the key that sent it, or with full access", async () => {
  const ws = await api.workspace();
  const [mine, theirs] = [await ws.key(["emails:send"]), await ws.key(["emails:send"])];
  const { body } = await mine.client.post<{ id: string }>("/emails", mail());
  expect((await mine.client.get(`/emails/${body.id}`)).status).toBe(200);
  expect((await ws.client.get(`/emails/${body.id.toUpperCase()}`)).status).toBe(200);
  expect((await theirs.client.get<Refusal>(`/emails/${body.id}`)).body).toMatchObject({
    statusCode: 403,
    name: "restricted_api_key",
    message: "This API key lacks the `full` permission.",
  });
  expect((await theirs.client.get<{ data: unknown[] }>("/emails")).body.data).toEqual([]);
  expect((await mine.client.get<{ data: unknown[] }>("/emails")).body.data).toHaveLength(1);
  const stranger = await api.workspace();
  expect((await stranger.client.get<Refusal>(`/emails/${body.id}`)).body.name).toBe("not_found");
});
