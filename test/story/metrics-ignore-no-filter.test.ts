import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

test.each([
  "tag=kind:receipt",
  "stream=bulk",
  "api_key_id=x",
  "to=a@x.com",
  "status=sent",
  "since=2026-11-01",
])("%s would show the counts of all e-mails as those of some, and is refused", async (query) => {
  const { client } = await api.workspace();
  const { status, body } = await client.get(`/emails/metrics?${query}`);
  expect({ status, body }).toMatchObject({
    status: 422,
    body: {
      name: "invalid_parameter",
      message: `The \`${query.split("=")[0]}\` parameter is not supported here. Remove it: e-mails are counted of the whole workspace only.`,
    },
  });
});

test("a day may be named once", async () => {
  const { client } = await api.workspace();
  const answer = await client.get("/emails/metrics?start_date=2026-11-01&start_date=2026-11-02");
  expect(answer.status).toBe(422);
  const other = await client.get("/emails/metrics?start_date=2026-11-01&timezone=UTC&dimensions=period");
  expect(other.status).toBe(200);
});
