import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test("a header that is given in two spellings is refused: receivers take one of the two, or neither", async () => {
  const { client } = await api.workspace();
  const twice = mail({
    headers: { References: "<a@example.net>", "X-Own": "v", references: "<b@example.net>" },
  });
  const message = (at: string) =>
    `The \`${at}headers.references\` field is given twice: \`References\` is the same header.`;
  const one = await client.post<Refusal>("/emails", twice);
  expect(one.body).toEqual({ statusCode: 422, name: "validation_error", message: message("") });
  const many = await client.post<Refusal>("/emails/batch", [mail(), twice]);
  expect(many.body).toEqual({ statusCode: 422, name: "validation_error", message: message("[1].") });
});
