/**
 * Counts how connections to receivers were secured, for the reports that their domains ask for (RFC 8460). A
 * session is one connection, counted once for each domain whose mail it carried, or did not carry because it
 * proved too little.
 *
 * Promises: a mail over a connection that was counted costs two look-ups in memory. Counts are written in
 * groups; those of domains that ask for no reports are dropped before. What is counted is bounded, and lost
 * if the process dies: ten seconds at most.
 */
import { type Clock, DAY_MS } from "../clock.ts";
import { isPublic } from "../networks.ts";
import type { Sql } from "../record/db/connect.ts";
import { addTlsSessions, type TlsSessions } from "../record/transport/tlssessions.ts";
import type { Phase, Reply } from "../smtp/reply.ts";
import { allows } from "../transport/sts.ts";
import { LookupCache } from "./cache.ts";
import type { MailRoute } from "./routes.ts";

export type TlsCounterParts = {
  sql: Sql;
  clock: Clock;
  /** Whether a domain asks for reports; null: DNS gave no answer. */
  asksForReports(domain: string): Promise<boolean | null>;
  onFault(error: unknown): void;
};

const FLUSH_EVERY_MS = 10_000;
const KEYS_MAX = 20_000;
const ASKED_AT_ONCE_MAX = 50;
const DOMAINS_MAX = 20_000;
const KEEP_MS = 3_600_000;
const KEEP_FAILURE_MS = 60_000;

type SecurityFinding = Pick<TlsSessions, "policy" | "result">;

export class TlsCounter {
  readonly #parts: TlsCounterParts;
  /** By connection, or by the reply where there was none. */
  readonly #counted = new WeakMap<object, Set<string>>();
  readonly #asking: LookupCache<boolean>;
  readonly #timer: NodeJS.Timeout;
  #counts = new Map<string, TlsSessions>();
  #flushing: Promise<void> | null = null;

  constructor(parts: TlsCounterParts) {
    this.#parts = parts;
    const ask = async (domain: string) => {
      const asks = await parts.asksForReports(domain);
      return {
        value: asks ?? false,
        keepMs: asks === null ? KEEP_FAILURE_MS : KEEP_MS,
        isFailure: asks === null,
      };
    };
    this.#asking = new LookupCache(ask, () => performance.now(), DOMAINS_MAX);
    this.#timer = setInterval(() => void this.flush(), FLUSH_EVERY_MS);
    this.#timer.unref();
  }

  /** Of a mail to the domain. */
  note(domain: string, route: MailRoute | Reply | null, reply: Reply): void {
    const session = reply.via ?? reply;
    const domains = this.#counted.get(session);
    if (domains?.has(domain)) return;
    const judged = judge(route, reply);
    if (judged === null) return;
    if (domains) domains.add(domain);
    else this.#counted.set(session, new Set([domain]));
    this.#add(domain, judged, reply);
  }

  /** Writes what was counted so far. */
  async flush(): Promise<void> {
    this.#flushing ??= this.#write()
      .catch(this.#parts.onFault)
      .finally(() => {
        this.#flushing = null;
      });
    await this.#flushing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#flushing;
    await this.flush();
  }

  #add(domain: string, judged: SecurityFinding, { via }: Reply): void {
    const day = Math.floor(this.#parts.clock.now() / DAY_MS);
    const localIp = via?.localIp ?? "";
    const one = {
      day,
      domain,
      ...judged,
      mxHost: via?.host ?? "",
      mxIp: via?.ip ?? "",
      // behind a translation it is not the one that the receiver saw
      sourceIp: isPublic(localIp) ? localIp : "",
    };
    const key = Object.values(one).join(" ");
    const known = this.#counts.get(key);
    if (known) known.sessions++;
    else if (this.#counts.size < KEYS_MAX) this.#counts.set(key, { ...one, sessions: 1 });
  }

  async #write(): Promise<void> {
    const taken = [...this.#counts.values()];
    this.#counts = new Map();
    const domains = [...new Set(taken.map(({ domain }) => domain))];
    const asking = new Set<string>();
    for (let n = 0; n < domains.length; n += ASKED_AT_ONCE_MAX)
      await Promise.all(
        domains.slice(n, n + ASKED_AT_ONCE_MAX).map(async (domain) => {
          if (await this.#asking.learn(domain)) asking.add(domain);
        }),
      );
    const wanted = taken.filter(({ domain }) => asking.has(domain));
    if (wanted.length > 0) await addTlsSessions(this.#parts.sql, wanted);
  }
}

const SECURED_OR_NOT: ReadonlySet<Phase> = new Set(["mail", "rcpt", "data", "dot"]);

/**
 * In the words of RFC 8460, 4.3; null: nothing was proved and nothing was missed, as where nobody answers.
 */
function judge(route: MailRoute | Reply | null, reply: Reply): SecurityFinding | null {
  const { via, phase, error } = reply;
  if (error === "MX_NOT_IN_POLICY") return { policy: "sts", result: "validation-failure" };
  if (error === "DANE_FAILED") return { policy: "tlsa", result: "dnssec-invalid" };
  if (!via || (phase !== "tls" && !SECURED_OR_NOT.has(phase))) return null;
  if (via.policy === "dane") return { policy: "tlsa", result: phase === "tls" ? tlsResult(reply) : "" };
  const sts = route !== null && "sts" in route ? route.sts : null;
  const policy = sts?.policy && sts.policy.mode !== "none" ? sts.policy : null;
  const name = policy || sts?.failure ? "sts" : "no-policy-found";
  if (phase === "tls") return { policy: name, result: tlsResult(reply) };
  if (sts?.failure && !policy) return { policy: name, result: sts.failure.result };
  if (via.tls === null) return { policy: name, result: "starttls-not-supported" };
  if (policy && !allows(policy, via.host)) return { policy: name, result: "validation-failure" };
  return { policy: name, result: policy && via.doubt !== null ? doubtResult(via.doubt) : "" };
}

function tlsResult({ code, error }: Reply): string {
  return code !== null || error === "TLS_NOT_OFFERED" ? "starttls-not-supported" : doubtResult(error ?? "");
}

function doubtResult(code: string): string {
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return "certificate-host-mismatch";
  if (code === "CERT_HAS_EXPIRED" || code === "CERT_NOT_YET_VALID") return "certificate-expired";
  return /CERT|SIGNATURE|ISSUER|VERIFY/.test(code) ? "certificate-not-trusted" : "validation-failure";
}
