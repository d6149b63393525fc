/**
 * The mail catcher shows what it took as a strict reader sees it, keeps the last 500, and refuses what is too
 * large.
 */
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type MailCatcher, startMailbox } from "../../src/embedded/mailbox.ts";

const MAILS_MAX = 500;
let mailbox: MailCatcher;
let transport: ReturnType<typeof createTransport>;

beforeAll(async () => {
  mailbox = await startMailbox();
  transport = createTransport({ url: `${mailbox.smtpUrl}?pool=true`, logger: false });
});
afterAll(async () => {
  transport.close();
  await mailbox.stop();
});

type Summary = { id: string; subject: string; envelope: { from: string; to: string[] } };

async function get<T>(path: string): Promise<{ status: number; body: T }> {
  const response = await fetch(`${mailbox.url}${path}`);
  return { status: response.status, body: (await response.json()) as T };
}

test("a mail is shown with its envelope, its parts and its bytes", async () => {
  await transport.sendMail({
    from: "Ünal <a@example.com>",
    to: "b@example.com, C <c@example.com>",
    bcc: "hidden@example.com",
    subject: "Größe 100 €",
    text: "plain\n.leading dot",
    html: "<p>häßlich</p>",
    headers: { "X-Order": "17" },
    attachments: [{ filename: "é.bin", content: Buffer.alloc(1_000, 7) }],
  });
  const [summary] = (await get<Summary[]>("/messages")).body;
  expect(summary).toMatchObject({
    from: { name: "Ünal", address: "a@example.com" },
    subject: "Größe 100 €",
    envelope: { from: "a@example.com", to: ["b@example.com", "c@example.com", "hidden@example.com"] },
  });
  const { status, body } = await get<Record<string, unknown>>(`/messages/${summary?.id}`);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    ...summary,
    to: [{ address: "b@example.com" }, { name: "C", address: "c@example.com" }],
    text: expect.stringMatching(/^plain\r?\n\.leading dot/),
    html: expect.stringContaining("<p>häßlich</p>"),
    headers: expect.arrayContaining([{ name: "x-order", value: "17" }]),
    attachments: [{ filename: "é.bin", bytes: 1_000 }],
    raw: expect.stringContaining("X-Order: 17\r\n"),
  });
});

test("the newest comes first, and only the last 500 are kept", async () => {
  const [before] = (await get<Summary[]>("/messages")).body;
  for (let n = 0; n <= MAILS_MAX; n++)
    await transport.sendMail({ from: "a@example.com", to: "b@example.com", subject: `${n}`, text: "" });
  const { body } = await get<Summary[]>("/messages");
  expect(body.map(({ subject }) => subject)).toEqual(
    Array.from({ length: MAILS_MAX }, (_, n) => `${MAILS_MAX - n}`),
  );
  expect((await get(`/messages/${before?.id}`)).status).toBe(404);
});

test("what is not there is 404", async () => {
  expect((await get("/messages/none")).status).toBe(404);
  expect((await get("/else")).status).toBe(404);
});

test("a mail over 50 MB is refused for good, and not kept", async () => {
  const [newest] = (await get<Summary[]>("/messages")).body;
  const large = {
    from: "a@example.com",
    to: "b@example.com",
    text: "",
    raw: Buffer.alloc(51 * 1024 * 1024, `${"x".repeat(998)}\r\n`),
  };
  await expect(transport.sendMail(large)).rejects.toMatchObject({ responseCode: 552 });
  expect((await get<Summary[]>("/messages")).body[0]).toEqual(newest);
});
