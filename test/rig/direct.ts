/**
 * Receivers as DNS names them, each on an address of its own of this machine and all on one port, and a
 * direct courier that delivers to them under a clock the test moves.
 */
import { createServer } from "node:net";
import type { Env } from "../../src/config.ts";
import type { Manners } from "../../src/delivery/destination.ts";
import { Direct } from "../../src/delivery/direct.ts";
import { TlsCounter } from "../../src/delivery/tlssessions.ts";
import { mayCarryTo } from "../../src/networks.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import type { TlsWish } from "../../src/shaping/file.ts";
import type { Rooms } from "../../src/shaping/rooms.ts";
import type { PoolLimits } from "../../src/smtp/pool.ts";
import type { Reply } from "../../src/smtp/reply.ts";
import { clientContext } from "../../src/tlsgroups.ts";
import type { Dane } from "../../src/transport/dane.ts";
import { StsPolicies } from "../../src/transport/policies.ts";
import { Web } from "../../src/transport/web.ts";
import { type Authority, openAuthority } from "./authority.ts";
import { MovableClock } from "./clock.ts";
import { type Answer, type DnsServer, dnsOf, openDns } from "./dns.ts";
import { ALWAYS, FLY_EVERY_MS, FLY_MS, mailTo, openPeer, type Script, type ScriptedPeer } from "./peer.ts";
import { openPolicyHost, type PolicyHost } from "./policyhost.ts";
import { listenOn } from "./port.ts";
import { SOMEBODY, unshaped } from "./shaping.ts";
import { openSink, type Sink, type SinkOptions } from "./sink.ts";

export const MESSAGE = Buffer.from("Message-ID: <1@test>\r\n\r\nhello\r\n");
const LOOPBACK = { address: "127.0.0.0", prefix: 8 };
/** For couriers that meet a name whose servers are silent; others have to be answered within it. */
export const SILENCE_MS = 2_000;

export type DirectOptions = {
  manners?: Partial<Manners>;
  limits?: Partial<PoolLimits>;
  mailsMax?: number;
  dnsTimeoutMs?: number;
  conversationsMax?: number;
  destinationsMax?: number;
  /** Whether only the test moves the courier's clock, so that no hold-up of the machine counts. */
  isTimeStill?: boolean;
  /** Without it nothing on this machine may be reached. */
  mayReachLoopback?: boolean;
  /** Where MTA-STS policies are kept; without it they are kept nowhere. */
  sql?: Sql;
  /** What the shaping file says of the TLS of every destination. */
  tls?: TlsWish;
  /** How many connections a rule allows each receiver, and where they are counted. */
  connectionsEach?: { most: number; rooms: Rooms };
  dane?: Dane;
  /** Whether connections are counted, for the domains that ask for TLS reports. */
  isCounted?: boolean;
};

/** A part of the internet. */
export class World {
  readonly dns: DnsServer;
  readonly port: number;
  readonly httpsPort: number;
  /** Trusted by every courier of this world, and by nobody else. */
  readonly authority: Authority = openAuthority();
  /** By which policies expire. */
  readonly clock = new MovableClock(Date.now());
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor(dns: DnsServer, port: number, httpsPort: number) {
    this.dns = dns;
    this.port = port;
    this.httpsPort = httpsPort;
  }

  /** Names and what DNS says of them. */
  name(zones: Readonly<Record<string, Answer>>): void {
    for (const [name, answer] of Object.entries(zones)) this.dns.zones.set(name, answer);
  }

  async sinkAt(host: string, options: SinkOptions = {}): Promise<Sink> {
    const sink = await openSink({ ...options, host, port: this.port });
    this.#ends.push(() => sink.close());
    return sink;
  }

  async peerAt(host: string, script: Script): Promise<ScriptedPeer> {
    const peer = await openPeer(script, this.port, host);
    this.#ends.push(() => peer.close());
    return peer;
  }

  /** Serves the policy of a domain, and names it in DNS. */
  async policyOf(domain: string, host: string, policy: readonly string[], id = "1"): Promise<PolicyHost> {
    const name = `mta-sts.${domain}`;
    this.name({ [`_mta-sts.${domain}`]: { txt: [`v=STSv1; id=${id};`] }, [name]: { addresses: [host] } });
    const served = await openPolicyHost(host, this.httpsPort, this.authority.certify(name));
    served.text = ["version: STSv1", ...policy, "max_age: 86400", ""].join("\r\n");
    this.#ends.push(() => served.close());
    return served;
  }

