/**
 * A receiver of webhooks: an HTTP server that keeps what it was sent and answers as the test says. A request
 * is heard before it is answered, so a test may wait for one that is never answered.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { expect } from "vitest";
import { listenOn } from "./port.ts";

export type Heard = {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** Of the body, when it is JSON. */
  event: { type: string; created_at: string; data: Record<string, unknown> };
  /** From which connection. */
  port: number;
};
export type AnswerWith = (heard: Heard, response: ServerResponse, nth: number) => void;

export class Receiver {
  readonly heard: Heard[] = [];
  port = 0;
  readonly #server = createServer((request, response) => this.#hear(request, response));
  /** Answers 200 unless the test says otherwise. */
  answerWith: AnswerWith = (_, response) => response.end("ok");
  /** Requests that are being answered. */
  open = 0;
  mostOpen = 0;

  url(path = "/hook"): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  async listen(port?: number): Promise<void> {
    this.port = await listenOn(this.#server, port);
  }

  /** Hangs up on everybody, and is not there until it listens again. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** The types of what it heard about one e-mail or contact, in order. */
  typesOf(id: string): string[] {
    return this.about(id).map(({ event }) => event.type);
  }

  about(id: string): Heard[] {
    return this.heard.filter(({ event: { data } }) => data.email_id === id || data.id === id);
  }

  until(what: (receiver: Receiver) => unknown, timeout = 30_000): Promise<void> {
    return expect.poll(() => what(this), { timeout, interval: 20 }).toBeTruthy();
  }

  #hear(request: IncomingMessage, response: ServerResponse): void {
    this.open++;
    this.mostOpen = Math.max(this.mostOpen, this.open);
    response.on("close", () => this.open--);
    const chunks: Buffer[] = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString("utf8");
      const { method = "", url = "", headers, socket } = request;
      const heard = {
        method,
        path: url,
        headers,
        body,
        event: JSON.parse(body),
        port: socket.remotePort ?? 0,
      };
      this.heard.push(heard);
      this.answerWith(heard, response, this.heard.length);
    });
    request.on("error", () => {});
  }
}

export async function openReceiver(): Promise<Receiver> {
  const receiver = new Receiver();
  await receiver.listen();
  return receiver;
}

/** The settings of an engine that may send to receivers of the test. */
export const TO_LOOPBACK = { WEBHOOK_NETWORKS_ALLOWED: "127.0.0.0/8,::1/128" };
