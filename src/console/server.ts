/**
 * The HTTP server of the console: pages from memory, calls by session, and with every answer the headers that keep other
 * sites from showing, reading or driving it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline, Readable } from "node:stream";
import { type ConsoleAnswer, ConsoleRefusal } from "./refusal.ts";
import { ConsoleRequest, type RequestOptions } from "./request.ts";

const HEADERS_BYTES_MAX = 16 * 1024;
const HEADERS_MS_MAX = 10_000;
const REQUEST_MS_MAX = 60_000;
const CONNECTIONS_MAX = 1_000;
const IN_FLIGHT_MAX = 200;
const DRAIN_MS_MAX = 2_000;

/** Everything from our own origin, nothing inline. Frames are mail that is looked at: their own answer closes them in. */
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
  let inFlight = 0;
  const server = createServer(
    { maxHeaderSize: HEADERS_BYTES_MAX, headersTimeout: HEADERS_MS_MAX, requestTimeout: REQUEST_MS_MAX },
    (message, response) => {
      inFlight++;
      handle(parts, message, response, inFlight > IN_FLIGHT_MAX).finally(() => inFlight--);
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
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

async function handle(
  parts: ConsoleServerParts,
  message: IncomingMessage,
  response: ServerResponse,
  isFull: boolean,
): Promise<void> {
  response.on("error", () => {}); // the browser has gone
  const request = new ConsoleRequest(message, parts);
  try {
    const answer = isFull ? BUSY : await parts.answer(request, response);
    if (answer !== "answered") send(response, answer);
  } catch (error) {
    const isRead = request.method === "GET";
    send(response, error instanceof ConsoleRefusal ? error.answer : parts.failure(error, isRead));
  } finally {
    request.dropBody();
    message.resume();
  }
}

/** For what is written piece by piece, too. */
export function headersOf(headers: Record<string, string> = {}): Record<string, string> {
  return { ...SAFE, "Cache-Control": "no-store", ...headers };
}

function send(response: ServerResponse, { status, body, headers = {} }: ConsoleAnswer): void {
  if (response.headersSent || response.destroyed) return;
  if (body instanceof Readable) {
    response.writeHead(status, headersOf(headers));
    pipeline(body, response, () => {}); // what fails shows as an answer that breaks off
    return;
  }
  const isText = typeof body === "string" || Buffer.isBuffer(body);
  const bytes = isText ? body : JSON.stringify(body);
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
