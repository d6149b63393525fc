/**
 * Identifies the key of a request and counts its rate. One script call when Redis knows the key. Requests of
 * one key that arrive in the same turn of the event loop share a call.
 *
 * A key that Redis does not have is loaded from Postgres and cached for a minute, never over a newer version.
 * Requests for the same key share a load, and loads are bounded per process: keys with a wrong check value
 * never get here, and a flood of real ones is answered 503 rather than passed on to Postgres.
 */
import type { Clock } from "../clock.ts";
import { Counter } from "../meter.ts";
import type { Sql } from "../record/db/connect.ts";
import { within } from "../record/db/groupcommit.ts";
import { findKeyByHash, type KeyRecord } from "../record/workspaces/keys.ts";
import { keyspace } from "../redis/keyspace.ts";
import { loadScript, type RedisClient } from "../redis/scripts.ts";
import { allowanceOf } from "../rules/allowance.ts";
import { limitsOf, type Plan, TERMS } from "../rules/plans.ts";
import { limitsText } from "../rules/stream.ts";
import type { Bearer } from "./bearer.ts";
import { RECORD_MS_MAX, Unavailable } from "./unavailable.ts";

export const RECORD_LIVES_MS = 60_000;
const LOADS_MAX = 64;
const ATTEMPTS_MAX = 4;

/** One value for all requests that were asked for together. */
export type Caller = {
  readonly bearer: Bearer;
  readonly keyId: string;
  readonly permissions: number;
  /** null: not restricted to audiences. */
  readonly audienceIds: readonly string[] | null;
  readonly workspaceId: string;
  readonly plan: Plan;
  readonly version: number;
  /** Its requests are refused until the operator resumes it. */
  readonly isSuspended: boolean;
  /** Of mail that names none. */
  readonly stream: string;
  /** Those that the workspace has defined, as `limitsText` writes them. */
  readonly streams: string;
};

type WaitingRequest = {
  bearer: Bearer;
  requests: { resolve(admission: Admission | null): void; reject(error: unknown): void }[];
};

/** Of the window with the fewest requests remaining, for the rate headers. */
export type Rate = { limit: number; per: Window; remaining: number; resetSeconds: number };

type Window = "second" | "minute";

export type Admission =
  | { kind: "admitted"; caller: Caller; rate: Rate }
  | { kind: "limited"; caller: Caller; rate: Rate; retryAfterSeconds: number }
  | { kind: "unknown key" };

const UNKNOWN: Admission = { kind: "unknown key" };

const ADMITTED = new Counter("postrider_admissions_total", "Keys that were asked for, by the answer", [
  "answer",
]);

export const admitScript = loadScript(
  "admit",
  ["key_record", "workspace_record", "key_rates", "workspace_rates"],
  ["now", "requests"],
);
export const rememberScript = loadScript(
  "remember",
  ["key_record", "workspace_record"],
  [
    "now",
    "lives_ms",
    "version",
    "key_state",
    "key_id",
    "permissions",
    "audiences",
    "key_stream",
    "workspace_id",
    "plan",
    "minute_scope",
    "per_second",
    "per_minute",
    "day_limit",
    "month_limit",
    "cap_day",
    "cap_hour",
    "reserved_share",
    "streams",
    "suspended",
  ],
);

export class Admitter {
  readonly #redis: RedisClient;
  readonly #reads: Sql;
  readonly #clock: Clock;
  readonly #loads = new Map<string, Promise<KeyRecord | null>>();
  /** Requests of this turn of the event loop, by the hash of their key. */
  #arriving = new Map<string, WaitingRequest>();

  constructor(redis: RedisClient, reads: Sql, clock: Clock) {
    this.#redis = redis;
    this.#reads = reads;
    this.#clock = clock;
  }

