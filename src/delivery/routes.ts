/**
 * The route of a domain's mail in DNS (RFC 5321, 5.1): its MX hosts by preference, each with the addresses
 * that mail may go to; without MX records, the domain's own address.
 *
 * Domains with equal MX sets share a route, since it is the same receiver, which counts all our connections
 * together. Equal means the whole set and its order: if one more host were allowed, its owner would get the
 * mail of the other domains. Connections go to exactly the addresses checked here, so a name that resolves
 * differently a moment later has no effect.
 *
 * A domain with an MTA-STS policy that says `enforce` has only the hosts that the policy allows, and each of
 * them needs TLS with a valid certificate. So it shares no connections with domains that have the same hosts
 * and no such policy.
 *
 * Promises: an answer within LOOKUP_MS_MAX, whatever DNS does; nothing throws. Answers are treated as
 * hostile: invalid host names are skipped, and long answers are cut.
 */

import { createHash } from "node:crypto";
import { isIP } from "node:net";
import { codeOf, messageOf } from "../caught.ts";
import { inTime } from "../clock.ts";
import { type Reply, troubleOf } from "../smtp/reply.ts";
import { stronger, type TlsNeed } from "../smtp/tlsneed.ts";
import type { DaneFound, HostDane } from "../transport/dane.ts";
import type { StsFound } from "../transport/policies.ts";
import { allows, type StsMode } from "../transport/sts.ts";
import { isHostName } from "../transport/web.ts";
import { type Learnt, LookupCache } from "./cache.ts";

/** The methods of node's Resolver that are used. */
export type Dns = {
  resolveMx(name: string): Promise<{ exchange: string; priority: number }[]>;
  resolve4(name: string, options: { ttl: true }): Promise<{ address: string; ttl: number }[]>;
  resolve6(name: string, options: { ttl: true }): Promise<{ address: string; ttl: number }[]>;
};

/** `rank`: 0 for the preferred hosts, 1 for those tried when none of them is reachable, and so on. */
export type Stop = {
  readonly host: string;
  readonly address: string;
  readonly rank: number;
  /** What a connection to it must prove; null: what the settings say. */
  readonly need: TlsNeed | null;
};
export type MailRoute = {
  /**
   * A digest of the MX set, of the hosts in it that may be used, and of what these must prove: the same for
   * all domains that have all three.
   */
  readonly name: string;
  /** The whole set. */
  readonly hosts: readonly string[];
  readonly learntAt: number;
  /** The most preferred first, equals in random order. Never empty. */
  readonly stops: readonly Stop[];
  readonly sts: StsFound;
};

export type RoutesOptions = {
  dns: Dns;
  /**
   * The address families we can connect from. IPv6 is used where there is no IPv4: receivers are stricter
   * about it.
   */
  readonly families: readonly (4 | 6)[];
  mayCarryTo(address: string): boolean;
  /** The MTA-STS policy of a domain; rejects when it could not be read. Without it no policy is asked for. */
  stsOf?(domain: string): Promise<StsFound>;
  /** Which hosts of a domain published their certificates. Without it nobody's are asked for. */
  daneOf?(domain: string): Promise<DaneFound>;
  /** Milliseconds that only move forward. */
  now(): number;
  /** In [0, 1). */
  random(): number;
};

const LOOKUP_MS_MAX = 10_000;
const ROUTE_KEEP_MS_MAX = 600_000;
const KEEP_MS_MIN = 60_000;
const ADDRESSES_KEEP_MS_MAX = 3_600_000;
const NEGATIVE_KEEP_MS = 60_000;
const UNREAD_KEEP_MS = 1_000;
const DOMAINS_MAX = 20_000;
const HOSTS_MAX = 20_000;
/**
 * Postfix's bound (smtp_mx_address_limit) is on addresses; here one host with many does not hide the next.
 */
const MX_HOSTS_MAX = 5;
const ADDRESSES_PER_HOST_MAX = 3;
/**
 * Hosts kept of one answer: more than any domain needs. An answer can hold a hundred times as many, and
 * routes are kept for many domains.
 */
const MX_KEPT_MAX = 50;
/** Of one answer, each of which is compared with our own addresses. */
const ADDRESSES_READ_MAX = 64;

