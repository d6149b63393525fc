/**
 * One request to the console: its head, its cookies and its body, which is bounded and counted as the API
 * counts them.
 */
import type { IncomingMessage } from "node:http";
import { ownerOf } from "../rules/visitor.ts";

const BODY_BYTES_MAX = 10 * 1024 * 1024;
const ADDRESS_CHARS_MAX = 64;

/** Memory for bodies, shared with the API where both are in one process. */
export type BodyRoom = {
  take(owner: string, bytes: number): boolean;
  give(owner: string, bytes: number): void;
};

export type ReceivedBody =
  | { kind: "body"; chunks: Buffer[]; size: number }
  | { kind: "too large" }
  | { kind: "gone" }
  | { kind: "no room" };

export type RequestOptions = { room: BodyRoom; trustProxy: boolean };

export class ConsoleRequest {
  readonly method: string;
  /** Where the API has it, once it is known to be the API's. */
  path: string;
  readonly query: string;
  readonly head: {
    idempotencyKey: string | null;
    batchValidation: string;
    contentLength: number;
    contentEncoding: string;
    contentType: string;
  };
  readonly hasBody: boolean;
  /** Whose body it is, once that is known. */
  owner = "console";
  onGone: (() => void) | null = null;
  /** As far as is known yet. */
  changesNothing: boolean;

  readonly #message: IncomingMessage;
  readonly #options: RequestOptions;
  #bytesHeld = 0;

  constructor(message: IncomingMessage, options: RequestOptions) {
    const { headers, url = "/", method = "GET" } = message;
    const cut = url.indexOf("?");
    this.#message = message;
    this.#options = options;
    this.method = method;
    this.changesNothing = method === "GET";
    this.path = cut < 0 ? url : url.slice(0, cut);
    this.query = cut < 0 ? "" : url.slice(cut + 1);
    const contentLength = Number(headers["content-length"] ?? 0);
    this.hasBody = contentLength > 0 || headers["transfer-encoding"] !== undefined;
    this.head = {
      idempotencyKey: this.header("idempotency-key") || null,
      batchValidation: this.header("x-batch-validation"),
      contentLength,
      contentEncoding: this.header("content-encoding"),
      contentType: this.header("content-type"),
    };
    message.once("close", () => {
      if (!message.complete) this.onGone?.();
    });
  }

  /** Empty when it is not there. */
  header(name: string): string {
    const value = this.#message.headers[name];
    return typeof value === "string" ? value : (value?.[0] ?? "");
  }

  /** The first of that name: a second one was set by somebody else. */
  cookie(name: string): string | null {
    for (const part of this.header("cookie").split(";")) {
      const cut = part.indexOf("=");
      if (cut > 0 && part.slice(0, cut).trim() === name) return part.slice(cut + 1).trim();
    }
    return null;
  }

  /** Where it comes from, as far as limits are concerned: of IPv6 the network. */
  get visitor(): string {
    const forwarded = this.header("x-forwarded-for").split(",").at(-1)?.trim() ?? "";
    const address =
      this.#options.trustProxy && forwarded !== "" ? forwarded : (this.#message.socket.remoteAddress ?? "");
    return ownerOf(withoutPort(address.slice(0, ADDRESS_CHARS_MAX)).toLowerCase());
  }

  body(bytesMax: number): Promise<ReceivedBody> {
    const most = Math.min(bytesMax, BODY_BYTES_MAX);
    if (this.head.contentLength > most) return Promise.resolve({ kind: "too large" });
    // whoever left while the session was looked up: no event tells of it any more
    if (this.#message.destroyed) return Promise.resolve({ kind: "gone" });
    const chunks: Buffer[] = [];
    let size = 0;
    return new Promise((resolve) => {
      const end = (received: ReceivedBody) => {
        this.#message.off("data", onData);
        this.#message.resume(); // what is not wanted is read and dropped: the answer could not leave otherwise
        resolve(received);
      };
      const onData = (chunk: Buffer) => {
        size += chunk.byteLength;
        if (size > most) return end({ kind: "too large" });
        if (!this.#options.room.take(this.owner, chunk.byteLength)) return end({ kind: "no room" });
        this.#bytesHeld += chunk.byteLength;
        chunks.push(chunk);
      };
      this.#message.on("data", onData);
      this.#message.once("end", () => end({ kind: "body", chunks, size }));
      this.#message.once("close", () => end({ kind: "gone" }));
    });
  }

  /**
   * Memory for what the answer is made of; false: there is none. Held, as the body is, until the answer has
   * left.
   */
  takeRoom(bytes: number): boolean {
    if (!this.#options.room.take(this.owner, bytes)) return false;
    this.#bytesHeld += bytes;
    return true;
  }

  /** The body was read by whoever asked for it, or nobody needs it any more. */
  dropBody(): void {
    if (this.#bytesHeld > 0) this.#options.room.give(this.owner, this.#bytesHeld);
    this.#bytesHeld = 0;
  }
}

/** Some proxies name the port of the visitor, too. */
function withoutPort(address: string): string {
  return /^([\d.]+):\d+$/.exec(address)?.[1] ?? /^\[(.*)\](:\d+)?$/.exec(address)?.[1] ?? address;
}
