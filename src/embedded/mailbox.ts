/**
 * A mail catcher for a machine that has no smarthost: takes every mail and shows the last ones as JSON,
 * newest first under /messages and each whole under /messages/{id}. Bounded in mails and in bytes; nothing it
 * takes goes anywhere.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Server } from "node:net";
import PostalMime, { type Email } from "postal-mime";
import { SMTPServer, type SMTPServerSession } from "smtp-server";

const MAILS_MAX = 500;
const MAILS_BYTES_MAX = 256 * 1024 * 1024;
const MAIL_BYTES_MAX = 50 * 1024 * 1024;
const CLIENTS_MAX = 500;
const CLOSE_MS_MAX = 500;

type Caught = { id: string; at: Date; envelope: { from: string; to: string[] }; raw: Buffer };

export type MailCatcher = { smtpUrl: string; url: string; stop(): Promise<void> };

export async function startMailbox(ports: { smtp?: number; http?: number } = {}): Promise<MailCatcher> {
  const mails = new CaughtMails();
  const smtp = new SMTPServer({
    disabledCommands: ["AUTH", "STARTTLS"],
    authOptional: true,
    disableReverseLookup: true,
    logger: false,
    size: MAIL_BYTES_MAX,
    maxClients: CLIENTS_MAX,
    closeTimeout: CLOSE_MS_MAX,
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => {
        if (!stream.sizeExceeded) chunks.push(chunk);
      });
      stream.on("end", () => {
        if (stream.sizeExceeded) done(Object.assign(new Error("5.3.4 Too large"), { responseCode: 552 }));
        else done(null, `2.0.0 Ok: caught as ${mails.keep(session, Buffer.concat(chunks))}`);
      });
    },
  });
  // a client that goes away in the middle is its own affair
  smtp.on("error", () => {});
  const http = createServer((request, response) => {
    show(mails, request, response).catch((error: unknown) => answer(response, 500, { error: String(error) }));
  });
  const [smtpPort, httpPort] = await Promise.all([
    listen(smtp.server, ports.smtp ?? 0),
    listen(http, ports.http ?? 0),
  ]);
  return {
    smtpUrl: `smtp://127.0.0.1:${smtpPort}`,
    url: `http://127.0.0.1:${httpPort}`,
    async stop() {
      http.closeAllConnections();
      await Promise.all([
        new Promise<void>((resolve) => http.close(() => resolve())),
        new Promise<void>((resolve) => smtp.close(resolve)),
      ]);
    },
  };
}

class CaughtMails {
  readonly #mails: Caught[] = [];
  #bytes = 0;
  #count = 0;

  keep({ envelope: { mailFrom, rcptTo } }: SMTPServerSession, raw: Buffer): string {
    const id = String(++this.#count);
    const envelope = {
      from: mailFrom === false ? "" : mailFrom.address,
      to: rcptTo.map((recipient) => recipient.address),
    };
    this.#mails.push({ id, at: new Date(), envelope, raw });
    this.#bytes += raw.byteLength;
    while (this.#mails.length > MAILS_MAX || this.#bytes > MAILS_BYTES_MAX)
      this.#bytes -= this.#mails.shift()?.raw.byteLength ?? 0;
    return id;
  }

  newestFirst(): Caught[] {
    return this.#mails.toReversed();
  }

  find(id: string): Caught | undefined {
    return this.#mails.find((mail) => mail.id === id);
  }
}

async function show(mails: CaughtMails, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? "/").split("?")[0]?.replace(/\/+$/, "") ?? "";
  if (path === "" || path === "/messages") {
    answer(response, 200, await Promise.all(mails.newestFirst().map(summary)));
    return;
  }
  const id = /^\/messages\/(\d+)$/.exec(path)?.[1];
  const mail = id === undefined ? undefined : mails.find(id);
  if (mail) answer(response, 200, await whole(mail));
  else answer(response, 404, { error: "There is no such message." });
}

/** A list of 500 mails does not read their bodies. */
async function summary(mail: Caught) {
  const end = mail.raw.indexOf("\r\n\r\n");
  return summaryOf(mail, await PostalMime.parse(end < 0 ? mail.raw : mail.raw.subarray(0, end + 4)));
}

async function whole(mail: Caught) {
  const parsed = await PostalMime.parse(mail.raw);
  return {
    ...summaryOf(mail, parsed),
    cc: parsed.cc ?? [],
    reply_to: parsed.replyTo ?? [],
    html: parsed.html ?? null,
    text: parsed.text ?? null,
    headers: parsed.headers.map(({ key, value }) => ({ name: key, value })),
    attachments: parsed.attachments.map(({ filename, mimeType, contentId, content }) => ({
      filename,
      content_type: mimeType,
      content_id: contentId ?? null,
      bytes: typeof content === "string" ? Buffer.byteLength(content) : content.byteLength,
    })),
    raw: mail.raw.toString(),
  };
}

function summaryOf({ id, at, envelope, raw }: Caught, parsed: Email) {
  return {
    id,
    received_at: at,
    from: parsed.from ?? null,
    to: parsed.to ?? [],
    subject: parsed.subject ?? "",
    date: parsed.date ?? null,
    message_id: parsed.messageId ?? null,
    envelope,
    bytes: raw.byteLength,
  };
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response
    .writeHead(status, { "Content-Type": "application/json; charset=utf-8" })
    .end(JSON.stringify(body, null, 2));
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}
