import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.stop());

const content = Buffer.from("x").toString("base64");

test("a place that the list does not have is refused, and not taken for its beginning", async () => {
  const { client } = await api.workspace();
  const sent = await client.post<{ id: string }>(
    "/emails",
    mail({ attachments: [{ filename: "a", content }] }),
  );
  const path = `/emails/${sent.body.id}/attachments`;
  for (const name of ["after", "cursor", "before"]) {
    const { status, body } = await client.get<Refusal>(
      `${path}?${name}=01990000-0000-7000-8000-000000000000`,
    );
    expect({ status, ...body }).toMatchObject({
      status: 422,
      name: "invalid_parameter",
      message: "This e-mail has no attachment with the id that the page begins at.",
    });
  }
});

test("an empty content_id is none", async () => {
  const { client } = await api.workspace();
  const attachments = [{ filename: "a", content, content_id: "" }];
  const sent = await client.post<{ id: string }>("/emails", mail({ attachments }));
  const { body } = await client.get<{ data: object[] }>(`/emails/${sent.body.id}/attachments`);
  expect(body.data).toMatchObject([{ filename: "a", content_disposition: "attachment" }]);
  expect(body.data[0]).not.toHaveProperty("content_id");
});
