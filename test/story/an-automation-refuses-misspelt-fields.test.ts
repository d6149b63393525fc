/** A misspelt `filters` would start a run for every contact: over HTTP, too, it is refused. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const BODY = { name: "Welcome", event: "signed.up", steps: [{ tag: { add: ["greeted"] } }] };
const MISSPELT = { filter: [{ field: "event.properties.plan", eq: "pro" }] };
const REFUSED = {
  status: 422,
  body: { name: "validation_error", message: expect.stringContaining("`filter`") },
};

test("nothing is created", async () => {
  expect(await ws.client.post<Refusal>("/automations", { ...BODY, ...MISSPELT })).toMatchObject(REFUSED);
  const wide = { ...BODY, ...MISSPELT, event: "e".repeat(200_000) };
  expect(await ws.client.post<Refusal>("/automations", wide)).toMatchObject(REFUSED);
  expect(
    await ws.client.post<Refusal>("/automations", { ...BODY, ...MISSPELT, name: undefined }),
  ).toMatchObject(REFUSED);
  expect((await ws.client.get("/automations")).body).toMatchObject({ data: [] });
});

test("nothing is changed", async () => {
  const { id } = (await ws.client.post<{ id: string }>("/automations", BODY)).body;
  expect(
    await ws.client.call<Refusal>("PATCH", `/automations/${id}`, { ...MISSPELT, name: "Hello" }),
  ).toMatchObject(REFUSED);
  expect((await ws.client.get(`/automations/${id}`)).body).toMatchObject({ name: "Welcome", version: 1 });
});

test("what is like no field is ignored, as everywhere: clients send extras", async () => {
  expect(await ws.client.post("/automations", { ...BODY, name: "Blue", colour: "blue" })).toMatchObject({
    status: 201,
  });
});
