/** Of two values one would be ignored: `?mode=archive&mode=erase` archived. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PATHS } from "../rig/document.ts";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

/** A value that the parameter takes, so that nothing else of it can be refused. */
const VALUES: Record<string, string> = {
  limit: "1",
  cursor: randomUUID(),
  before: randomUUID(),
  mode: "archive",
  granularity: "daily",
  timezone: "UTC",
  metrics: "sent",
};

test("every parameter of every endpoint may be given once", async () => {
  let tried = 0;
  for (const [path, operations] of Object.entries(PATHS)) {
    for (const [method, { parameters = [] }] of Object.entries(operations)) {
      for (const { name, in: place } of parameters) {
        if (place !== "query") continue;
        const at = path.replace("{email_or_id}", "ada@example.com").replaceAll(/\{[^}]+\}/g, randomUUID());
        const value = encodeURIComponent(VALUES[name] ?? "x");
        const asked = `${at}?${name}=${value}&${name}=${value}`;
        expect(await ws.client.call<Refusal>(method.toUpperCase(), asked), asked).toMatchObject({
          status: 422,
          body: { name: "invalid_parameter", message: `The \`${name}\` parameter may be given only once.` },
        });
        tried++;
      }
    }
  }
  expect(tried).toBeGreaterThan(50);
});

test("a contact that is to be archived and erased is neither", async () => {
  const audience = (await ws.client.post<{ id: string }>("/audiences", { name: "People" })).body.id;
  const contact = `/audiences/${audience}/contacts/ada@example.com`;
  await ws.client.post(`/audiences/${audience}/contacts`, { email: "ada@example.com" });
  expect((await ws.client.call("DELETE", `${contact}?mode=archive&mode=erase`)).status).toBe(422);
  expect((await ws.client.get(contact)).status).toBe(200);
});
