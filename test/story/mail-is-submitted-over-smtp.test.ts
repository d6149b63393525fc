/**
 * Whoever has SMTP settings and an API key sends as with POST /emails: the same e-mail is stored, and what the API
 * refuses is refused in the API's words.
 */
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  engine = await startEngine(["api", "submission"], {
    settings: { SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" },
  });
  workspace = await engine.workspace();
});
afterAll(() => engine.stop());

type Shown = Record<string, unknown> & { id: string; attachments?: unknown };

function transport(key = workspace.client.key, isSecure = false) {
  return createTransport({
    host: "127.0.0.1",
    port: isSecure ? engine.submissionTlsPort : engine.submissionPort,
    secure: isSecure,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: "anybody", pass: key },
  });
}

function idIn(response: string): string {
  return /^250 2\.0\.0 Ok: queued as ([0-9a-f-]{36})$/.exec(response)?.[1] ?? `none in ${response}`;
}

async function stored(response: string): Promise<Shown> {
  const { status, body } = await workspace.client.get<Shown>(`/emails/${idIn(response)}`);
  expect(status, response).toBe(200);
  return body;
}

const MAIL = {
  from: '"Acme, Inc." <orders@example.com>',
  to: "one@example.net",
  subject: "Grüße",
  text: "Thanks",
  html: "<p>Thänks</p>",
};

test.each([false, true])(
  "a mail is stored as it was sent, with TLS from the first byte: %s",
  async (isSecure) => {
    const { response } = await transport(undefined, isSecure).sendMail({
      ...MAIL,
      cc: ["Two <two@example.net>"],
      bcc: ["three@example.net"],
      replyTo: "help@example.com",
      headers: { "X-Entity-Ref-ID": "12" },
    });
    expect(await stored(response)).toMatchObject({
      from: '"Acme, Inc." <orders@example.com>',
      to: ["one@example.net"],
      cc: ["Two <two@example.net>"],
      bcc: ["three@example.net"],
      reply_to: ["help@example.com"],
      subject: "Grüße",
      html: "<p>Thänks</p>",
      text: "Thanks",
      headers: { "X-Entity-Ref-ID": "12" },
      status: "accepted",
    });
  },
);