  courier(options: DirectOptions = {}): DirectUnderTest {
    let aheadMs = 0;
    const resolver = dnsOf(this.dns, options.dnsTimeoutMs);
    const { manners, limits, mailsMax = 1_000, mayReachLoopback = true } = options;
    const { conversationsMax, destinationsMax, sql = null } = options;
    const allowed = mayCarryTo(mayReachLoopback ? [LOOPBACK] : []);
    const secureContext = clientContext(this.authority.certificate);
    const families = [4, 6] as const;
    const web = new Web({
      dns: resolver,
      families,
      mayCarryTo: allowed,
      port: this.httpsPort,
      secureContext,
    });
    const policies = new StsPolicies({
      sql,
      web,
      askTxt: (name) => resolver.resolveTxt(name),
      clock: this.clock,
      onFault: fail,
    });
    const counter =
      options.isCounted && sql
        ? new TlsCounter({
            sql,
            clock: this.clock,
            asksForReports: async (domain) =>
              (await resolver.resolveTxt(`_smtp._tls.${domain}`).catch(() => [])).length > 0,
            onFault: fail,
          })
        : null;
    const shaping = unshaped(null, options.connectionsEach?.rooms);
    if (options.tls) shaping.follow({ rules: [{ match: {}, tls: options.tls }] });
    if (options.connectionsEach)
      shaping.follow({ rules: [{ match: {}, connections: options.connectionsEach.most }] });
    const direct = new Direct({
      counter,
      manners: {
        port: this.port,
        tls: "opportunistic",
        helo: "client.test",
        conversationsMax: 20,
        secureContext,
        wallNow: this.clock.now,
        ...manners,
      },
      shaping,
      mailsMax,
      dns: resolver,
      families,
      mayCarryTo: allowed,
      stsOf: (domain) => policies.of(domain),
      ...(options.dane && { daneOf: (domain) => (options.dane as Dane).of(domain) }),
      now: () => (options.isTimeStill ? 0 : performance.now()) + aheadMs,
      random: Math.random,
      ...(conversationsMax !== undefined && { conversationsMax }),
      ...(destinationsMax !== undefined && { destinationsMax }),
      ...(limits && { limits }),
    });
    this.#ends.push(() => direct.close(0));
    const pass = (ms: number): void => {
      aheadMs += ms;
    };
    const send = (to: string | string[], permit = ALWAYS): Promise<Reply[]> =>
      direct.send(mailTo(to), MESSAGE, permit, SOMEBODY);
    const until = <T>(settled: Promise<T>): Promise<T> => {
      const timer = setInterval(pass, FLY_EVERY_MS, FLY_MS);
      return settled.finally(() => clearInterval(timer));
    };
    return { direct, counter, web, askTxt: (name) => resolver.resolveTxt(name), policies, send, pass, until };
  }

  /** Of an engine that delivers there by itself. */
  get settings(): Env {
    return {
      COURIER: "direct",
      EHLO_NAME: "client.test",
      DNS_SERVERS: this.dns.address,
      DIRECT_PORT: String(this.port),
      DIRECT_HTTPS_PORT: String(this.httpsPort),
      DIRECT_NETWORKS_ALLOWED: `${LOOPBACK.address}/${LOOPBACK.prefix}`,
    };
  }

  async end(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end();
    await this.dns.close();
  }
}

export type DirectUnderTest = {
  direct: Direct;
  policies: StsPolicies;
  counter: TlsCounter | null;
  web: Web;
  askTxt(name: string): Promise<string[][]>;
  send(to: string | string[], permit?: typeof ALWAYS): Promise<Reply[]>;
  /** Moves the courier's clock. */
  pass(ms: number): void;
  /** Moves it on and on until this is settled. */
  until<T>(settled: Promise<T>): Promise<T>;
};

export async function openWorld(): Promise<World> {
  return new World(await openDns(), await unusedPort(), await unusedPort());
}

async function unusedPort(): Promise<number> {
  const holder = createServer();
  const port = await listenOn(holder);
  await new Promise((resolve) => holder.close(resolve));
  return port;
}

function fail(error: unknown): never {
  throw error;
}

/** Phase and code or trouble of each. */
export function inShort(replies: readonly Reply[]): string[] {
  return replies.map(({ phase, code, error }) => `${phase} ${code ?? error}`);
}
