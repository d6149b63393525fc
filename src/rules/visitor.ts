/** By whom limits count what comes from outside. */

/** Whose address it is, as far as that can be told: of IPv6 everybody has at least a /64. */
export function ownerOf(address: string): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(":")) return mapped ?? address;
  const [head = "", tail] = address.split("::");
  const groups = head.split(":");
  const skipped = tail === undefined ? 0 : 8 - groups.length - tail.split(":").length;
  const all = [...groups, ...Array<string>(Math.max(0, skipped)).fill("0"), ...(tail ?? "").split(":")];
  return `${all.slice(0, 4).join(":")}::/64`;
}

/** Of an address, as wide as one who is given addresses has them: a /24 of IPv4, a /48 of IPv6. */
export function networkOf(address: string): string {
  const owner = ownerOf(address);
  if (owner.includes(":")) return `${owner.split(":").slice(0, 3).join(":")}::/48`;
  return `${owner.split(".").slice(0, 3).join(".")}.0/24`;
}
