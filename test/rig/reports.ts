/**
 * What receivers write back: delivery reports and complaints as messages, and a plain SMTP client that hands
 * them in.
 */
import { connect, type Socket } from "node:net";

export type DsnOptions = {
  recipient: string;
  action?: string;
  status?: string;
  diagnostic?: string;
  /** The mail that is sent back. */
  original?: string;
};

const lines = (...all: string[]): string => all.join("\r\n");

/** RFC 3464, as Postfix writes it. */
export function dsn({
  recipient,
  action = "failed",
  status = "5.1.1",
  diagnostic,
  original,
}: DsnOptions): string {
  return lines(
    "From: Mail Delivery System <MAILER-DAEMON@mx.example.net>",
    "Subject: Undelivered Mail Returned to Sender",
    "Auto-Submitted: auto-replied",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=delivery-status; boundary="r1"',
    "",
    "This is a MIME-encapsulated message.",
    "",
    "--r1",
    "Content-Type: text/plain",
    "",
    "This is the mail system at host mx.example.net.",
    "",
    "--r1",
    "Content-Type: message/delivery-status",
    "",
    "Reporting-MTA: dns; mx.example.net",
    "Arrival-Date: Sun, 22 Nov 2026 06:00:00 +0000",
    "",
    `Final-Recipient: rfc822; ${recipient}`,
    `Original-Recipient: rfc822;${recipient}`,
    `Action: ${action}`,
    `Status: ${status}`,
    "Remote-MTA: dns; store.example.net",
    `Diagnostic-Code: ${diagnostic ?? `smtp; 550 ${status} no such user`}`,
    "",
    "--r1",
    "Content-Type: message/rfc822",
    "",
    original ?? "Subject: Order 1\r\n\r\nThanks",
    "",
    "--r1--",
    "",
  );
}

export type ArfOptions = { type?: string; recipient?: string; header: readonly string[] };

/** RFC 5965. `header`: of the mail that is complained about. */
export function arf({ type = "abuse", recipient, header }: ArfOptions): string {
  return lines(
    "From: <feedback@provider.example>",
    "Subject: FW: Order 1",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=feedback-report; boundary="f1"',
    "",
    "--f1",
    "Content-Type: text/plain",
    "",
    "This is an email abuse report.",
    "",
    "--f1",
    "Content-Type: message/feedback-report",
    "",
    `Feedback-Type: ${type}`,
    "User-Agent: Provider/1.0",
    "Version: 1",
    ...(recipient === undefined ? [] : [`Original-Rcpt-To: ${recipient}`]),
    "",
    "--f1",
    "Content-Type: message/rfc822",
    "",
    ...header,
    "",
    "Thanks",
    "",
    "--f1--",
    "",
  );
}

/** Hands a message in, and says what was answered to each command. */
export async function handIn(
  port: number,
  to: string | readonly string[],
  message: string,
): Promise<string[]> {
  const client = await SmtpClient.open(port);
  const recipients = typeof to === "string" ? [to] : to;
  await client.say("EHLO mx.example.net");
  await client.say("MAIL FROM:<>");
  const answers: string[] = [];
  for (const one of recipients) answers.push(await client.say(`RCPT TO:<${one}>`));
  if (answers.some((answer) => answer.startsWith("250"))) {
    await client.say("DATA");
    answers.push(await client.say(`${message.replace(/^\./gm, "..")}\r\n.`));
  }
  await client.quit();
  return answers;
}

/** One command at a time, or raw bytes. */
export class SmtpClient {
  readonly #socket: Socket;
  #heard = "";
  #onHeard: (() => void)[] = [];
  /** Whether the other side has closed. */
  isClosed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (bytes) => {
      this.#heard += bytes.toString("utf8");
      this.#tell();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.isClosed = true;
      this.#tell();
    });
  }

  static async open(port: number): Promise<SmtpClient> {
    const client = new SmtpClient(connect({ port, host: "127.0.0.1", noDelay: true }));
    await client.answer();
    return client;
  }

  /** On a connection that was greeted already. */
  static over(socket: Socket): SmtpClient {
    return new SmtpClient(socket);
  }

  /** What a new connection is told first. */
  static async greeting(port: number): Promise<string> {
    const client = new SmtpClient(connect({ port, host: "127.0.0.1" }));
    const greeting = await client.answer();
    client.destroy();
    return greeting;
  }

  /** The connection, for a TLS handshake. */
  detach(): Socket {
    this.#socket.removeAllListeners("data");
    return this.#socket;
  }

  write(bytes: string): void {
    this.#socket.write(bytes);
  }

  say(line: string): Promise<string> {
    this.write(`${line}\r\n`);
    return this.answer();
  }

  /** The next whole answer; empty when the other side closed without one. */
  async answer(): Promise<string> {
    for (;;) {
      const end = /^\d{3} [^\n]*\n/m.exec(this.#heard);
      if (end) {
        const answer = this.#heard.slice(0, end.index + end[0].length);
        this.#heard = this.#heard.slice(answer.length);
        return answer.trim();
      }
      if (this.isClosed) return "";
      await new Promise<void>((resolve) => this.#onHeard.push(resolve));
    }
  }

  #tell(): void {
    for (const resolve of this.#onHeard.splice(0)) resolve();
  }

  async quit(): Promise<void> {
    if (!this.isClosed) await this.say("QUIT");
    this.#socket.destroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
