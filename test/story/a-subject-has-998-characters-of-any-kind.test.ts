/** A character that takes two places in a string of JavaScript counts once, as in every other limit. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const MAIL = { from: "shop@example.com", to: "ada@example.net", text: "Hello" };
const FULL = "\u{1F600}".repeat(998);
const TOO_LONG = {
  status: 422,
  body: { name: "validation_error", message: expect.stringContaining("998 characters") },
};

test("in a send", async () => {
  const { id } = (await ws.client.post<{ id: string }>("/emails", { ...MAIL, subject: FULL })).body;
  expect((await ws.client.get(`/emails/${id}`)).body).toMatchObject({ subject: FULL });
  expect(await ws.client.post<Refusal>("/emails", { ...MAIL, subject: `${FULL}x` })).toMatchObject(TOO_LONG);
});

test("in one that a template makes", async () => {
  await ws.client.call("PUT", "/templates/named", {
    html: "<p>Hi</p>",
    from: MAIL.from,
    subject: "{{text}}{{text}}{{end|.}}",
  });
  const template = (variables: object) => ({ to: MAIL.to, template: { id: "named", variables } });
  const half = { text: "\u{1F600}".repeat(498) };
  expect((await ws.client.post("/emails", template({ ...half, end: "ab" }))).status).toBe(200);
  expect(await ws.client.post<Refusal>("/emails", template({ ...half, end: "abc" }))).toMatchObject(TOO_LONG);
});
