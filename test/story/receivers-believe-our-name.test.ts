/** Before anything is sent: whether our name and our address say the same, as receivers will check. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type OwnNameSettings, ownNameTrouble } from "../../src/delivery/namecheck.ts";
import { type DnsServer, openDns } from "../rig/dns.ts";

let dns: DnsServer;
beforeEach(async () => {
  dns = await openDns({
    "mail.example.com": { addresses: ["192.0.2.25"] },
    "25.2.0.192.in-addr.arpa": { ptr: "mail.example.com" },
    "other.example.com": { addresses: ["192.0.2.26"] },
    "26.2.0.192.in-addr.arpa": { ptr: "host-26.provider.example" },
    "bare.example.com": { addresses: ["192.0.2.27"] },
  });
});
afterEach(() => dns.close());

test.each<[Partial<OwnNameSettings>, string | null]>([
  [{ ehloName: "mail.example.com" }, null],
  [{ ehloName: "Mail.Example.com", directSourceAddress: "192.0.2.25" }, null],
  [
    { ehloName: "other.example.com" },
    "the PTR record of 192.0.2.26 is not other.example.com: ask the owner of the address to set it",
  ],
  [
    { ehloName: "bare.example.com" },
    "the PTR record of 192.0.2.27 is not bare.example.com: ask the owner of the address to set it",
  ],
  [{ ehloName: "nobody.example.com" }, "nobody.example.com has no address in DNS: add an A or AAAA record"],
  [
    { ehloName: "mail.example.com", directSourceAddress: "192.0.2.99" },
    "mail.example.com does not resolve to 192.0.2.99 (DIRECT_SOURCE_ADDRESS)",
  ],
])("%j: %s", async (settings, doubt) => {
  const whole = { ehloName: null, directSourceAddress: null, dnsServers: [dns.address], ...settings };
  expect(await ownNameTrouble(whole)).toBe(doubt);
});