  async admit(bearer: Bearer): Promise<Admission> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const admission = (await this.#ask(bearer)) ?? ((await this.load(bearer)) ? null : UNKNOWN);
      if (!admission) continue;
      ADMITTED.add(1, admission.kind);
      return admission;
    }
    throw new Unavailable("memory", "Redis forgets a key at once");
  }

  /** Brings key and workspace from the record into Redis; null when there is no such key or it is revoked. */
  load(bearer: Bearer): Promise<KeyRecord | null> {
    const running = this.#loads.get(bearer.hash);
    if (running) return running;
    if (this.#loads.size >= LOADS_MAX)
      return Promise.reject(new Unavailable("capacity", "too many keys are being loaded"));
    const load = this.#load(bearer).finally(() => this.#loads.delete(bearer.hash));
    this.#loads.set(bearer.hash, load);
    return load;
  }

  /** null: Redis does not hold the key. */
  #ask(bearer: Bearer): Promise<Admission | null> {
    return new Promise((resolve, reject) => {
      const one = { resolve, reject };
      const others = this.#arriving.get(bearer.hash);
      if (others) {
        others.requests.push(one);
        return;
      }
      if (this.#arriving.size === 0) setImmediate(() => this.#askAll());
      this.#arriving.set(bearer.hash, { bearer, requests: [one] });
    });
  }

  #askAll(): void {
    const arrived = this.#arriving;
    this.#arriving = new Map();
    for (const { bearer, requests } of arrived.values())
      this.#askFor(bearer, requests.length).then(
        (admissionOf) => {
          for (const [place, { resolve }] of requests.entries()) resolve(admissionOf(place));
        },
        (error: unknown) => {
          for (const { reject } of requests) reject(error);
        },
      );
  }

  /** The verdict on the request at this position of the group, in order of arrival. */
  async #askFor({ handle, hash }: Bearer, requests: number): Promise<(place: number) => Admission | null> {
    const reply = (await this.#answer(
      admitScript.run(
        this.#redis,
        {
          key_record: keyspace.apiKey(handle, hash),
          workspace_record: keyspace.workspace(handle),
          key_rates: keyspace.keyRates(handle, hash),
          workspace_rates: keyspace.workspaceRates(handle),
        },
        { now: this.#clock.given(), requests },
      ),
    )) as AdmitReply;
    if (reply.length === 1) return () => (reply[0] === "miss" ? null : UNKNOWN);
    const [
      ,
      keyId,
      permissions,
      audiences,
      workspaceId,
      plan,
      version,
      admitted,
      limit,
      remaining,
      resetSeconds,
      retryAfterSeconds,
      suspended,
      stream,
      streams,
      per,
    ] = reply;
    const caller: Caller = {
      bearer: { handle, hash },
      keyId,
      permissions: Number(permissions),
      audienceIds: audiences === "" ? null : audiences.split(",").filter((id) => id !== NO_AUDIENCE),
      workspaceId,
      plan,
      version: Number(version),
      isSuspended: suspended === "1",
      stream,
      streams,
    };
    return (place) => {
      const after = admitted - place - 1;
      return after >= 0
        ? { kind: "admitted", caller, rate: { limit, per, remaining: remaining + after, resetSeconds } }
        : { kind: "limited", caller, rate: { limit, per, remaining, resetSeconds }, retryAfterSeconds };
    };
  }

  async #load(bearer: Bearer): Promise<KeyRecord | null> {
    let record: KeyRecord | null;
    try {
      record = await within(findKeyByHash(this.#reads, bearer.handle, bearer.hash), RECORD_MS_MAX);
    } catch (error) {
      throw new Unavailable("postgres", "Postgres did not answer", error);
    }
    if (!record) return null;
    const stored = await this.#answer(this.#remember(bearer, record));
    return stored === STAYS_REVOKED || record.isRevoked ? null : record;
  }

  #remember({ handle, hash }: Bearer, record: KeyRecord): Promise<unknown> {
    const limits = limitsOf(record.plan, record.limits);
    const allowance = allowanceOf(record);
    return rememberScript.run(
      this.#redis,
      { key_record: keyspace.apiKey(handle, hash), workspace_record: keyspace.workspace(handle) },
      {
        now: this.#clock.given(),
        lives_ms: RECORD_LIVES_MS,
        version: record.version,
        key_state: record.isRevoked ? "revoked" : "active",
        key_id: record.keyId,
        permissions: record.permissions,
        // a restricted key whose audiences are all gone stays restricted: it then sees nothing
        audiences: record.audienceIds ? [NO_AUDIENCE, ...record.audienceIds].join(",") : "",
        key_stream: record.stream,
        workspace_id: record.workspaceId,
        plan: record.plan,
        minute_scope: TERMS[record.plan].minuteScope,
        per_second: limits.requests_per_second,
        per_minute: limits.requests_per_minute,
        day_limit: allowance.dayLimit ?? "",
        month_limit: allowance.monthLimit,
        cap_day: allowance.capDay,
        cap_hour: allowance.capHour,
        reserved_share: allowance.reservedShare,
        streams: limitsText(allowance.streams),
        suspended: record.isSuspended ? "1" : "",
      },
    );
  }

  async #answer<T>(call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      throw new Unavailable("redis", "Redis did not answer", error);
    }
  }
}

const NO_AUDIENCE = "-";
/** Of remember.lua. */
const STAYS_REVOKED = 0;

type AdmitReply =
  | ["miss" | "revoked"]
  | [
      "known",
      string,
      string,
      string,
      string,
      Plan,
      string,
      number,
      number,
      number,
      number,
      number,
      string,
      string,
      string,
      Window,
    ];
