/**
 * HTTPS with hosts that a receiver's domain names: policies are fetched and reports are posted.
 *
 * Promises: a verified certificate; connections only to addresses that mail may go to as well, checked on the
 * addresses that are used; port 443; no redirect is followed; an answer within the deadline and the size, or
 * none. Nothing throws.
 */

import { request } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { SecureContext } from "node:tls";
import { TlsAgentInTurns } from "../agentsinturns.ts";
import { inTime, whenLate } from "../clock.ts";

/** The methods of node's Resolver that are used. */
export type AddressDns = {
  resolve4(name: string): Promise<string[]>;
  resolve6(name: string): Promise<string[]>;
};

export type WebOptions = {
  dns: AddressDns;
  families: readonly (4 | 6)[];
  mayCarryTo(address: string): boolean;
  /** Other than 443 in tests only. */
  port: number;
  /** Which authorities are trusted; null: the usual ones. */
  secureContext: SecureContext | null;
};

export type WebRequest = {
  host: string;
  path: string;
  method?: "GET" | "POST";
  headers?: Readonly<Record<string, string>>;
  body?: Buffer;
  answerBytesMax: number;
  deadlineMs: number;
};

export type WebAnswer =
  | { kind: "answer"; status: number; type: string; body: Buffer }
  /** `isCertificate`: the host proved to be nobody we know. */
  | { kind: "failed"; isCertificate: boolean; why: string };

/** Of one answer, each of which is compared with our own addresses. */
const ADDRESSES_READ_MAX = 64;
const ADDRESSES_MAX = 4;
const HEADER_BYTES_MAX = 16_384;
const HOST_CHARS_MAX = 253;
/** Underscores occur; a last label of digits would be an address in disguise. */
const HOST = /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** In lower case. */
export function isHostName(text: string): boolean {
  return text.length <= HOST_CHARS_MAX && HOST.test(text);
}

export class Web {
  readonly #options: WebOptions;

  constructor(options: WebOptions) {
    this.#options = options;
  }

  async ask(asked: WebRequest): Promise<WebAnswer> {
    if (!isHostName(asked.host)) return failed(`${JSON.stringify(asked.host.slice(0, 80))} is no host name`);
    const until = performance.now() + asked.deadlineMs;
    const late = failed(`${asked.host} did not answer in time`);
    const addresses = await inTime(asked.deadlineMs, this.#addressesOf(asked.host), () => late);
    if (!Array.isArray(addresses)) return addresses;
    return this.#converse(asked, addresses, until - performance.now());
  }

  /** Aliases are followed before, so these are the addresses that are connected to. */
  async #addressesOf(host: string): Promise<string[] | WebAnswer> {
    const { dns, families, mayCarryTo } = this.#options;
    const ask = (family: 4 | 6) => (family === 4 ? dns.resolve4(host) : dns.resolve6(host)).catch(() => []);
    const all = (await Promise.all(families.map(ask))).flat().filter((address) => isIP(address) !== 0);
    const allowed = all.slice(0, ADDRESSES_READ_MAX).filter(mayCarryTo).slice(0, ADDRESSES_MAX);
    if (all.length === 0) return failed(`${host} has no address`);
    return allowed.length > 0 ? allowed : failed(`${host} leads to addresses that are not public`);
  }

  #converse(
    { host, path, method = "GET", headers = {}, body, answerBytesMax }: WebRequest,
    addresses: readonly string[],
    ms: number,
  ): Promise<WebAnswer> {
    const { port, secureContext } = this.#options;
    const known = addresses.map((address) => ({ address, family: isIP(address) }));
    const lookup: LookupFunction = (_, { all }, done) =>
      all ? done(null, known) : done(null, known[0]?.address as string, known[0]?.family);
    return new Promise((resolve) => {
      const end = (answer: WebAnswer) => {
        cancel();
        resolve(answer);
        asking.destroy();
      };
      // some ends make no event of the request, such as that by another protocol (101)
      const cancel = whenLate(ms, () => end(failed(`${host} did not answer in time`)));
      const fail = (error: NodeJS.ErrnoException) =>
        end({ ...failed(`${host}: ${error.message}`), isCertificate: isAboutCertificate(error) });
      const asking = request(
        {
          host,
          port,
          path,
          method,
          headers: { ...headers, ...(body && { "content-length": String(body.length) }) },
          servername: host,
          lookup,
          agent: new TlsAgentInTurns(),
          maxHeaderSize: HEADER_BYTES_MAX,
          rejectUnauthorized: true,
          // Node takes it, its types do not
          ...(secureContext && { secureContext }),
        },
        (answer) => {
          const pieces: Buffer[] = [];
          let bytes = 0;
          answer.on("error", fail);
          answer.on("data", (piece: Buffer) => {
            bytes += piece.length;
            if (bytes > answerBytesMax) end(failed(`${host} answers with more than ${answerBytesMax} bytes`));
            else pieces.push(piece);
          });
          answer.on("end", () => {
            if (!answer.complete) return end(failed(`${host} broke off its answer`));
            const type = (answer.headers["content-type"] ?? "").split(";", 1)[0] as string;
            const whole = Buffer.concat(pieces);
            end({
              kind: "answer",
              status: answer.statusCode ?? 0,
              type: type.trim().toLowerCase(),
              body: whole,
            });
          });
        },
      );
      asking.on("error", fail);
      asking.end(body);
    });
  }
}

function failed(why: string): WebAnswer & { kind: "failed" } {
  return { kind: "failed", isCertificate: false, why };
}

function isAboutCertificate({ code = "" }: NodeJS.ErrnoException): boolean {
  return /CERT|SIGNATURE|CRL|ALTNAME/.test(code);
}
