import { afterAll, beforeAll, expect, test } from "vitest";
import { MovableClock } from "../rig/clock.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const MINUTE_MS = 60_000;
/** Its minute does not end while three requests are made. */
const clock = new MovableClock(Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS);
let api: TestApi;
beforeAll(async () => {
  api = await testApi({ clock });
});
afterAll(() => api.stop());

type Log = { endpoint: string; method: string; response_status: number };

test("the log names the route of a request that is refused for its rate", async () => {
  const workspace = await api.workspace("pro", { requests_per_second: 100, requests_per_minute: 3 });
  const { id: keyId, client } = await workspace.key(["full"]);
  for (let n = 0; n < 3; n++) await client.get("/usage");
  expect((await client.get("/webhooks?limit=1")).status).toBe(429);
  expect((await client.get("/emails/01990000-0000-7000-8000-000000000000")).status).toBe(429);
  await api.keyring.changeWorkspace(workspace.id, {
    limits: { requests_per_second: 100, requests_per_minute: 1_000 },
  });
  const logged = async () => {
    const { body } = await workspace.client.get<{ data: (Log & { api_key_id: string })[] }>(
      "/logs?limit=100",
    );
    return body.data
      .filter(({ api_key_id, response_status }) => api_key_id === keyId && response_status === 429)
      .map(({ method, endpoint }) => `${method} ${endpoint}`)
      .sort();
  };
  await expect
    .poll(logged, { timeout: 20_000, interval: 1_000 })
    .toEqual(["GET /emails/{id}", "GET /webhooks"]);
});
