/**
 * One POST to an endpoint. Promises: an answer within POST_MS_MAX, whatever the other side does; at most
 * RESPONSE_BYTES_MAX of it are read, in pieces that take turns with those of others; no redirect is followed;
 * the connection goes to an address that was checked.
 */

import type { Resolver } from "node:dns/promises";
import { type Agent, type IncomingMessage, type RequestOptions, request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { PlainAgentInTurns, TlsAgentInTurns } from "../agentsinturns.ts";
import { codeOf } from "../caught.ts";
import { whenLate } from "../clock.ts";
import { type EgressRules, hostOf, knownAddresses, portOf } from "./endpoint.ts";

export const POST_MS_MAX = 15_000;
const RESPONSE_BYTES_MAX = 64 * 1024;
/** Chunks of one byte cost 3 us each, 0.2 s in all. */
const RESPONSE_PIECES_MAX = 1_000;
const RESPONSE_CHARS_KEPT = 1_000;
const ERROR_CHARS_MAX = 300;
const HEADERS_BYTES_MAX = 16 * 1024;
/** What comes after these is not kept. */
const HEADERS_MAX = 200;
const SOCKET_IDLE_MS = 20_000;
const ADDRESSES_MAX = 16;
const LOOKUP_KEEP_MS = 5_000;

const AGENT = "Postrider-Webhooks/1.0";
const SILENT = `no answer within ${POST_MS_MAX / 1_000} s`;
const CLOSED: readonly string[] = ["ECONNRESET", "EPIPE"];

export type PostResult = {
  /** null: there was no answer. */
  status: number | null;
  ms: number;
  /** Why it counts as a failure, in words; null: it is delivered. */
  error: string | null;
  /** The beginning of what was answered. */
  response: string | null;
  retryAfter: string | undefined;
};

export type PosterParts = {
  dns: Pick<Resolver, "resolve4" | "resolve6">;
  rules: EgressRules;
};

/** A name leads to no address that may be connected to. */
class AddressBarred extends Error {}

/** Connections to one endpoint, kept open between events. */
export class Poster {
  readonly #url: URL;
  readonly #parts: PosterParts;
  readonly #agent: Agent;
  /** Of connections for one request each. */
  readonly #fresh: Agent;
  readonly #options: RequestOptions;
  #known: { addresses: Promise<string[]>; until: number } | null = null;
  #isClosed = false;

  constructor(endpoint: string, connectionsMax: number, parts: PosterParts) {
    this.#url = new URL(endpoint);
    this.#parts = parts;
    const isTls = this.#url.protocol === "https:";
    const settings = {
      keepAlive: true,
      maxSockets: connectionsMax,
      timeout: SOCKET_IDLE_MS,
      scheduling: "lifo" as const,
    };
    const AgentInTurns = isTls ? TlsAgentInTurns : PlainAgentInTurns;
    this.#agent = new AgentInTurns(settings);
    this.#fresh = new AgentInTurns();
    const host = hostOf(this.#url);
    this.#options = {
      method: "POST",
      host,
      port: portOf(this.#url),
      path: this.#url.pathname + this.#url.search,
      lookup: this.#lookup,
      maxHeaderSize: HEADERS_BYTES_MAX,
      ...(isTls && isIP(host) === 0 && { servername: host }),
    };
  }

  /** Nothing is sent any more, and what is under way is broken off. */
  close(): void {
    this.#isClosed = true;
    this.#agent.destroy();
    this.#fresh.destroy();
  }

  async post(body: string, headers: Record<string, string>): Promise<PostResult> {
    const began = performance.now();
    const host = hostOf(this.#url);
    // nobody is asked about an address, so `lookup` is not called for one
    const barred = isIP(host) === 0 ? null : this.#barred([host]);
    if (barred) return failed(null, barred.message, began);
    const result = await this.#try(body, headers, began, this.#agent);
    // who closed one connection that was kept open, in a restart say, closed the others too
    return result ?? ((await this.#try(body, headers, began, this.#fresh)) as PostResult);
  }

  /**
   * Over a connection of this agent. Null: the other side had closed one that was kept open, which says
   * nothing about this event.
   */
  #try(
    body: string,
    headers: Record<string, string>,
    began: number,
    agent: Agent,
  ): Promise<PostResult | null> {
    return new Promise((resolve) => {
      const send = this.#url.protocol === "https:" ? requestTls : requestPlain;
      const request = send({
        agent,
        headers: {
          host: this.#url.host,
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
          "user-agent": AGENT,
          ...headers,
        },
        ...this.#options,
      });
      request.maxHeadersCount = HEADERS_MAX;
      let answer: IncomingMessage | null = null;
      const finish = (result: PostResult | null): void => {
        cancel();
        resolve(result);
      };
      const late = () => {
        finish(answer ? resultOf(answer, "", began) : failed(null, SILENT, began));
        request.destroy();
      };
      // an event whose answer is not read is sent again
      const cancel = whenLate(POST_MS_MAX - (performance.now() - began), late);
      request.on("error", (error: NodeJS.ErrnoException) => {
        const wasClosed = request.reusedSocket && !this.#isClosed && CLOSED.includes(error.code ?? "");
        finish(wasClosed && !answer ? null : failed(answer?.statusCode ?? null, wordsOf(error), began));
      });
      request.on("response", (response: IncomingMessage) => {
        answer = response;
        readBounded(response, (text) => finish(resultOf(response, text, began)));
      });
      request.end(body);
    });
  }

  /** Called for a new connection only; whatever it hands back is connected to. */
  readonly #lookup: LookupFunction = (host, options, done) => {
    this.#addressesOf(host).then(
      (addresses) => {
        if (options.all === true)
          (done as (error: null, all: { address: string; family: number }[]) => void)(
            null,
            addresses.map((address) => ({ address, family: isIP(address) })),
          );
        else done(null, addresses[0] as string, isIP(addresses[0] as string));
      },
      (error) => done(error as NodeJS.ErrnoException, "", 0),
    );
  };

  #addressesOf(host: string): Promise<string[]> {
    const now = performance.now();
    if (this.#known === null || this.#known.until < now)
      this.#known = { addresses: this.#resolve(host), until: now + LOOKUP_KEEP_MS };
    return this.#known.addresses;
  }

  async #resolve(host: string): Promise<string[]> {
    const found = knownAddresses(host) ?? (await this.#ask(host));
    const barred = this.#barred(found);
    if (barred) throw barred;
    return found.filter((address) => this.#mayUse(address));
  }

  async #ask(host: string): Promise<string[]> {
    const { dns } = this.#parts;
    const [four, six] = await Promise.allSettled([dns.resolve4(host), dns.resolve6(host)]);
    const found = [four, six].flatMap((one) =>
      one.status === "fulfilled" ? one.value.slice(0, ADDRESSES_MAX) : [],
    );
    if (found.length === 0 && four.status === "rejected") throw new Error(dnsWords(host, four.reason));
    return found;
  }

  /** Null: one of them may be connected to. */
  #barred(addresses: readonly string[]): AddressBarred | null {
    if (addresses.some((address) => this.#mayUse(address))) return null;
    if (addresses.length === 0) return new AddressBarred(`${this.#url.hostname} has no address`);
    return new AddressBarred(
      addresses.some((address) => this.#parts.rules.isReachable(address))
        ? "the endpoint must start with https://"
        : `${this.#url.hostname} has an address to which webhooks may not be sent: only public ones are allowed`,
    );
  }

  #mayUse(address: string): boolean {
    const { isAllowed, isReachable } = this.#parts.rules;
    return this.#url.protocol === "https:" ? isReachable(address) : isAllowed(address);
  }
}

/** Hands the text to `done` once, when it is over, broken off or too long. */
function readBounded(response: IncomingMessage, done: (text: string) => void): void {
  // a chunk may be one byte, and a buffer for it takes two hundred
  const kept = Buffer.allocUnsafe(RESPONSE_CHARS_KEPT * 4);
  let [bytes, pieces] = [0, 0];
  const finish = () => done(kept.toString("utf8", 0, Math.min(bytes, kept.length)));
  response.on("error", finish);
  response.on("end", finish);
  response.on("data", (chunk: Buffer) => {
    if (bytes < kept.length) chunk.copy(kept, bytes);
    bytes += chunk.byteLength;
    if (bytes <= RESPONSE_BYTES_MAX && ++pieces <= RESPONSE_PIECES_MAX) return;
    finish();
    response.destroy();
  });
}

function resultOf(response: IncomingMessage, text: string, began: number): PostResult {
  const status = response.statusCode ?? 0;
  const ms = Math.round(performance.now() - began);
  if (status >= 200 && status < 300)
    return { status, ms, error: null, response: null, retryAfter: undefined };
  const error =
    status >= 300 && status < 400
      ? `redirects are not followed (${status})`
      : `the endpoint answered ${status}`;
  const kept = withoutNul(text).slice(0, RESPONSE_CHARS_KEPT);
  return {
    status,
    ms,
    error,
    response: kept === "" ? null : kept,
    retryAfter: response.headers["retry-after"],
  };
}

function failed(status: number | null, error: string, began: number): PostResult {
  return { status, ms: Math.round(performance.now() - began), error, response: null, retryAfter: undefined };
}

/** Postgres keeps no NUL and no half of a surrogate pair in a text. */
function withoutNul(text: string): string {
  return text.replaceAll("\u0000", "").toWellFormed();
}

function wordsOf(error: NodeJS.ErrnoException): string {
  if (error instanceof AggregateError) return wordsOf(error.errors[0] as NodeJS.ErrnoException);
  return withoutNul(error.message || error.code || "the connection was lost").slice(0, ERROR_CHARS_MAX);
}

function dnsWords(host: string, error: unknown): string {
  const code = codeOf(error);
  return code === "ENOTFOUND" || code === "ENODATA" ? `${host} has no address` : `DNS about ${host}: ${code}`;
}
