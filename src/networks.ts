/**
 * The addresses that mail and webhooks may go to: those of the public internet, and networks that the
 * operator allows.
 *
 * The owner of a domain chooses what its records point at. So loopback, private, link-local, shared (CGNAT),
 * multicast, reserved and documentation addresses are refused, in IPv6 all but global unicast and, in that,
 * what wraps IPv4 (6to4, Teredo; mapped and NAT64 addresses are outside of it anyway). So are the addresses
 * at which clouds serve their machines and which no registry lists. Our own addresses are refused because
 * mail would come back.
 */
import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";

export type Network = { readonly address: string; readonly prefix: number };

/** IANA's special-purpose registries (RFC 6890), multicast, and what clouds took beside them. */
const BARRED_V4 = networks([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32", // Azure's host: metadata, DNS and the agent's secrets
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
]);
const GLOBAL_V6 = networks(["2000::/3"]);
/** Protocol assignments with Teredo and ORCHID, documentation, 6to4, AS112. */
const BARRED_V6 = networks(["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]);

export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !BARRED_V4.check(address);
  return family === 6 && GLOBAL_V6.check(address, "ipv6") && !BARRED_V6.check(address, "ipv6");
}

/** Whether an address is of one of these networks. */
export function isWithin(allowed: readonly Network[]): (address: string) => boolean {
  const allowance = networks(allowed.map(({ address, prefix }) => `${address}/${prefix}`));
  return (address) => {
    const family = isIP(address);
    return family !== 0 && allowance.check(address, family === 4 ? "ipv4" : "ipv6");
  };
}

/** Whether mail may go to an address. */
export function mayCarryTo(
  allowed: readonly Network[],
  own: () => readonly string[] = ownAddresses,
): (address: string) => boolean {
  const isAllowed = isWithin(allowed);
  return (address) => isAllowed(address) || (isPublic(address) && !own().includes(address));
}

/** Cached, since reading them takes 150 us and one host may have any number of addresses. */
const OWN_KEEP_MS = 1_000;
let known: { own: string[]; readAt: number } | null = null;

function ownAddresses(): string[] {
  const now = performance.now();
  if (known === null || now - known.readAt >= OWN_KEEP_MS) {
    const interfaces = Object.values(networkInterfaces());
    known = { own: interfaces.flatMap((some) => (some ?? []).map(({ address }) => address)), readAt: now };
  }
  return known.own;
}

function networks(texts: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of texts) {
    const [address = "", prefix] = text.split("/");
    list.addSubnet(address, Number(prefix), isIP(address) === 4 ? "ipv4" : "ipv6");
  }
  return list;
}
