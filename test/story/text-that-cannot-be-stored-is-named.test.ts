/** U+0000 and halves of characters are refused with the path of the field, however large the body is. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const MAIL = { from: "shop@example.com", to: "ada@example.net", subject: "Hello", text: "Hello" };
const LARGE = { ...MAIL, text: "x".repeat(300_000) };

const faultsIn: [string, string, unknown][] = [
  ["[1].subject", "/emails/batch", [MAIL, { ...MAIL, subject: "a\0b" }]],
  ["[1].subject", "/emails/batch", [LARGE, { ...MAIL, subject: "\ud83d" }]],
  ["[0].to[1]", "/emails/batch", [{ ...MAIL, to: ["ada@example.net", "\0@example.net"] }]],
  ["tags[0].value", "/emails", { ...LARGE, tags: [{ name: "kind", value: "\0" }] }],
  ["template.variables", "/emails", { ...MAIL, template: { id: "t", variables: { "\0": 1 } } }],
  ["properties.city", "/contacts", { email: "ada@example.net", properties: { city: "\udc00" } }],
];
test.each(faultsIn)("%s of %s", async (path, endpoint, body) => {
  expect(await ws.client.post<Refusal>(endpoint, body)).toMatchObject({
    status: 422,
    body: {
      name: "validation_error",
      message: `The \`${path}\` field must not contain U+0000 or unpaired surrogates.`,
    },
  });
});

test("a bad name of the body's own is of the body", async () => {
  expect((await ws.client.post<Refusal>("/emails", { ...MAIL, "a\0": 1 })).body.message).toBe(
    "The request body must not contain U+0000 or unpaired surrogates.",
  );
});
