/**
 * DANE (RFC 7672): which hosts of a domain published their certificates in signed DNS.
 *
 * It is on only while the resolver is proven: it is on this machine or trusted by a setting, marks a signed
 * name as proved, and refuses a name whose signatures are wrong. Else anybody on the way to the resolver
 * could take records away.
 *
 * Promises: what the resolver cannot answer is never taken for missing.
 */
import { isThisMachine } from "../smtp/conversation.ts";
import { readTlsa, type Tlsa } from "../smtp/tlsa.ts";
import type { DnsAnswer, DnsClient, DnsServerAt } from "./dnsquery.ts";

export type DaneSettings = {
  server: DnsServerAt;
  /** Also where it is on another machine. */
  isTrusted: boolean;
  /** A name that is signed, and one whose signatures are wrong. */
  probes: readonly [signed: string, broken: string];
  /** Of the receivers. */
  smtpPort: number;
};

export type HostDane =
  /** Nothing is published, or its zone is not signed. */
  | { kind: "none" }
  /**
   * `name`: under which they are published; certificates by an authority of the host's own may also be valid
   * for one of `alsoNamed`.
   */
  | { kind: "records"; records: readonly Tlsa[]; name: string; alsoNamed: readonly string[] }
  /** What is published cannot be used: encryption is due all the same. */
  | { kind: "unusable" }
  | { kind: "failed"; why: string };

export type DaneFound =
  /** Its MX records are not signed, or DANE is off. */
  | { kind: "insecure" }
  /** Its hosts, by signed records: none of the others is one. */
  | { kind: "secure"; hosts: ReadonlyMap<string, HostDane> }
  | { kind: "failed"; why: string };

const HOSTS_MAX = 20;
const PROVE_EVERY_MS = 60_000;

export class Dane {
  readonly #dns: DnsClient;
  readonly #settings: DaneSettings;
  #timer: NodeJS.Timeout | null = null;
  #proving: Promise<void> | null = null;
  #isProven = false;

  constructor(dns: DnsClient, settings: DaneSettings) {
    this.#dns = dns;
    this.#settings = settings;
  }

  /** Proves the resolver, now and until it is; the first mails wait for the first answer. */
  start(onFault: (error: unknown) => void): void {
    let isTold = false;
    const prove = async (): Promise<void> => {
      const doubt = await this.doubt();
      this.#isProven = doubt === null;
      if (doubt !== null && !isTold) onFault(new Error(`DANE is off: ${doubt}`));
      isTold = doubt !== null;
      if (this.#isProven) this.stop();
    };
    this.#proving = prove();
    this.#timer = setInterval(() => void prove(), PROVE_EVERY_MS);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  /** Why the resolver is not relied on; null: it is proven. */
  async doubt(): Promise<string | null> {
    const { server, isTrusted, probes } = this.#settings;
    const [signed, broken] = probes;
    if (!isThisMachine(server.address) && !isTrusted)
      return `${server.address} is another machine: run a validating resolver on this one, or set DANE_RESOLVER_TRUSTED=true if nobody can change what passes in between`;
    const [good, bad] = await Promise.all([this.#dns.ask(signed, "SOA"), this.#dns.ask(broken, "A")]);
    if (good.kind === "failed") return `${signed}: ${good.why}`;
    if (!good.isSecure) return `the resolver does not mark ${signed} as proved by DNSSEC`;
    if (bad.kind === "failed" && bad.isRefused) return null;
    return bad.kind === "failed"
      ? `${broken}: ${bad.why}`
      : `the resolver answers for ${broken}, whose signatures are wrong: it does not validate`;
  }

  async of(domain: string): Promise<DaneFound> {
    await this.#proving;
    if (!this.#isProven) return { kind: "insecure" };
    const mx = await this.#dns.ask(domain, "MX");
    if (mx.kind === "failed") return mx;
    if (!mx.isSecure || mx.kind === "missing") return { kind: "insecure" };
    const named = [...new Set(mx.records.map(({ host }) => host))].slice(0, HOSTS_MAX);
    const hosts = named.length > 0 ? named : [domain];
    const domains = [domain, ...(mx.kind === "found" ? [mx.owner] : [])];
    const found = await Promise.all(
      hosts.map(async (host) => [host, namedAlso(await this.#ofHost(host), host, domains)] as const),
    );
    return { kind: "secure", hosts: new Map(found) };
  }

  /**
   * RFC 7672, 2.2.2: where its addresses are not signed, TLSA records are not asked for, unless it is a
   * signed alias.
   */
  async #ofHost(host: string): Promise<HostDane> {
    const v4 = await this.#dns.ask(host, "A");
    const address = hasRecords(v4) || v4.kind === "failed" ? v4 : await this.#dns.ask(host, "AAAA");
    if (address.kind === "failed") return address;
    const owner = address.kind === "found" ? address.owner : host;
    if (address.isSecure) {
      const found = await this.#published(owner);
      return found.kind === "none" && owner !== host ? this.#published(host) : found;
    }
    if (owner === host) return { kind: "none" };
    const alias = await this.#dns.ask(host, "CNAME");
    if (alias.kind === "failed") return alias;
    return alias.isSecure ? this.#published(host) : { kind: "none" };
  }

  async #published(name: string): Promise<HostDane> {
    const tlsa = await this.#dns.ask(`_${this.#settings.smtpPort}._tcp.${name}`, "TLSA");
    if (tlsa.kind === "failed") return tlsa;
    if (!hasRecords(tlsa) || !tlsa.isSecure) return { kind: "none" };
    const records = tlsa.records.flatMap(({ data }) => readTlsa(data) ?? []);
    return records.length > 0 ? { kind: "records", records, name, alsoNamed: [] } : { kind: "unusable" };
  }
}

/**
 * RFC 7672, 3.2.2: a certificate by an authority may name the host, before or after CNAME, or the domain of
 * the mail. Since a connection that only the domain's name proved carries no mail of others, the domain is
 * left out where it does not matter: the host is another's, and publishes its own certificate as well.
 */
function namedAlso(found: HostDane, host: string, domains: readonly string[]): HostDane {
  if (found.kind !== "records" || !found.records.some(({ usage }) => usage === 2)) return found;
  const isAuthorityAlone = found.records.every(({ usage }) => usage === 2);
  const isOwn = domains.some((domain) => host === domain || host.endsWith(`.${domain}`));
  const names = [host, ...(isOwn || isAuthorityAlone ? domains : [])];
  return { ...found, alsoNamed: [...new Set(names)].filter((name) => name !== found.name) };
}

function hasRecords(answer: DnsAnswer): answer is DnsAnswer & { kind: "found" } {
  return answer.kind === "found" && answer.records.length > 0;
}
