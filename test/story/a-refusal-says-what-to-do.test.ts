/**
 * What a refused send says: how much of a quota is left, which item and field are meant, what to send
 * instead.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace("pro");
});
afterAll(() => api.stop());

const refusedSend = async (body: object) => (await ws.client.post<Refusal>("/emails", body)).body;
const refusedBatch = async (...items: unknown[]) =>
  (await ws.client.post<Refusal>("/emails/batch", items)).body;

test("a request that exceeds the quota says how much of it is used", async () => {
  const free = await api.workspace("free", { emails_per_day: 100 });
  const people = (count: number) => Array.from({ length: count }, (_, n) => `p${n}@example.net`);
  await free.client.post("/emails/batch", [mail({ to: people(50) }), mail({ to: people(45) })]);
  const { body } = await free.client.post<Refusal>("/emails", mail({ to: people(10) }));
  expect(body.name).toBe("quota_exceeded");
  expect(body.message).toMatch(
    /^This request would exceed the daily quota: 95 of 100 used, 10 requested\. The quota resets in \d+ seconds?\.$/,
  );
});

test("a batch names the item that is no e-mail, and the field of one that is wrong", async () => {
  expect(await refusedBatch(mail(), "x")).toMatchObject({ message: "The `[1]` item must be a JSON object." });
  expect(await refusedBatch(mail(), null)).toMatchObject({
    message: "The `[1]` item must be a JSON object.",
  });
  expect(await refusedBatch(mail(), mail({ to: 5 }))).toMatchObject({
    message: "The `[1].to` field must be a string or an array of strings.",
  });
  expect(await refusedBatch(mail(), mail({ from: undefined }))).toMatchObject({
    name: "missing_required_field",
    message: "Missing `[1].from` field.",
  });
  expect(await refusedBatch(mail(), mail({ topic_id: "t" }))).toMatchObject({
    message: "The `[1].topic_id` field is not supported. Remove it.",
  });
});

test("an attachment with only a path hears that URLs are never fetched", async () => {
  const attachments = [{ filename: "a.txt", path: "https://example.com/a.txt" }];
  const message =
    "field is not supported: URLs are never fetched. Send the file itself as base64 in `content`.";
  expect(await refusedSend(mail({ attachments }))).toMatchObject({
    name: "invalid_attachment",
    message: `The \`attachments[0].path\` ${message}`,
  });
  expect(await refusedBatch(mail(), mail({ attachments }))).toMatchObject({
    name: "invalid_attachment",
    message: `The \`[1].attachments[0].path\` ${message}`,
  });
});

test("several addresses in one text are told to be an array", async () => {
  for (const to of [
    "a@example.net, b@example.net",
    "a@example.net;b@example.net",
    ["a@example.net,b@x.example"],
  ])
    expect((await refusedSend(mail({ to }))).message).toMatch(
      /^The `to(\[0\])?` field must be one address: .* Send several as an array\.$/,
    );
  expect(await refusedSend(mail({ to: "nobody" }))).toMatchObject({
    message: "The `to` field must be an address: `a@x.com` or `Name <a@x.com>`.",
  });
});

test("a file as a data URL is told to be base64 alone", async () => {
  const attachments = [{ filename: "a.txt", content: "data:text/plain;base64,aGVsbG8=" }];
  expect(await refusedBatch(mail(), mail({ attachments }))).toMatchObject({
    name: "invalid_attachment",
    message:
      "The `[1].attachments[0].content` field must be base64, without a prefix such as `data:text/plain;base64,`.",
  });
});

test("a body in another encoding hears of it, since its JSON looks right", async () => {
  const text = JSON.stringify(mail({ subject: "Grüße" }));
  const refusal = async (body: Buffer) => {
    const headers = { authorization: `Bearer ${ws.client.key}`, "content-type": "application/json" };
    const response = await fetch(`${api.url}/api/v1/emails`, { method: "POST", headers, body });
    return (await response.json()) as Refusal;
  };
  expect(await refusal(Buffer.from(text, "latin1"))).toMatchObject({
    statusCode: 400,
    name: "validation_error",
    message: "The request body is not UTF-8. Send JSON in UTF-8.",
  });
  expect(await refusal(Buffer.from(`\ufeff${text}`))).toMatchObject({
    statusCode: 400,
    message: "The request body begins with a byte order mark. Send JSON without it.",
  });
  expect(await refusal(Buffer.from(text.slice(1)))).toMatchObject({
    statusCode: 400,
    message: "The request body is not valid JSON.",
  });
});

test("a header that has a field of its own names the field", async () => {
  expect(await refusedSend(mail({ headers: { "Reply-To": "help@example.com" } }))).toMatchObject({
    message: "The `headers.Reply-To` field cannot be given: use the `reply_to` field.",
  });
  expect(await refusedBatch(mail(), mail({ headers: { subject: "Hello" } }))).toMatchObject({
    message: "The `[1].headers.subject` field cannot be given: use the `[1].subject` field.",
  });
  expect(await refusedSend(mail({ headers: { Date: "now" } }))).toMatchObject({
    message: "The `headers.Date` field cannot be given: the engine sets this header.",
  });
});

test("a field like one that is refused is not recommended", async () => {
  const answer = await ws.client.post("/emails", mail({ topicId: "x" }));
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body).not.toHaveProperty("warnings");
});

test("a key that is not accepted says how to send one, or what is wrong with it", async () => {
  const refusal = async (authorization: string) => {
    const response = await fetch(`${api.url}/api/v1/emails`, { headers: { authorization } });
    return (await response.json()) as Refusal;
  };
  const { key } = ws.client;
  for (const header of [key, "Bearer"])
    expect(await refusal(header)).toMatchObject({
      name: "invalid_api_key",
      message: "API key is invalid. Send it in the `Authorization` header: `Bearer pr_live_...`.",
    });
  for (const wrong of ["$KEY", `${key}x`, `${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`])
    expect(await refusal(`Bearer ${wrong}`)).toMatchObject({
      name: "invalid_api_key",
      message: "API key is invalid: it is misspelt, revoked, or from another server.",
    });
});

test("a template that cannot be rendered is named", async () => {
  await ws.client.call("PUT", "/templates/welcome", {
    subject: "Hi",
    from: "Acme <hi@example.com>",
    html: "<p>{{name}}</p>",
  });
  const { message } = await refusedSend({ to: "one@example.net", template: { id: "welcome" } });
  expect(message).toMatch(
    /^The `template\.variables\.name` field is missing, and the template `welcome` has no fallback for it/,
  );
});

test("a contact that is looked for in all audiences is in none of them", async () => {
  const { body } = await ws.client.get<Refusal>("/contacts/nobody@example.com");
  expect(body).toMatchObject({
    statusCode: 404,
    message: "There is no such contact in any audience that this key may access.",
  });
});
