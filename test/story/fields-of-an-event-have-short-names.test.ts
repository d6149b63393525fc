/** The schema of an event is listed with up to 99 others, so the names of its fields are limited as well. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace("pro");
});
afterAll(() => api.stop());

const define = (schema: object) => ws.client.post<Refusal>("/events", { name: "signup", schema });

test("names of 1 to 100 characters", async () => {
  const longest = "😀".repeat(100);
  expect((await define({ a: "string", [longest]: "date" })).status).toBe(201);
  const change = (schema: object) => ws.client.call<Refusal>("PATCH", "/events/signup", { schema });
  for (const [name, words] of [
    ["", "at least 1 character"],
    [`${longest}a`, "at most 100 characters"],
  ] as const) {
    expect(await define({ [name]: "string" })).toMatchObject({
      status: 422,
      body: { name: "validation_error", message: expect.stringContaining(words) },
    });
    expect((await change({ [name]: "string" })).status).toBe(422);
  }
});
