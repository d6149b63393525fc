/**
 * Hosts that publish their certificates in signed DNS (DANE, RFC 7672) get mail over connections that show
 * one of them. What cannot be looked up keeps the mail back. It is on only with a resolver that proved that
 * it validates.
 */
import { createHash, X509Certificate } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { classify } from "../../src/outcome/classify.ts";
import type { Certificate } from "../../src/smtp/certificate.ts";
import { Dane } from "../../src/transport/dane.ts";
import { DnsClient } from "../../src/transport/dnsquery.ts";
import { openAuthority } from "../rig/authority.ts";
import { inShort, openWorld, type World } from "../rig/direct.ts";
import type { Talk } from "../rig/peer.ts";
import { startUnbound, type Unbound, unboundMissing } from "../rig/unbound.ts";

const missing = unboundMissing();
const PROBES = ["dane.test", "broken.test"] as const;
const chained = openAuthority("own-authority.test");
const other = openAuthority("other-authority.test");

/** A receiver of one host: what it publishes, and how it answers. */
type Receiver = { certificate: Certificate | null; tlsa: string[] };

function tlsa(certificate: string, usage: number, selector: number, matching: number): string {
  const { raw, publicKey } = new X509Certificate(certificate);
  const bytes = selector === 0 ? raw : publicKey.export({ type: "spki", format: "der" });
  const shown =
    matching === 0
      ? bytes
      : createHash(matching === 1 ? "sha256" : "sha512")
          .update(bytes)
          .digest();
  return `TLSA ${usage} ${selector} ${matching} ${shown.toString("hex")}`;
}

const withChain = ({ cert, key }: Certificate, authority: string): Certificate => ({
  cert: cert + authority,
  key,
});
const own = (name: string, options = {}): Certificate =>
  withChain(chained.certify(`mx.${name}.dane.test`, options), chained.certificate);

const receivers: Record<string, Receiver> = {};
const combinations = [3, 2].flatMap((usage) =>
  [0, 1].flatMap((selector) => [0, 1, 2].map((matching) => ({ usage, selector, matching }))),
);
for (const { usage, selector, matching } of combinations) {
  const name = `u${usage}s${selector}m${matching}`;
  const certificate = usage === 3 ? other.certify("elsewhere.test", { isExpired: true }) : own(name);
  const published = usage === 3 ? certificate.cert : chained.certificate;
  receivers[name] = { certificate, tlsa: [tlsa(published, usage, selector, matching)] };
}
const stranger = other.certify("mx.wrong.dane.test");
receivers.wrong = { certificate: stranger, tlsa: [tlsa(chained.certificate, 3, 1, 1)] };
receivers.rolled = {
  certificate: stranger,
  tlsa: [tlsa(chained.certificate, 3, 1, 1), tlsa(stranger.cert, 3, 1, 1)],
};
receivers.misnamed = { certificate: own("somebody"), tlsa: [tlsa(chained.certificate, 2, 1, 1)] };
// RFC 7672, 3.2.2: the domain of the mail is a name of its hosts
receivers.bydomain = {
  certificate: withChain(chained.certify("bydomain.dane.test"), chained.certificate),
  tlsa: [tlsa(chained.certificate, 2, 1, 1)],
};
receivers.expired = {
  certificate: own("expired", { isExpired: true }),
  tlsa: [tlsa(chained.certificate, 2, 1, 1)],
};
receivers.unchained = {
  certificate: chained.certify("mx.unchained.dane.test"),
  tlsa: [tlsa(chained.certificate, 2, 0, 0)],
};
receivers.unsent = {
  certificate: chained.certify("mx.unsent.dane.test"),
  tlsa: [tlsa(chained.certificate, 2, 1, 1)],
};
receivers.unusable = {
  certificate: stranger,
  tlsa: ["TLSA 1 1 1 00ff", "TLSA 3 1 1 00ff", "TLSA 3 9 1 00ff"],
};
receivers.unusableopen = { certificate: null, tlsa: ["TLSA 0 1 1 00ff"] };
receivers.open = { certificate: null, tlsa: [tlsa(chained.certificate, 3, 1, 1)] };
receivers.none = { certificate: null, tlsa: [] };
receivers.forged = { certificate: stranger, tlsa: [tlsa(stranger.cert, 3, 1, 2)] };
const names = Object.keys(receivers);
/** Hosts that are aliases: of what, and at which of the two names the certificate is published. */
const ALIASES = {
  target: { of: "real.target.dane.test", at: "real.target.dane.test" },
  initial: { of: "real.initial.dane.test", at: "mx.initial.dane.test" },
  leaving: { of: "mx.plain.test", at: "mx.leaving.dane.test" },
};
const aliased = own("aliased");
/** Aliases whose certificate is by an authority and for one of the two names. */
const ALIASES_BY_AUTHORITY = {
  calledbefore: { certificate: own("calledbefore"), address: "127.1.2.4" },
  calledafter: {
    certificate: withChain(chained.certify("real.calledafter.dane.test"), chained.certificate),
    address: "127.1.2.5",
  },
};
/** Two domains with the host of the first, which shows a certificate for the second. */
const SHARED = { host: "mx.sharing.dane.test", address: "127.1.2.6", domains: ["sharing", "shared"] };
const addressOf = (name: string) => `127.1.1.${names.indexOf(name) + 1}`;

