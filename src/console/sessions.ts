/**
 * Who is signed in. A session is a random token in a cookie; the record has its hash. The token against
 * forged requests follows from it and the server's secret, so that nobody else can know it.
 */
import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { DAY_MS } from "../clock.ts";
import {
  beginSession,
  endSession,
  findSession,
  noteSessionUse,
  type SessionSpan,
  type SignedIn,
} from "../record/accounts/sessions.ts";
import type { Sql } from "../record/db/connect.ts";
import type { ConsoleRequest } from "./request.ts";

const TOKEN_BYTES = 32;
const KEY_BYTES = 32;
const LIVES_MS = 7 * DAY_MS;
const IDLE_MS = DAY_MS;
const NOTED_EVERY_MS = 600_000;
const SESSIONS_MAX = 20;

export type ConsoleSession = SignedIn & { hash: Buffer; csrf: string };

/** Whose password was shown to be known: the one with this hash. */
export type ProvenAccount = { id: string; passwordHash: string };

export type ConsoleSessionParts = { sql: Sql; serverSecret: string; isSecure: boolean };

export class Sessions {
  readonly #sql: Sql;
  readonly #key: Buffer;
  readonly #isSecure: boolean;

  constructor({ sql, serverSecret, isSecure }: ConsoleSessionParts) {
    this.#sql = sql;
    this.#key = Buffer.from(hkdfSync("sha256", serverSecret, "", "forged requests", KEY_BYTES));
    this.#isSecure = isSecure;
  }

  /**
   * A new one, whatever cookie the request came with: that one ends. `cookie` is the header that sets it;
   * null: there is none.
   */
  async begin(
    request: ConsoleRequest,
    { id: accountId, passwordHash }: ProvenAccount,
    now: number,
  ): Promise<{ cookie: string; session: ConsoleSession } | null> {
    const token = newToken();
    const old = request.cookie(this.#cookieName);
    const replaced = old === null ? null : tokenHash(old);
    const hash = tokenHash(token);
    const begun = { hash, accountId, passwordHash, replaced };
    if (!(await beginSession(this.#sql, begun, spanAt(now), SESSIONS_MAX, new Date(now)))) return null;
    const session = await this.#load(hash, now);
    return session && { cookie: this.#cookie(token, LIVES_MS / 1000), session };
  }

  async find(request: ConsoleRequest, now: number): Promise<ConsoleSession | null> {
    const token = request.cookie(this.#cookieName);
    return token === null || token === "" ? null : this.#load(tokenHash(token), now);
  }

  async #load(hash: Buffer, now: number): Promise<ConsoleSession | null> {
    const found = await findSession(this.#sql, hash, spanAt(now));
    if (!found) return null;
    if (now - found.usedAt.getTime() > NOTED_EVERY_MS) await noteSessionUse(this.#sql, hash, new Date(now));
    return { ...found, hash, csrf: createHmac("sha256", this.#key).update(hash).digest("base64url") };
  }

  async end({ hash }: ConsoleSession): Promise<void> {
    await endSession(this.#sql, hash);
  }

  /** The header that takes the cookie away. */
  get noCookie(): string {
    return this.#cookie("", 0);
  }

  /** A prefix that browsers accept on https only: no other host, and no page without TLS, can have set it. */
  get #cookieName(): string {
    return this.#isSecure ? "__Host-postrider" : "postrider";
  }

  #cookie(value: string, seconds: number): string {
    const attributes = ["Path=/", "HttpOnly", "SameSite=Strict", `Max-Age=${seconds}`];
    if (this.#isSecure) attributes.push("Secure");
    return [`${this.#cookieName}=${value}`, ...attributes].join("; ");
  }
}

export function newToken(): string {
  return randomBytes(TOKEN_BYTES).toString("base64url");
}

export function tokenHash(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

export function isSameText(given: string, wanted: string): boolean {
  return timingSafeEqual(tokenHash(given), tokenHash(wanted));
}

function spanAt(now: number): SessionSpan {
  return { begunSince: new Date(now - LIVES_MS), usedSince: new Date(now - IDLE_MS) };
}
