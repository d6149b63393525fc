/** An HTTP front of the console that knows its live streams, and can refuse or end them. */
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { listenOn } from "./port.ts";

const LIVE = "/console/call/live";

export class StreamFront {
  /** Those that are open now, by what was asked for. */
  readonly streams = new Map<ServerResponse, string>();
  /** How many more streams are refused, as a proxy does while the console restarts. */
  refusals = 0;
  readonly #target: string;
  readonly #server = createServer((message, response) => this.#pass(message, response));
  #port = 0;

  constructor(target: string) {
    this.#target = target;
  }

  static async open(target: string): Promise<StreamFront> {
    const front = new StreamFront(target);
    front.#port = await listenOn(front.#server);
    return front;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  endStreams(): void {
    for (const response of this.streams.keys()) response.destroy();
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((closed) => this.#server.close(() => closed()));
  }

  #pass(message: IncomingMessage, response: ServerResponse): void {
    const { method, headers, url = "/" } = message;
    const isStream = url.startsWith(LIVE);
    if (isStream && this.refusals > 0) {
      this.refusals--;
      response.writeHead(502).end();
      return;
    }
    const asked = request(this.#target + url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      if (isStream && answer.statusCode === 200) this.streams.set(response, url);
    });
    asked.on("error", () => response.destroy());
    response.once("close", () => {
      this.streams.delete(response);
      asked.destroy();
    });
    message.pipe(asked);
  }
}
