/** What is neither opening a link nor pressing its button is refused, and says so. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test.each(["PUT", "PATCH", "DELETE", "OPTIONS"])("%s is 405 with what is allowed", async (method) => {
  for (const path of ["/u/x", "/confirm/x"]) {
    const { status, headers } = await fetch(api.url + path, { method });
    expect([status, headers.get("allow")], path).toEqual([405, "GET, HEAD, POST"]);
  }
});

test.each(["GET", "HEAD", "POST"])("%s asks for a valid link", async (method) => {
  for (const path of ["/u/x", "/confirm/x"])
    expect((await fetch(api.url + path, { method })).status).toBe(404);
});

test("what can only be read is 405 to whoever sends something", async () => {
  for (const path of ["/healthz", "/readyz", "/openapi.json"])
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
      const { status, headers } = await fetch(api.url + path, { method });
      expect([status, headers.get("allow")], `${method} ${path}`).toEqual([405, "GET, HEAD"]);
    }
  expect((await fetch(`${api.url}/healthz`, { method: "HEAD" })).status).toBe(200);
});
