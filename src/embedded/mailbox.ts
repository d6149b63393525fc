/**
 * A mail catcher for a machine that has no smarthost: takes every mail and shows the last ones as JSON. Bounded in
 * mails and in bytes; nothing it takes goes anywhere.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import PostalMime from "postal-mime";
import { SMTPServer } from "smtp-server";

const MAILS_MAX = 500;
const MAILS_BYTES_MAX = 256 * 1024 * 1024;
const MAIL_BYTES_MAX = 50 * 1024 * 1024;

type Caught = { id: string; at: Date; from: string; to: string[]; raw: Buffer };

export type Mailbox = { smtpUrl: string; url: string; stop(): Promise<void> };

export async function startMailbox(ports: { smtp?: number; http?: number } = {}): Promise<Mailbox> {
  const mails: Caught[] = [];
  let bytes = 0;
  let count = 0;

  const smtp = new SMTPServer({
    disabledCommands: ["AUTH", "STARTTLS"],
    authOptional: true,
    disableReverseLookup: true,
    logger: false,
    size: MAIL_BYTES_MAX,
    maxClients: 500,
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        const { mailFrom, rcptTo } = session.envelope;
        const raw = Buffer.concat(chunks);
        keep({
          id: String(++count),
          at: new Date(),
          from: mailFrom === false ? "" : mailFrom.address,
          to: rcptTo.map((recipient) => recipient.address),
          raw,
        });
        done(null, `2.0.0 Ok: caught as ${count}`);
      });
    },
  });
  // a client that goes away in the middle is its own affair
  smtp.on("error", () => {});

  function keep(mail: Caught): void {
    mails.push(mail);
    bytes += mail.raw.byteLength;
    while (mails.length > MAILS_MAX || bytes > MAILS_BYTES_MAX) bytes -= mails.shift()?.raw.byteLength ?? 0;
  }

  const http = createServer((request, response) => {
    show(mails, request, response).catch((error: unknown) => answer(response, 500, { error: String(error) }));
  });
  await new Promise<void>((resolve, reject) => {
    smtp.server.once("error", reject);
    smtp.listen(ports.smtp ?? 0, "127.0.0.1", resolve);
  });
  await new Promise<void>((resolve, reject) => {
    http.once("error", reject);
    http.listen(ports.http ?? 0, "127.0.0.1", resolve);
  });
  return {
    smtpUrl: `smtp://127.0.0.1:${(smtp.server.address() as AddressInfo).port}`,
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    async stop() {
      http.closeAllConnections();
      await Promise.all([
        new Promise<void>((resolve) => http.close(() => resolve())),
        new Promise<void>((resolve) => smtp.close(resolve)),
      ]);
    },
  };
}

async function show(
  mails: readonly Caught[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = (request.url ?? "/").split("?")[0]?.replace(/\/+$/, "");
  if (path === "" || path === "/messages") {
    const newestFirst = [...mails].reverse();
    answer(response, 200, await Promise.all(newestFirst.map(summary)));
    return;
  }
  const id = /^\/messages\/(\d+)$/.exec(path ?? "")?.[1];
  const mail = mails.find((one) => one.id === id);
  if (mail) answer(response, 200, await whole(mail));
  else answer(response, 404, { error: "There is no such message." });
}

async function summary(mail: Caught) {
  const parsed = await PostalMime.parse(mail.raw);
  return {
    id: mail.id,
    received_at: mail.at,
    from: parsed.from ?? null,
    to: parsed.to ?? [],
    subject: parsed.subject ?? "",
    date: parsed.date ?? null,
    message_id: parsed.messageId ?? null,
    envelope: { from: mail.from, to: mail.to },
    bytes: mail.raw.byteLength,
  };
}

async function whole(mail: Caught) {
  const parsed = await PostalMime.parse(mail.raw);
  return {
    ...(await summary(mail)),
    cc: parsed.cc ?? [],
    reply_to: parsed.replyTo ?? [],
    html: parsed.html ?? null,
    text: parsed.text ?? null,
    headers: parsed.headers.map(({ key, value }) => ({ name: key, value })),
    attachments: parsed.attachments.map(({ filename, mimeType, contentId, content }) => ({
      filename,
      content_type: mimeType,
      content_id: contentId ?? null,
      bytes: typeof content === "string" ? content.length : content.byteLength,
    })),
    raw: mail.raw.toString("latin1"),
  };
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response
    .writeHead(status, { "Content-Type": "application/json; charset=utf-8" })
    .end(JSON.stringify(body, null, 2));
}
