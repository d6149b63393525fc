/** A key limited to audiences learns nothing of contacts of others from what tells of the whole workspace. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.faults).toEqual([]);
});

test("neither from the event log nor from a webhook of its own", async () => {
  const workspace = await api.workspace("pro");
  const { body: mine } = await workspace.client.post<{ id: string }>("/audiences", { name: "Mine" });
  const { client } = await workspace.key(["full"], [mine.id]);
  expect((await client.get("/audiences")).status).toBe(200);
  const limited = { status: 403, body: { name: "restricted_api_key" } };
  expect(await client.get("/events/log")).toMatchObject(limited);
  const endpoint = "https://example.com/webhooks";
  expect(await client.post("/webhooks", { endpoint })).toMatchObject(limited);
  const { body: webhook } = await workspace.client.post<{ id: string }>("/webhooks", { endpoint });
  expect(await client.get(`/webhooks/${webhook.id}`)).toMatchObject(limited);
  expect(await client.call("PATCH", `/webhooks/${webhook.id}`, { endpoint })).toMatchObject(limited);
});
