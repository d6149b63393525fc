import { afterAll, beforeAll, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const ID = "01890000-0000-7000-8000-000000000000";

test.each([
  ["POST", "/broadcasts"],
  ["GET", `/broadcasts/${ID}/recipients?type=opened`],
  ["GET", "/topics"],
  ["PATCH", `/topics/${ID}`],
  ["PATCH", "/contacts/a@example.net/topics"],
  ["GET", "/inboxes"],
  ["GET", "/inboxes/a%40example.net/threads"],
  ["GET", "/emails/receiving"],
  ["GET", `/emails/receiving/${ID}/attachments/${ID}`],
  ["DELETE", `/oauth/grants/${ID}`],
])("%s %s is not part of this engine, and the answer says so", async (method, path) => {
  const { status, body } = await ws.client.call<Refusal>(method, path, method === "GET" ? undefined : {});
  expect(status).toBe(404);
  expect(body).toMatchObject({
    name: "not_found",
    message: expect.stringMatching(/ not part of this engine\. [A-Z]/),
  });
});

test.each([
  ["GET", "/api-keys"],
  ["POST", "/api-keys"],
  ["DELETE", `/api-keys/${ID}`],
])("%s %s: who makes keys is told", async (method, path) => {
  const { status, body } = await ws.client.call<Refusal>(
    method,
    path,
    method === "POST" ? { name: "A" } : undefined,
  );
  expect(status).toBe(403);
  expect(body).toMatchObject({
    name: "restricted_api_key",
    message: expect.stringContaining("owners and admins"),
  });
});

test("what only looks like it goes its way", async () => {
  expect((await ws.client.get("/contacts/topics@example.net")).status).toBe(404);
  await ws.client.post("/contacts", { email: "topics@example.net" });
  expect((await ws.client.get("/contacts/topics@example.net")).status).toBe(200);
  expect((await ws.client.get<Refusal>("/nothing/topics")).body.message).toContain("There is no endpoint");
});
