/**
 * The MTA-STS policies of receivers' domains, kept in Postgres for all processes.
 *
 * Promises: an answer within a bound, whatever DNS and the policy's host do. A policy that was found holds
 * until it expires, also while its record is gone or its host fails; it is fetched again in the background
 * before that. What cannot be read from Postgres is not taken for missing: then nothing is known, and the
 * mail waits.
 *
 * The record in DNS is asked for whenever the route of a domain is looked up, so that a new policy is heard
 * of; its file is fetched when the record names a policy that is not the one we have.
 */
import { type Clock, DAY_MS, HOUR_MS, inTime } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import {
  dropExpiredStsPolicies,
  findStsPolicy,
  keepStsPolicy,
  noteStsPolicyUsed,
  type StoredPolicy,
  takeStsPolicies,
} from "../record/transport/stspolicies.ts";
import { readPolicy, type StsMode, type StsPolicy, stsIdIn } from "./sts.ts";
import type { Web } from "./web.ts";

/** Why a domain's policy could not be had, in the words of RFC 8460, 4.3. */
export type StsFailure = {
  result: "sts-policy-fetch-error" | "sts-policy-invalid" | "sts-webpki-invalid";
  why: string;
};

/** Both: an older policy holds, and the one that the record names could not be had. */
export type StsFound = { policy: StsPolicy | null; failure: StsFailure | null };

export type PoliciesParts = {
  /** null: policies are not kept, for a command that sends one mail. */
  sql: Sql | null;
  askTxt(name: string): Promise<string[][]>;
  web: Web;
  clock: Clock;
  onFault(error: unknown): void;
};

const POLICY_BYTES_MAX = 64 * 1024;
const FETCH_MS_MAX = 4_000;
/** For DNS. A record that does not come in this time counts as missing. */
const RECORD_MS_MAX = 3_000;
/** After a failure the same file is not asked for again for so long. */
const FAILED_MS = 300_000;
const FAILURES_MAX = 10_000;
const REFRESH_MS_MAX = DAY_MS;
const REFRESH_MS_MIN = HOUR_MS;
const REFRESH_EVERY_MS = 60_000;
const REFRESHED_MAX = 20;
const DROPPED_MAX = 1_000;
/** What no mail used for so long is left to expire. */
const UNUSED_MS = 30 * DAY_MS;

export class StsPolicies {
  readonly #parts: PoliciesParts;
  readonly #failures = new Map<string, { failure: StsFailure; id: string; until: number }>();
  #timer: NodeJS.Timeout | null = null;
  #refreshing: Promise<void> | null = null;

  constructor(parts: PoliciesParts) {
    this.#parts = parts;
  }

  /** Throws when Postgres does not say what is kept. */
  async of(domain: string): Promise<StsFound> {
    const [kept, id] = await Promise.all([this.#kept(domain), this.#idOf(domain)]);
    if (id === null || id === kept?.id) return { policy: kept, failure: null };
    const failed = this.#failures.get(domain);
    if (failed && failed.id === id && failed.until > this.#parts.clock.now())
      return { policy: kept, failure: failed.failure };
    const fetched = await this.#fetch(domain, id);
    if ("mode" in fetched) {
      await this.#keep(domain, fetched);
      return { policy: fetched, failure: null };
    }
    this.#noteFailure(domain, id, fetched);
    return { policy: kept, failure: fetched };
  }

  /** Fetches policies again in the background, until `stop`. */
  start(): void {
    this.#timer = setInterval(() => {
      this.#refreshing ??= this.refresh()
        .catch(this.#parts.onFault)
        .finally(() => {
          this.#refreshing = null;
        });
    }, REFRESH_EVERY_MS);
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  /** Some of the policies that are due, one after the other; and forgets those that have expired. */
  async refresh(): Promise<void> {
    const { sql, clock } = this.#parts;
    if (sql === null) return;
    const now = clock.now();
    const times = {
      now: new Date(now),
      usedSince: new Date(now - UNUSED_MS),
      againAt: new Date(now + REFRESH_MS_MIN),
    };
    for (const { domain, id } of await takeStsPolicies(sql, times, REFRESHED_MAX)) {
      const fetched = await this.#fetch(domain, (await this.#idOf(domain)) ?? id);
      if ("mode" in fetched) await this.#keep(domain, fetched);
    }
    await dropExpiredStsPolicies(sql, new Date(now), DROPPED_MAX);
  }

  async #kept(domain: string): Promise<StsPolicy | null> {
    const { sql, clock, onFault } = this.#parts;
    if (sql === null) return null;
    const stored = await findStsPolicy(sql, domain);
    const now = clock.now();
    if (stored === null || stored.expiresAt.getTime() <= now) return null;
    if (now - stored.usedAt.getTime() > DAY_MS) noteStsPolicyUsed(sql, domain, new Date(now)).catch(onFault);
    return policyIn(stored);
  }

  async #idOf(domain: string): Promise<string | null> {
    const asked = this.#parts.askTxt(`_mta-sts.${domain}`).catch(() => []);
    return stsIdIn((await inTime(RECORD_MS_MAX, asked, () => [])).map((strings) => strings.join("")));
  }

  async #fetch(domain: string, id: string): Promise<StsPolicy | StsFailure> {
    const host = `mta-sts.${domain}`;
    const answer = await this.#parts.web.ask({
      host,
      path: "/.well-known/mta-sts.txt",
      answerBytesMax: POLICY_BYTES_MAX,
      deadlineMs: FETCH_MS_MAX,
    });
    if (answer.kind === "failed")
      return {
        result: answer.isCertificate ? "sts-webpki-invalid" : "sts-policy-fetch-error",
        why: answer.why,
      };
    if (answer.status !== 200)
      return { result: "sts-policy-fetch-error", why: `${host} answers ${answer.status}, not 200` };
    if (answer.type !== "text/plain")
      return { result: "sts-policy-invalid", why: `${host} does not answer with text/plain` };
    const policy = readPolicy(answer.body.toString("latin1"), id);
    return typeof policy === "string" ? { result: "sts-policy-invalid", why: `${host}: ${policy}` } : policy;
  }

  /** It holds for this mail in any case. */
  async #keep(domain: string, policy: StsPolicy): Promise<void> {
    const { sql, clock, onFault } = this.#parts;
    this.#failures.delete(domain);
    if (sql === null) return;
    const now = clock.now();
    const halfMs = (policy.maxAgeSeconds * 1_000) / 2;
    const refreshAt = new Date(now + Math.max(REFRESH_MS_MIN, Math.min(halfMs, REFRESH_MS_MAX)));
    const row = { domain, ...policy, mx: [...policy.mx] };
    await keepStsPolicy(sql, row, { fetchedAt: new Date(now), refreshAt }).catch(onFault);
  }

  #noteFailure(domain: string, id: string, failure: StsFailure): void {
    if (this.#failures.size >= FAILURES_MAX) this.#failures.clear();
    this.#failures.set(domain, { failure, id, until: this.#parts.clock.now() + FAILED_MS });
  }
}

function policyIn({ id, mode, mx, maxAgeSeconds }: StoredPolicy): StsPolicy {
  return { id, mode: mode as StsMode, mx, maxAgeSeconds };
}
