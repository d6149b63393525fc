/** Text that cannot be stored refuses its own e-mail of a permissive batch, and the whole of a strict one. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

type BatchSent = { data: { id: string }[]; errors?: { index: number; message: string }[] };

const PERMISSIVE = { "x-batch-validation": "permissive" };

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace("pro");
});
afterAll(() => api.stop());

const badText = (path: string) => `The \`${path}\` field must not contain U+0000 or unpaired surrogates.`;

describe.each([
  ["small", ""],
  ["large, parsed on its own thread,", "x".repeat(200_000)],
])("a %s batch", (_, text) => {
  const items = () => [
    mail({ html: text }),
    mail({ subject: "a\u0000b" }),
    mail({ to: "nobody" }),
    mail({ tags: [{ name: "kind", value: "\ud800" }] }),
    mail({ ignored: ["\u0000"] }),
    mail({ "ignored\u0000": 1 }),
    mail(),
  ];

  test("is sent but for these items, if it is permissive", async () => {
    const { status, body } = await ws.client.post<BatchSent>("/emails/batch", items(), PERMISSIVE);
    expect(status).toBe(200);
    expect(body.data).toHaveLength(2);
    expect(body.errors).toEqual([
      { index: 1, message: badText("[1].subject") },
      { index: 2, message: expect.stringContaining("`[2].to`") },
      { index: 3, message: badText("[3].tags[0].value") },
      { index: 4, message: badText("[4].ignored[0]") },
      { index: 5, message: badText("[5]") },
    ]);
  });

  test("is refused whole, if it is strict", async () => {
    const { body } = await ws.client.post<Refusal>("/emails/batch", items());
    expect(body).toMatchObject({ statusCode: 422, message: badText("[1].subject") });
  });
});

test("a permissive batch is answered again under its key", async () => {
  const headers = { ...PERMISSIVE, "idempotency-key": "bad text" };
  const items = [mail({ text: "\u0000" }), mail()];
  const first = await ws.client.post<BatchSent>("/emails/batch", items, headers);
  expect(first.body.errors).toEqual([{ index: 0, message: badText("[0].text") }]);
  expect((await ws.client.post("/emails/batch", items, headers)).body).toEqual(first.body);
});

test("what is wrong with a permissive batch as a whole refuses it", async () => {
  const many = Array(101).fill(mail({ subject: "\u0000" }));
  const { body } = await ws.client.post<Refusal>("/emails/batch", many, PERMISSIVE);
  expect(body.message).toMatch(/1 to 100 e-mails|U\+0000/);
  const deep = `[{"subject":"\\u0000"},${"[".repeat(40)}${"]".repeat(40)}]`;
  const refused = await ws.client.post<Refusal>("/emails/batch", deep, PERMISSIVE);
  expect(refused.body.message).toContain("nested too deeply");
});