let world: World;
let unbound: Unbound;
beforeAll(async () => {
  if (missing) return;
  world = await openWorld();
  const records = names.flatMap((name) => [
    `${name} MX 10 mx.${name}`,
    `mx.${name} A ${addressOf(name)}`,
    ...(receivers[name] as Receiver).tlsa.map((one) => `_${world.port}._tcp.mx.${name} ${one}`),
  ]);
  for (const [name, { of, at }] of Object.entries(ALIASES)) {
    const [target, published] = [of, at].map((one) => `${one}.`);
    records.push(`${name} MX 10 mx.${name}`, `mx.${name} CNAME ${target}`);
    if (of.endsWith(".dane.test")) records.push(`${target} A 127.1.2.3`);
    records.push(`_${world.port}._tcp.${published} ${tlsa(aliased.cert, 3, 1, 1)}`);
    world.name({
      [`${name}.dane.test`]: { mx: [[10, `mx.${name}.dane.test`]] },
      [`mx.${name}.dane.test`]: { addresses: ["127.1.2.3"] },
    });
  }
  await world.peerAt("127.1.2.3", (talk) => talk.takeSecured(aliased));
  const byAuthority = tlsa(chained.certificate, 2, 1, 1);
  for (const [name, { certificate, address }] of Object.entries(ALIASES_BY_AUTHORITY)) {
    const target = `real.${name}`;
    records.push(`${name} MX 10 mx.${name}`, `mx.${name} CNAME ${target}`, `${target} A ${address}`);
    records.push(`_${world.port}._tcp.${target} ${byAuthority}`);
    const host = `mx.${name}.dane.test`;
    world.name({ [`${name}.dane.test`]: { mx: [[10, host]] }, [host]: { addresses: [address] } });
    await world.peerAt(address, (talk) => talk.takeSecured(certificate));
  }
  records.push(`mx.sharing A ${SHARED.address}`, `_${world.port}._tcp.mx.sharing ${byAuthority}`);
  world.name({ [SHARED.host]: { addresses: [SHARED.address] } });
  for (const name of SHARED.domains) {
    records.push(`${name} MX 10 mx.sharing`);
    world.name({ [`${name}.dane.test`]: { mx: [[10, SHARED.host]] } });
  }
  const forShared = withChain(chained.certify("shared.dane.test"), chained.certificate);
  await world.peerAt(SHARED.address, (talk) => talk.takeSecured(forShared));
  const forgeTlsa = (text: string) =>
    text.replace(/^(_\d+\._tcp\.mx\.forged\..*TLSA\s+3 1 2 )(\w\w)/im, "$1ee");
  const forgeMx = (text: string) => text.replace(/(\sMX\s+)10(\s+mx\.badmx\.)/i, "$111$2");
  unbound = await startUnbound([
    { name: "dane.test", records, isSigned: true, forge: forgeTlsa },
    {
      name: "badmx.test",
      records: ["@ MX 10 mx.badmx.test.", "mx A 127.1.2.1"],
      isSigned: true,
      forge: forgeMx,
    },
    { name: "broken.test", records: ["@ A 127.0.0.1"], isSigned: true, isBroken: true },
    {
      name: "plain.test",
      records: [
        "@ MX 10 mx",
        "mx A 127.1.2.2",
        `_${world.port}._tcp.mx ${tlsa(chained.certificate, 3, 1, 1)}`,
      ],
      isSigned: false,
    },
  ]);
  for (const name of names) {
    const host = `mx.${name}.dane.test`;
    world.name({ [`${name}.dane.test`]: { mx: [[10, host]] }, [host]: { addresses: [addressOf(name)] } });
    const { certificate } = receivers[name] as Receiver;
    await world.peerAt(addressOf(name), (talk) =>
      certificate ? talk.takeSecured(certificate) : takeInTheOpen(talk),
    );
  }
  for (const [name, address] of [
    ["badmx.test", "127.1.2.1"],
    ["plain.test", "127.1.2.2"],
  ] as const) {
    world.name({ [name]: { mx: [[10, `mx.${name}`]] }, [`mx.${name}`]: { addresses: [address] } });
    await world.peerAt(address, takeInTheOpen);
  }
});
afterAll(async () => {
  await unbound?.stop();
  await world?.end();
});

