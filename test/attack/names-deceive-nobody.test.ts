/**
 * Names, subjects and files that read as something else; addresses that fold into those of others; headers of
 * others.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  api = await testApi();
  ws = await api.workspace();
});
afterAll(() => api.stop());

const TURNS = ["\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"];
const LEANS = ["\u061c", "\u200e", "\u200f"];

const file = (filename: string) => ({ attachments: [{ filename, content: "YQ==" }] });
const NAMES: [string, (text: string) => Record<string, unknown>][] = [
  ["from", (text) => ({ from: `Acme ${text} <a@example.com>` })],
  ["quoted from", (text) => ({ from: `"Acme ${text}" <a@example.com>` })],
  ["to", (text) => ({ to: `Ann ${text} <a@example.net>` })],
  ["cc", (text) => ({ cc: [`Ann ${text} <a@example.net>`] })],
  ["bcc", (text) => ({ bcc: `Ann ${text} <a@example.net>` })],
  ["reply_to", (text) => ({ reply_to: [`Ann ${text} <a@example.net>`] })],
  ["filename", (text) => file(`invoice${text}fdp.exe`)],
];

test.each(NAMES)("%s: what turns text around or leans it is refused", async (_, at) => {
  for (const mark of [...TURNS, ...LEANS]) {
    const { status, body } = await ws.client.post<Refusal>("/emails", mail(at(mark)));
    expect(status, `U+${mark.codePointAt(0)?.toString(16)}`).toBe(422);
    expect(body.message).toMatch(/`\w[\w[\].]*` field must not contain characters that change the direction/);
  }
});

test("a subject may lean, as text from right to left needs it, and not turn", async () => {
  for (const mark of TURNS)
    expect((await ws.client.post("/emails", mail({ subject: `Paid ${mark}000,1` }))).status).toBe(422);
  expect((await ws.client.post("/emails", mail({ subject: "שלום, Acme\u200f!" }))).status).toBe(200);
  const turned = { html: "<p>x</p>", from: "A \u202e <a@example.com>", subject: "s" };
  expect((await ws.client.call("PUT", "/templates/turned", turned)).status).toBe(422);
});

test("a Kelvin sign is another person, and no other domain", async () => {
  const { body: audience } = await ws.client.post<{ id: string }>("/audiences", { name: "All" });
  const path = `/audiences/${audience.id}/contacts`;
  const add = async (email: string) => (await ws.client.post<{ id: string }>(path, { email })).body.id;
  const [kate, other] = [await add("kate@example.net"), await add("\u212aate@example.net")];
  expect(other).not.toBe(kate);
  const gone = `${path}/${encodeURIComponent("\u212aate@example.net")}`;
  await ws.client.call("PATCH", gone, { unsubscribed: true });
  const { body: still } = await ws.client.get<{ unsubscribed: boolean }>(`${path}/kate@example.net`);
  expect(still.unsubscribed).toBe(false);

  const both = await ws.client.post<{ id: string }>(
    "/emails",
    mail({ to: ["kate@example.net", "\u212aate@example.net", "KATE@example.net"] }),
  );
  const { body: sent } = await ws.client.get<{ to: string[] }>(`/emails/${both.body.id}`);
  expect(sent.to).toEqual(["kate@example.net", "\u212aate@example.net"]);
  for (const domain of ["ban\u212a.example", "b\u00fc\u212a.example"])
    expect((await ws.client.post("/emails", mail({ from: `a@${domain}` }))).status, domain).toBe(422);
});

test.each([
  "Authentication-Results",
  "ARC-Authentication-Results",
  "arc-seal",
  "Received",
  "Received-SPF",
  "Resent-From",
  "resent-to",
  "Delivered-To",
  "Errors-To",
  "DomainKey-Signature",
  "DKIM-Signature",
  "Return-Path",
  "Return-Receipt-To",
  "Disposition-Notification-To",
  "Disposition-Notification-Options",
  "X-Confirm-Reading-To",
  "X-SMTPAPI",
  "X-MSYS-API",
  "X-MC-BccAddress",
  "X-SES-SOURCE-ARN",
  "X-SES-CONFIGURATION-SET",
  "X-MS-Exchange-Organization-SCL",
  "Apparently-To",
  "Sender",
  "X-Postrider-Mark",
])("a caller cannot set %s", async (name) => {
  const refused = await ws.client.post<Refusal>("/emails", mail({ headers: { [name]: "a@example.org" } }));
  expect(refused).toMatchObject({ status: 422, body: { name: "validation_error" } });
  expect(refused.body.message).toContain(`\`headers.${name}\``);
});

test("what senders need goes through", async () => {
  const headers = {
    "X-Entity-Ref-ID": "1",
    "X-Auto-Response-Suppress": "All",
    "List-Unsubscribe": "<https://example.com/u>",
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    "In-Reply-To": "<a@example.com>",
    References: "<a@example.com>",
    Precedence: "bulk",
    "Auto-Submitted": "auto-generated",
    Importance: "high",
    Priority: "urgent",
    "Feedback-ID": "a:b:c:sender",
    Organization: "Acme",
    Comments: "c",
    Keywords: "k",
  };
  const { status, body } = await ws.client.post<{ id: string }>("/emails", mail({ headers }));
  expect(status, JSON.stringify(body)).toBe(200);
  expect((await ws.client.get<{ headers: unknown }>(`/emails/${body.id}`)).body.headers).toEqual(headers);
});
