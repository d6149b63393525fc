import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const large = (bytes: number) =>
  mail({ attachments: [{ filename: "large.bin", content: Buffer.alloc(bytes, 1).toString("base64") }] });

test("a body of megabytes is parsed aside, and kept as it was", async () => {
  const { status, body } = await ws.client.post<{ id: string }>("/emails", large(3_000_000));
  expect(status).toBe(200);
  const [kept] = await api.sql`
    select sum(octet_length(content))::int as bytes from attachment where workspace_id = ${ws.id}`;
  expect(kept?.bytes).toBe(3_000_000);
  expect((await ws.client.get(`/emails/${body.id}`)).status).toBe(200);
});

test("it is refused like any other when it is not JSON, too deep or too large", async () => {
  const text = JSON.stringify(large(2_000_000));
  expect((await ws.client.post<Refusal>("/emails", text.slice(0, -9))).body.statusCode).toBe(400);
  const deep = `${"[".repeat(600_000)}${"]".repeat(600_000)}`;
  expect((await ws.client.post<Refusal>("/emails/batch", deep)).body.statusCode).toBe(422);
  expect((await ws.client.post<Refusal>("/emails", " ".repeat(42_000_000))).body.statusCode).toBe(413);
});

test("small requests are answered while large ones are parsed", async () => {
  const sending = Promise.all(Array.from({ length: 4 }, () => ws.client.post("/emails", large(8_000_000))));
  const first = await Promise.race([
    sending.then(() => "large"),
    ws.client.get("/emails").then(() => "small"),
  ]);
  expect(first).toBe("small");
  for (const { status } of await sending) expect(status).toBe(200);
});
