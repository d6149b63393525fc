/**
 * What `direct` and a test mail ask about receivers, as the settings describe it: DNS, policies, authorities.
 */
import { Resolver } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { rootCertificates, type SecureContext } from "node:tls";
import { messageOf } from "../caught.ts";
import type { Clock } from "../clock.ts";
import { mayCarryTo, type Network } from "../networks.ts";
import type { Sql } from "../record/db/connect.ts";
import { clientContext } from "../tlsgroups.ts";
import { Dane } from "../transport/dane.ts";
import { DnsClient, type DnsServerAt } from "../transport/dnsquery.ts";
import { StsPolicies } from "../transport/policies.ts";
import { reportTargetsIn } from "../transport/tlsrpt.ts";
import { Web } from "../transport/web.ts";
import type { RoutesOptions } from "./routes.ts";

export type ReceiverSettings = {
  dnsServers: readonly string[];
  directSourceAddress: string | null;
  directNetworksAllowed: readonly Network[];
  directCaFile: string | null;
  directHttpsPort: number;
  mtaSts: boolean;
  daneResolver: DnsServerAt | null;
  daneResolverTrusted: boolean;
  daneProbes: readonly string[];
  directPort: number;
};

export type ReceiverParts = {
  /** null: nothing is kept, for a command that sends one mail. */
  sql: Sql | null;
  clock: Clock;
  onFault(error: unknown): void;
};

export type Receivers = {
  web: Web;
  askTxt(name: string): Promise<string[][]>;
  routes: RoutesOptions;
  /** null: the usual authorities. */
  secureContext: SecureContext | null;
  /** null: MTA-STS is off. */
  policies: StsPolicies | null;
  /** null: no resolver is set. It is on when it has been started and proven. */
  dane: Dane | null;
  /** Whether a domain asks for TLS reports; null: DNS gave no answer. */
  asksForReports(domain: string): Promise<boolean | null>;
};

export const DNS_TIMEOUT_MS = 2_000;
export const DNS_TRIES = 2;

/** Throws with words for the operator. */
export function receiversFor(settings: ReceiverSettings, { sql, clock, onFault }: ReceiverParts): Receivers {
  const { dnsServers, directSourceAddress, directNetworksAllowed, directHttpsPort: port, mtaSts } = settings;
  const dns = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES });
  if (dnsServers.length > 0) dns.setServers(dnsServers);
  const families: readonly (4 | 6)[] =
    directSourceAddress === null ? [4, 6] : [directSourceAddress.includes(":") ? 6 : 4];
  const allowed = mayCarryTo(directNetworksAllowed);
  const secureContext = authoritiesIn(settings.directCaFile);
  const web = new Web({ dns, families, mayCarryTo: allowed, port, secureContext });
  const askTxt = (name: string) => dns.resolveTxt(name);
  const policies = mtaSts ? new StsPolicies({ sql, askTxt, web, clock, onFault }) : null;
  const dane = daneFor(settings);
  const asksForReports = (domain: string) =>
    askTxt(`_smtp._tls.${domain}`).then(
      (records) => reportTargetsIn(records.map((strings) => strings.join(""))).length > 0,
      ({ code }: NodeJS.ErrnoException) => (code === "ENOTFOUND" || code === "ENODATA" ? false : null),
    );
  return {
    web,
    askTxt,
    secureContext,
    policies,
    dane,
    asksForReports,
    routes: {
      dns,
      families,
      mayCarryTo: allowed,
      ...(policies && { stsOf: (domain: string) => policies.of(domain) }),
      ...(dane && { daneOf: (domain: string) => dane.of(domain) }),
      now: () => performance.now(),
      random: Math.random,
    },
  };
}

export function daneFor(
  settings: Pick<ReceiverSettings, "daneResolver" | "daneResolverTrusted" | "daneProbes" | "directPort">,
): Dane | null {
  const { daneResolver: server, daneResolverTrusted: isTrusted, daneProbes, directPort: smtpPort } = settings;
  if (server === null) return null;
  const [signed = "", broken = ""] = daneProbes;
  return new Dane(new DnsClient(server), { server, isTrusted, probes: [signed, broken], smtpPort });
}

/** With some of our own, all have to be named. Made once, since reading them takes milliseconds. */
function authoritiesIn(file: string | null): SecureContext | null {
  if (file === null) return null;
  try {
    return clientContext([...rootCertificates, readFileSync(file, "utf8")]);
  } catch (error) {
    throw new Error(`DIRECT_CA_FILE: ${messageOf(error)}. It must be a file with certificates (PEM).`);
  }
}