async function takeInTheOpen(talk: Talk): Promise<void> {
  await talk.hello("PIPELINING");
  for (;;) await talk.takeMail();
}

function daneWith(probes: readonly [string, string] = PROBES, isTrusted = false, server = unbound): Dane {
  return new Dane(new DnsClient(server), { server, isTrusted, probes, smtpPort: world.port });
}

const faults: unknown[] = [];
async function sendTo(domain: string) {
  const dane = daneWith();
  dane.start((error) => faults.push(error));
  const [reply] = await world.courier({ dane }).send(`one@${domain}`);
  dane.stop();
  return reply;
}

describe.skipIf(missing)(missing ?? "with unbound", () => {
  test.each(combinations)(
    "a certificate as published with $usage $selector $matching gets the mail",
    async (c) => {
      const reply = await sendTo(`u${c.usage}s${c.selector}m${c.matching}.dane.test`);
      expect(reply).toMatchObject({ code: 250, via: { tls: "TLSv1.3", isVerified: true, policy: "dane" } });
    },
  );

  test.each([
    ["one of two published certificates", "rolled", true],
    ["an authority that stands in the record and is not sent", "unchained", true],
    ["another certificate", "wrong", "TLSA_MISMATCH"],
    ["the right authority and the name of the domain", "bydomain", true],
    ["the right authority and another name", "misnamed", "TLSA_MISMATCH"],
    ["the right authority and a certificate that has expired", "expired", "TLSA_MISMATCH"],
    ["an authority of which only the digest is published, and not sent", "unsent", "TLSA_MISMATCH"],
    ["no STARTTLS", "open", "TLS_NOT_OFFERED"],
    ["records that cannot be used, and no STARTTLS", "unusableopen", "TLS_NOT_OFFERED"],
  ])("a host with %s (%s)", async (_, name, result) => {
    const reply = await sendTo(`${name}.dane.test`);
    if (result === true) {
      expect(reply).toMatchObject({ code: 250, via: { isVerified: true, policy: "dane" } });
      return;
    }
    expect(reply).toMatchObject({ phase: "tls", error: result, via: { policy: "dane" } });
    expect(reply?.text).toContain("required by the receiver's TLSA records");
    expect(reply && classify(reply, false, "receivers")).toMatchObject({
      kind: "deferred",
      why: "unreachable",
    });
  });

  test.each([
    ["at the name that it stands for", "target"],
    ["at its own name", "initial"],
    ["at its own name, while it leads out of signed zones", "leaving"],
  ])("a host that is an alias publishes %s", async (_, name) => {
    expect(await sendTo(`${name}.dane.test`)).toMatchObject({
      code: 250,
      via: { isVerified: true, policy: "dane" },
    });
  });

  test.each([
    ["before its alias", "calledbefore"],
    ["after its alias", "calledafter"],
  ])("a certificate by the right authority may have the name %s", async (_, name) => {
    expect(await sendTo(`${name}.dane.test`)).toMatchObject({
      code: 250,
      via: { isVerified: true, policy: "dane" },
    });
  });

  test("a certificate for one domain proves nothing for another with the same host", async () => {
    const dane = daneWith();
    dane.start((error) => faults.push(error));
    const { send } = world.courier({ dane });
    expect(await send("one@shared.dane.test")).toMatchObject([{ code: 250, via: { isVerified: true } }]);
    expect(await send("two@sharing.dane.test")).toMatchObject([{ phase: "tls", error: "TLSA_MISMATCH" }]);
    dane.stop();
  });

  test("records that cannot be used ask for encryption alone", async () => {
    expect(await sendTo("unusable.dane.test")).toMatchObject({
      code: 250,
      via: { tls: "TLSv1.3", isVerified: false, policy: "dane" },
    });
  });

  test.each([
    ["publishes nothing", "none.dane.test"],
    ["publishes in a zone that is not signed", "plain.test"],
  ])("a domain that %s gets its mail as before", async (_, domain) => {
    const reply = await sendTo(domain);
    expect(reply).toMatchObject({ code: 250, via: { tls: null } });
    expect(reply?.via?.policy).toBeUndefined();
  });

  test.each([
    ["TLSA records", "forged.dane.test"],
    ["MX records", "badmx.test"],
  ])("where the signature of the %s is wrong, the mail is deferred", async (_, domain) => {
    const reply = await sendTo(domain);
    expect(reply).toMatchObject({ phase: "route", error: "DANE_FAILED" });
    expect(reply?.text).toContain("the resolver answers with the code 2");
    expect(reply && classify(reply, false, "receivers").kind).toBe("deferred");
  });

  test("a host that only unsigned DNS names gets nothing", async () => {
    world.name({ "u3s1m1.dane.test": { mx: [[1, "mx.plain.test"]] } });
    const reply = await sendTo("u3s1m1.dane.test");
    expect(reply).toMatchObject({ error: "DANE_FAILED" });
    expect(reply?.text).toContain("mx.plain.test is not in its signed MX records");
    world.name({ "u3s1m1.dane.test": { mx: [[10, "mx.u3s1m1.dane.test"]] } });
  });

  test.each([
    ["that does not mark signed names", ["plain.test", "broken.test"], "does not mark plain.test as proved"],
    ["that answers what is forged", ["dane.test", "plain.test"], "it does not validate"],
    [
      "that refuses signed names",
      ["broken.test", "broken.test"],
      "broken.test: the resolver answers with the code 2",
    ],
  ] as const)("a resolver %s is not believed", async (_, probes, why) => {
    expect(await daneWith(probes).doubt()).toContain(why);
  });

  test("a resolver on another machine is believed only where a setting says so", async () => {
    const server = { ...unbound, address: "192.0.2.53" };
    expect(await daneWith(PROBES, false, server).doubt()).toContain("DANE_RESOLVER_TRUSTED=true");
    expect(await daneWith().doubt()).toBeNull();
  });

  test("while the resolver is not proven, DANE is off and says so", async () => {
    const dane = daneWith(["plain.test", "broken.test"]);
    const told: unknown[] = [];
    dane.start((error) => told.push(String(error)));
    expect(inShort(await world.courier({ dane }).send("one@wrong.dane.test"))).toEqual(["dot 250"]);
    dane.stop();
    expect(told).toEqual([expect.stringContaining("DANE is off: the resolver does not mark plain.test")]);
    expect(faults).toEqual([]);
  });
});
