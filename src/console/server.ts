/**
 * The HTTP server of the console: pages from memory, calls by session, and with every answer the headers that
 * keep other sites from showing, reading or driving it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline, Readable } from "node:stream";
import { ownerOf } from "../rules/visitor.ts";
import { readRequestsInTurns } from "./readinturns.ts";
import { type ConsoleAnswer, ConsoleRefusal } from "./refusal.ts";
import { ConsoleRequest, type RequestOptions } from "./request.ts";
import { writtenInTurns } from "./written.ts";

const HEADERS_BYTES_MAX = 16 * 1024;
const HEADERS_MS_MAX = 10_000;
const REQUEST_MS_MAX = 60_000;
const CONNECTIONS_MAX = 1_000;
const IN_FLIGHT_MAX = 200;
/** Of one network: whoever sends slowly keeps others from nothing. */
const IN_FLIGHT_EACH_MAX = 50;
const CONNECTIONS_EACH_MAX = 250;
const DRAIN_MS_MAX = 2_000;
/** Of a reader, amid an answer. */
const SILENCE_MS_MAX = 60_000;

/**
 * Everything from our own origin, nothing inline. Frames are mail that is looked at: their own answer closes
 * them in.
 */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "frame-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join("; ");

const SAFE: Record<string, string> = {
  "Content-Security-Policy": PAGE_POLICY,
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  // with `no-referrer` browsers would hide the origin of the page's own requests, too
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
  "X-Robots-Tag": "noindex",
};

export type ConsoleServerParts = RequestOptions & {
  answer(request: ConsoleRequest, response: ServerResponse): Promise<ConsoleAnswer | "answered">;
  /** What is told of an error that is no refusal. */
  failure(error: unknown, isRead: boolean): ConsoleAnswer;
};

export type ConsoleServer = { port: number; stop(): Promise<void> };

export function startConsoleServer(
  parts: ConsoleServerParts,
  host: string,
  port: number,
): Promise<ConsoleServer> {
  const inFlight = new VisitorCounts();
  const connections = new VisitorCounts();
  const server = createServer(
    { maxHeaderSize: HEADERS_BYTES_MAX, headersTimeout: HEADERS_MS_MAX, requestTimeout: REQUEST_MS_MAX },
    (message, response) => {
      const request = new ConsoleRequest(message, parts);
      const { visitor } = request;
      const own = inFlight.add(visitor);
      const isFull = inFlight.all > IN_FLIGHT_MAX || own > IN_FLIGHT_EACH_MAX;
      handle(parts, request, message, response, isFull).finally(() => inFlight.take(visitor));
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
  readRequestsInTurns(server);
  // all connections of a proxy come from one address
  if (!parts.trustProxy)
    server.on("connection", (socket) => {
      const from = ownerOf(socket.remoteAddress ?? "");
      if (connections.add(from) > CONNECTIONS_EACH_MAX) socket.destroy();
      socket.once("close", () => connections.take(from));
    });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        stop: () =>
          new Promise((stopped) => {
            const timer = setTimeout(() => server.closeAllConnections(), DRAIN_MS_MAX);
            server.close(() => {
              clearTimeout(timer);
              stopped();
            });
            server.closeIdleConnections();
          }),
      }),
    );
  });
}

/** How many there are of each. */
class VisitorCounts {
  readonly #of = new Map<string, number>();
  all = 0;

  /** Hands back how many there are with this one. */
  add(name: string): number {
    const count = (this.#of.get(name) ?? 0) + 1;
    this.#of.set(name, count);
    this.all++;
    return count;
  }

  take(name: string): void {
    const left = (this.#of.get(name) ?? 1) - 1;
    if (left > 0) this.#of.set(name, left);
    else this.#of.delete(name);
    this.all--;
  }
}

async function handle(
  parts: ConsoleServerParts,
  request: ConsoleRequest,
  message: IncomingMessage,
  response: ServerResponse,
  isFull: boolean,
): Promise<void> {
  response.on("error", () => {}); // the browser has gone
  try {
    const answer = isFull ? BUSY : await parts.answer(request, response);
    if (answer !== "answered") await send(response, answer);
  } catch (error) {
    const isRefusal = error instanceof ConsoleRefusal;
    await send(response, isRefusal ? error.answer : parts.failure(error, request.changesNothing));
  } finally {
    if (response.closed) request.dropBody();
    else response.once("close", () => request.dropBody());
    message.resume();
  }
}

/** For what is written piece by piece, too. */
export function headersOf(headers: Record<string, string> = {}): Record<string, string> {
  return { ...SAFE, "Cache-Control": "no-store", ...headers };
}

async function send(response: ServerResponse, { status, body, headers = {} }: ConsoleAnswer): Promise<void> {
  const isWritten = typeof body === "string" || Buffer.isBuffer(body) || body instanceof Readable;
  const bytes = isWritten ? body : await writtenInTurns(body);
  if (response.headersSent || response.destroyed) return;
  // what waits for a reader who has stopped reading is held for nobody
  response.setTimeout(SILENCE_MS_MAX, () => response.destroy());
  if (bytes instanceof Readable) {
    response.writeHead(status, headersOf(headers));
    pipeline(bytes, response, () => {}); // what fails shows as an answer that breaks off
    return;
  }
  const typed = { "Content-Type": "application/json; charset=utf-8", ...headers };
  response.writeHead(status, headersOf(typed)).end(status === 304 ? undefined : bytes);
}

const BUSY: ConsoleAnswer = {
  status: 503,
  body: {
    statusCode: 503,
    name: "service_unavailable",
    message: "Too many requests are being processed. Try again in 1 second.",
  },
};
