import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

/**
 * What would end a line, a field or a command, in the middle and at the end; at the very edge of an address
 * it is trimmed.
 */
const BREAKS = ["\r\n", "\n", "\r", "\0", "\u0085", "\u001b", "\u007f", "\ud800"];
const INJECTED = BREAKS.map((mark) => `a${mark}Bcc: evil@example.org`);

const attachment = (more: Record<string, unknown>) => ({
  attachments: [{ filename: "a.txt", content: "YQ==", ...more }],
});

/** Every place of a request that ends up in a header, an SMTP command or a MIME part. */
const PLACES: [string, (text: string) => Record<string, unknown>][] = [
  ["from name", (text) => ({ from: `${text} <a@example.com>` })],
  ["from quoted name", (text) => ({ from: `"${text}" <a@example.com>` })],
  ["from local part", (text) => ({ from: `${text}@example.com` })],
  ["from quoted local part", (text) => ({ from: `"${text}"@example.com` })],
  ["from domain", (text) => ({ from: `a@example.com${text}` })],
  ["to", (text) => ({ to: `${text} <b@example.net>` })],
  ["to in a list", (text) => ({ to: ["b@example.net", `c@example.net${text}`] })],
  ["cc", (text) => ({ cc: `${text} <b@example.net>` })],
  ["bcc", (text) => ({ bcc: [`b${text}@example.net`] })],
  ["reply_to", (text) => ({ reply_to: [`${text} <b@example.net>`] })],
  ["subject", (text) => ({ subject: text })],
  ["header name", (text) => ({ headers: { [`X-${text}`]: "v" } })],
  ["header value", (text) => ({ headers: { "X-Own": text } })],
  ["tag name", (text) => ({ tags: [{ name: text, value: "v" }] })],
  ["tag value", (text) => ({ tags: [{ name: "n", value: text }] })],
  ["filename", (text) => attachment({ filename: text })],
  ["content_type", (text) => attachment({ content_type: `text/plain; ${text}` })],
  ["content_id", (text) => attachment({ content_id: text })],
];

test.each(PLACES)("%s", async (_, at) => {
  for (const text of INJECTED) {
    const refused = await ws.client.post<Refusal>("/emails", mail(at(text)));
    expect(refused.body, JSON.stringify(text)).toMatchObject({ statusCode: 422 });
    expect(JSON.stringify(refused.body)).not.toContain("evil");
    const batch = await ws.client.post<Refusal>("/emails/batch", [mail(), mail(at(text))]);
    expect(batch.body, JSON.stringify(text)).toMatchObject({ statusCode: 422 });
  }
});

test.each([
  "X Space",
  "X:Colon",
  "",
  "X-Ünï",
  `X-${"a".repeat(80)}`,
  "Bcc",
  "bCC",
  "To",
  "Content-Type",
  "content-transfer-encoding",
  "Received",
  "Return-Path",
  "DKIM-Signature",
  "Message-ID",
  "Sender",
])("a header called %j cannot be given", async (name) => {
  const refused = await ws.client.post<Refusal>("/emails", mail({ headers: { [name]: "v" } }));
  expect(refused.body).toMatchObject({ statusCode: 422, name: "validation_error" });
});

test("headers that came with the request's own are kept apart: names as keys of JSON are plain data", async () => {
  for (const name of ["__proto__", "constructor"]) {
    const refused = await ws.client.post<Refusal>(
      "/emails",
      JSON.stringify(mail()).replace(/}$/, `,"headers":{"${name}":"a"}}`),
    );
    expect(refused.body.message).toContain(`\`headers.${name}\` field cannot be given`);
  }
  const headers = '{"X-__proto__":"a","X-constructor":"b","X-Own":"c"}';
  const body = JSON.stringify(mail()).replace(/}$/, `,"headers":${headers}}`);
  const { body: sent } = await ws.client.post<{ id: string }>("/emails", body);
  const { body: read } = await ws.client.get<{ headers: Record<string, string> }>(`/emails/${sent.id}`);
  expect(JSON.stringify(read.headers)).toBe(headers);
});