type Mx = { host: string; rank: number };
/** The addresses of a host name. */
type FoundAddresses =
  | { kind: "addresses"; addresses: readonly string[]; keepMs: number }
  | { kind: "none" | "barred" | DnsFailure };

/** DNS reports that the domain's servers fail, or does not answer, which may be our own resolver's fault. */
type DnsFailure = "DNS_FAILED" | "DNS_SILENT";
const SILENCE: readonly string[] = ["ETIMEOUT", "ECONNREFUSED", "ECANCELLED", "ENETUNREACH", "EHOSTUNREACH"];

export class Routes {
  readonly #options: RoutesOptions;
  readonly #routes: LookupCache<MailRoute | Reply>;
  readonly #hosts: LookupCache<FoundAddresses>;

  constructor(options: RoutesOptions) {
    this.#options = options;
    this.#routes = new LookupCache((domain) => this.#findInTime(domain), options.now, DOMAINS_MAX);
    this.#hosts = new LookupCache((host) => this.#resolve(host), options.now, HOSTS_MAX);
  }

  /** The route, or why there is none; null: DNS has to be asked. */
  known(domain: string): MailRoute | Reply | null {
    return this.#routes.known(domain);
  }

  find(domain: string): Promise<MailRoute | Reply> {
    return this.#routes.learn(domain);
  }

