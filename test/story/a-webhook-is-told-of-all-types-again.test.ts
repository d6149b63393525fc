import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("`events` is null where all are sent, and null asks for that again", async () => {
  const { client } = await api.workspace();
  const endpoint = "https://example.com/hook";
  const made = await client.post<{ id: string }>("/webhooks", { endpoint, events: ["email.sent"] });
  const path = `/webhooks/${made.body.id}`;
  const shown = async () => (await client.get<{ events: string[] | null }>(path)).body;
  const change = (changes: object) => client.call("PATCH", path, changes);
  for (const changes of [{}, { endpoint: null, status: null }]) {
    expect((await change(changes)).status).toBe(200);
    expect(await shown()).toMatchObject({ endpoint, events: ["email.sent"], status: "enabled" });
  }
  expect((await change({ events: null })).status).toBe(200);
  expect((await shown()).events).toBeNull();
});
