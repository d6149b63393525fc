/**
 * Which URL an endpoint may have, and which addresses its name may lead to. Whoever adds an endpoint chooses
 * its URL, so both are hostile: only public addresses are connected to, and networks that the operator allows
 * (WEBHOOK_NETWORKS_ALLOWED). Outside of those `https` is required.
 *
 * A URL is checked when it is given; the addresses are checked for every connection, which goes to the
 * checked address and not to the name. So a name that leads elsewhere a moment later has no effect.
 */
import { isIP } from "node:net";
import { isWithin, mayCarryTo, type Network } from "../networks.ts";

const URL_CHARS_MAX = 2_048;
/** Below 1024 other protocols listen, to which an HTTP request may look like commands. */
const PORT_FREE_MIN = 1_024;
const PORTS_TAKEN: readonly number[] = [80, 443];
const LOOPBACK: readonly string[] = ["127.0.0.1", "::1"];

export type EgressRules = {
  /** The operator allows some network. */
  hasAllowed: boolean;
  /** Of a network that the operator allows. */
  isAllowed(address: string): boolean;
  /** Public, or of such a network. */
  isReachable(address: string): boolean;
};

export function egressRules(allowed: readonly Network[]): EgressRules {
  return { hasAllowed: allowed.length > 0, isAllowed: isWithin(allowed), isReachable: mayCarryTo(allowed) };
}

/** The URL as it is kept, or what is wrong with it, in words that follow the name of the field. */
export function readEndpoint(
  text: string,
  { hasAllowed, isAllowed, isReachable }: EgressRules,
): { url: string } | { fault: string } {
  if (text.length > URL_CHARS_MAX) return { fault: `must have at most ${URL_CHARS_MAX} characters` };
  if (!URL.canParse(text)) return { fault: "must be a URL, such as `https://example.com/webhooks`" };
  const url = new URL(text);
  if (url.protocol !== "https:" && url.protocol !== "http:") return { fault: "must start with https://" };
  if (url.username !== "" || url.password !== "") return { fault: "must not contain a user or a password" };
  const port = portOf(url);
  if (port < PORT_FREE_MIN && !PORTS_TAKEN.includes(port))
    return {
      fault: `must not have the port ${port}: of those below ${PORT_FREE_MIN} only 80 and 443 are allowed`,
    };
  const known = knownAddresses(hostOf(url));
  const mayBePlain = known === null ? hasAllowed : known.some(isAllowed);
  if (url.protocol === "http:" && !mayBePlain) return { fault: "must start with https://" };
  if (known !== null && !known.some(isReachable))
    return {
      fault: `must not lead to ${url.hostname}: only public addresses are allowed (the operator can allow others with WEBHOOK_NETWORKS_ALLOWED)`,
    };
  url.hash = "";
  return { url: url.href };
}

/** The name or address without brackets. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
}

export function portOf({ port, protocol }: URL): number {
  return port === "" ? (protocol === "https:" ? 443 : 80) : Number(port);
}

/** Where nobody has to be asked: an address, or a name of this machine (RFC 6761, 6.3). */
export function knownAddresses(host: string): readonly string[] | null {
  if (isIP(host) !== 0) return [host];
  return host === "localhost" || host.endsWith(".localhost") ? LOOPBACK : null;
}