  #findInTime(domain: string): Promise<Learnt<MailRoute | Reply>> {
    return inTime(LOOKUP_MS_MAX, this.#find(domain), () =>
      dnsFailed(domain, "DNS_SILENT", "no answer in time"),
    );
  }

  async #find(domain: string): Promise<Learnt<MailRoute | Reply>> {
    if (!isHostName(domain)) return final("NO_DOMAIN", `${domain} is no domain`, "5.1.2");
    const asked = Promise.all([this.#stsOf(domain), this.#options.daneOf?.(domain) ?? NO_DANE]);
    let all: Mx[];
    try {
      all = ranked(await this.#options.dns.resolveMx(domain));
    } catch (error) {
      const [code, message] = [codeOf(error), messageOf(error)];
      if (code === "ENOTFOUND") return final("NO_DOMAIN", `the domain ${domain} does not exist`, "5.1.2");
      if (code !== "ENODATA") return dnsFailed(domain, failureOf(code), code ?? message);
      all = [{ host: domain, rank: 0 }];
    }
    if (all.length === 1 && all[0]?.host === "")
      return final("NO_MAIL", `${domain} takes no mail (null MX)`, "5.1.10");
    const isImplicit = all.length === 1 && all[0]?.host === domain;
    const [sts, dane] = await asked;
    if ("phase" in sts) return { value: sts, keepMs: UNREAD_KEEP_MS, isFailure: true };
    const permitted = permittedHosts(domain, all, sts, dane);
    if (!Array.isArray(permitted)) return permitted;
    const hosts = this.#inOrder(permitted);
    const found = await Promise.all(hosts.map(({ host }) => this.#hosts.learn(host)));
    const stops = hosts.flatMap((mx, n) =>
      stopsAt(mx, found[n] as FoundAddresses, stronger(needOf(sts), daneNeed(dane, mx.host))),
    );
    if (stops.length > 0) {
      const keepMs = Math.min(
        ROUTE_KEEP_MS_MAX,
        ...found.flatMap((one) => (one.kind === "addresses" ? one.keepMs : [])),
      );
      const learntAt = this.#options.now();
      const needs = permitted.map(
        (mx) => `${mx.host} ${JSON.stringify(stronger(needOf(sts), daneNeed(dane, mx.host)))}`,
      );
      const value = { name: nameOf(all, needs), hosts: all.map(({ host }) => host), learntAt, stops, sts };
      return { value, keepMs, isFailure: false };
    }
    return whyNone(domain, found, isImplicit);
  }

  async #stsOf(domain: string): Promise<StsFound | Reply> {
    try {
      return (await this.#options.stsOf?.(domain)) ?? NO_STS;
    } catch (error) {
      const why = messageOf(error);
      return troubleOf(
        "session",
        "POLICY_UNREAD",
        `the MTA-STS policy of ${domain} could not be read: ${why}`,
      );
    }
  }

  /** The preferred ones, equal ones shuffled. */
  #inOrder(all: readonly Mx[]): Mx[] {
    return all
      .map((mx) => ({ mx, draw: this.#options.random() }))
      .sort((a, b) => a.mx.rank - b.mx.rank || a.draw - b.draw)
      .slice(0, MX_HOSTS_MAX)
      .map(({ mx }) => mx);
  }

  async #resolve(host: string): Promise<Learnt<FoundAddresses>> {
    const { dns, families, mayCarryTo } = this.#options;
    let found: Learnt<FoundAddresses> = {
      value: { kind: "none" },
      keepMs: NEGATIVE_KEEP_MS,
      isFailure: false,
    };
    for (const family of families) {
      try {
        const records = await (family === 4 ? dns.resolve4 : dns.resolve6).call(dns, host, { ttl: true });
        const all = records.slice(0, ADDRESSES_READ_MAX).filter(({ address }) => isIP(address) === family);
        const addresses = all.map(({ address }) => address).filter(mayCarryTo);
        const seconds = Math.min(...all.map(({ ttl }) => ttl));
        const keepMs = Math.min(Math.max(seconds * 1000, KEEP_MS_MIN), ADDRESSES_KEEP_MS_MAX);
        if (addresses.length > 0)
          return { value: { kind: "addresses", addresses, keepMs }, keepMs, isFailure: false };
        if (all.length > 0) found = { ...found, value: { kind: "barred" } };
      } catch (error) {
        const code = codeOf(error);
        if (code !== "ENOTFOUND" && code !== "ENODATA")
          found = { value: { kind: failureOf(code) }, keepMs: NEGATIVE_KEEP_MS, isFailure: true };
      }
    }
    return found;
  }
}

/**
 * Domains of one receiver may number the same order differently, and name a host twice: its best rank counts.
 * Of many hosts the preferred ones are kept, the same whatever order they come in.
 */
function ranked(records: readonly { exchange: string; priority: number }[]): Mx[] {
  const best = new Map<string, number>();
  for (const { exchange, priority } of records) {
    const host = exchange.toLowerCase().replace(/\.$/, "");
    best.set(host, Math.min(priority, best.get(host) ?? priority));
  }
  const kept = [...best].sort(([a, p], [b, q]) => p - q || (a < b ? -1 : 1)).slice(0, MX_KEPT_MAX);
  const preferences = [...new Set(kept.map(([, preference]) => preference))];
  const ranks = new Map(preferences.map((preference, rank) => [preference, rank]));
  return kept.map(([host, preference]) => ({ host, rank: ranks.get(preference) as number }));
}

const NO_STS: StsFound = { policy: null, failure: null };
const NO_DANE: DaneFound = { kind: "insecure" };
const ENCRYPTED_BY_DANE: TlsNeed = { kind: "encrypted", by: "dane" };
const NEEDS = {
  enforce: { kind: "verified", by: "sts" },
  testing: { kind: "none", by: "sts-testing" },
  none: null,
} as const satisfies Record<StsMode, TlsNeed | null>;

function needOf({ policy }: StsFound): TlsNeed | null {
  return policy ? NEEDS[policy.mode] : null;
}

/** The hosts that may get mail of the domain, or why none may. */
function permittedHosts(
  domain: string,
  all: readonly Mx[],
  sts: StsFound,
  dane: DaneFound,
): Mx[] | Learnt<Reply> {
  if (dane.kind === "failed") return daneFailed(domain, dane.why);
  const named = all.filter(({ host }) => isHostName(host));
  const permitted = named.filter(({ host }) => isPermitted(sts, host));
  if (named.length > 0 && permitted.length === 0) return notInPolicy(domain);
  const proven = permitted.filter(({ host }) => daneOfHost(dane, host).kind !== "failed");
  if (permitted.length > 0 && proven.length === 0) return daneFailed(domain, whyFailed(dane, permitted));
  return proven;
}

/** A host that signed MX records do not name was put there by somebody else. */
function daneOfHost(dane: DaneFound, host: string): HostDane {
  if (dane.kind !== "secure") return { kind: "none" };
  return dane.hosts.get(host) ?? { kind: "failed", why: `${host} is not in its signed MX records` };
}

function whyFailed(dane: DaneFound, hosts: readonly Mx[]): string {
  const [first] = hosts.flatMap(({ host }) => {
    const found = daneOfHost(dane, host);
    return found.kind === "failed" ? found.why : [];
  });
  return first ?? "unknown";
}

function daneNeed(dane: DaneFound, host: string): TlsNeed | null {
  const found = daneOfHost(dane, host);
  if (found.kind === "records") {
    const { records, name, alsoNamed } = found;
    return { kind: "dane", by: "dane", records, name, alsoNamed };
  }
  return found.kind === "unusable" ? ENCRYPTED_BY_DANE : null;
}

/** Whoever could keep the records from us would otherwise keep the mail unprotected. */
function daneFailed(domain: string, why: string): Learnt<Reply> {
  const text = `4.7.5 the signed records of ${domain} about its mail hosts could not be read: ${why}`;
  return {
    value: troubleOf("route", "DANE_FAILED", text, "4.7.5"),
    keepMs: NEGATIVE_KEEP_MS,
    isFailure: true,
  };
}

function isPermitted({ policy }: StsFound, host: string): boolean {
  return policy?.mode !== "enforce" || allows(policy, host);
}

/** Whoever could change the MX records would otherwise get the mail. */
function notInPolicy(domain: string): Learnt<Reply> {
  const text = `4.7.5 no MX host of ${domain} is in its MTA-STS policy`;
  return {
    value: troubleOf("route", "MX_NOT_IN_POLICY", text, "4.7.5"),
    keepMs: NEGATIVE_KEEP_MS,
    isFailure: false,
  };
}

function stopsAt({ host, rank }: Mx, found: FoundAddresses, need: TlsNeed | null): Stop[] {
  if (found.kind !== "addresses") return [];
  return found.addresses.slice(0, ADDRESSES_PER_HOST_MAX).map((address) => ({ host, address, rank, need }));
}

/**
 * After a failure of DNS anything is possible; a forbidden address is final; a host without addresses may be
 * a mistake.
 */
function whyNone(domain: string, found: readonly FoundAddresses[], isImplicit: boolean): Learnt<Reply> {
  const has = (kind: FoundAddresses["kind"]) => found.some((one) => one.kind === kind);
  for (const failure of ["DNS_SILENT", "DNS_FAILED"] as const)
    if (has(failure)) return dnsFailed(domain, failure, "the addresses of its hosts could not be looked up");
  if (has("barred"))
    return final(
      "ADDRESS_BARRED",
      `the mail hosts of ${domain} have only addresses to which no mail may be sent, such as private ones`,
      "5.4.4",
    );
  if (isImplicit) return final("NO_DOMAIN", `${domain} has neither an MX record nor an address`, "5.1.2");
  return {
    value: troubleOf("route", "NO_HOST", `no MX host of ${domain} has an address`, "4.4.4"),
    keepMs: NEGATIVE_KEEP_MS,
    isFailure: false,
  };
}

function final(error: "NO_DOMAIN" | "NO_MAIL" | "ADDRESS_BARRED", text: string, enhanced: string) {
  return {
    value: troubleOf("route", error, `${enhanced} ${text}`, enhanced),
    keepMs: NEGATIVE_KEEP_MS,
    isFailure: false,
  };
}

function failureOf(code: string | undefined): DnsFailure {
  return SILENCE.includes(code ?? "") ? "DNS_SILENT" : "DNS_FAILED";
}

function dnsFailed(domain: string, failure: DnsFailure, why: string): Learnt<Reply> {
  return {
    value: troubleOf("route", failure, `4.4.3 DNS about ${domain}: ${why}`, "4.4.3"),
    keepMs: NEGATIVE_KEEP_MS,
    isFailure: true,
  };
}

/**
 * Whatever has been learnt of addresses: what is allowed and what is needed decide whose mail may share a
 * connection.
 */
function nameOf(all: readonly Mx[], needs: readonly string[]): string {
  const set = all.map(({ host, rank }) => `${rank} ${host}`).sort();
  return createHash("sha256")
    .update(JSON.stringify([set, [...needs].sort()]))
    .digest("base64");
}
