/**
 * A web page that has somebody's key must not use it: what a browser says of where a call comes from refuses
 * the call, before its key is looked at, and no answer lets a page read it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

async function asked(method: string, headers: Record<string, string>) {
  const response = await fetch(`${api.url}/api/v1/emails`, { method, headers });
  return { headers: response.headers, body: (await response.json()) as Refusal };
}

test.each(["origin", "sec-fetch-site", "sec-fetch-dest", "referer"])("refused by its %s", async (header) => {
  const own = `Bearer ${ws.client.key}`;
  for (const authorization of ["Bearer nonsense", own]) {
    const { headers, body } = await asked("GET", { [header]: "https://x.example", authorization });
    expect(body).toMatchObject({ statusCode: 403, name: "browser_request_blocked" });
    expect([...headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
  }
});

test("a preflight is refused, a fetch from Node is not", async () => {
  const { headers, body } = await asked("OPTIONS", {});
  expect(body.name).toBe("browser_request_blocked");
  expect([...headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
  expect((await ws.client.get("/emails", { "sec-fetch-mode": "cors" })).status).toBe(200);
});
