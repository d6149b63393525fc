/**
 * Checks that EHLO_NAME resolves to an address and that the PTR record of this address names it. Large
 * receivers refuse or throttle senders for which this does not hold (RFC 1912, 2.1).
 */
import { Resolver } from "node:dns/promises";
import { ownName } from "../smtp/ownname.ts";
import { DNS_TIMEOUT_MS, DNS_TRIES } from "./receivers.ts";

export type OwnNameSettings = {
  ehloName: string | null;
  dnsServers: readonly string[];
  directSourceAddress: string | null;
};

/** null: both hold; else what is wrong. */
export async function ownNameTrouble({
  ehloName,
  dnsServers,
  directSourceAddress,
}: OwnNameSettings): Promise<string | null> {
  const name = ehloName ?? ownName();
  if (name === null) return "EHLO_NAME is not set, and this machine has no full host name: set EHLO_NAME";
  const dns = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES });
  if (dnsServers.length > 0) dns.setServers(dnsServers);
  const nothing = (): string[] => [];
  const [v4, v6] = await Promise.all([dns.resolve4(name).catch(nothing), dns.resolve6(name).catch(nothing)]);
  const addresses = [...v4, ...v6];
  if (addresses.length === 0) return `${name} has no address in DNS: add an A or AAAA record`;
  if (directSourceAddress !== null && !addresses.includes(directSourceAddress))
    return `${name} does not resolve to ${directSourceAddress} (DIRECT_SOURCE_ADDRESS)`;
  for (const address of directSourceAddress === null ? addresses : [directSourceAddress])
    if (!(await dns.reverse(address).catch(nothing)).some((one) => one.toLowerCase() === name.toLowerCase()))
      return `the PTR record of ${address} is not ${name}: ask the owner of the address to set it`;
  return null;
}
