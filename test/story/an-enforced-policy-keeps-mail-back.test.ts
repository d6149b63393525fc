/**
 * A receiver whose MTA-STS policy says `enforce` gets its mail at hosts of the policy alone, over TLS with a
 * valid certificate. Otherwise the mail is deferred and says why; it never goes in the clear.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { classify } from "../../src/outcome/classify.ts";
import { openAuthority } from "../rig/authority.ts";
import { inShort, openWorld, type World } from "../rig/direct.ts";
import type { Talk } from "../rig/peer.ts";

const POLICY_HOST = "127.1.0.9";
const ENFORCED = ["mode: enforce", "mx: mx.a.test", "mx: *.pool.test"];

let world: World;
beforeEach(async () => {
  world = await openWorld();
  world.name({ "a.test": { mx: [[10, "mx.a.test"]] }, "mx.a.test": { addresses: ["127.1.0.1"] } });
});
afterEach(() => world.end());

const taking =
  (name: string, options = {}) =>
  (talk: Talk) =>
    talk.takeSecured(world.authority.certify(name, options));

test("a host of the policy with a valid certificate gets the mail, and the attempt names the policy", async () => {
  await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  await world.peerAt("127.1.0.1", taking("mx.a.test"));
  const [reply] = await world.courier().send("one@a.test");
  expect(reply).toMatchObject({
    phase: "dot",
    code: 250,
    via: { tls: "TLSv1.3", isVerified: true, policy: "sts" },
  });
});

test.each([
  ["the host offers no STARTTLS", (talk: Talk) => takeInTheOpen(talk, "PIPELINING"), "TLS_NOT_OFFERED"],
  ["the host refuses STARTTLS", refuseTls, null],
  ["the handshake breaks", breakTls, "ECONNRESET"],
  ["a reply comes before the handshake", injectReply, "GARBLED"],
  [
    "the certificate is signed by nobody we know",
    (talk: Talk) => talk.takeSecured(STRANGER()),
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  ],
  ["the certificate is another host's", taking("mx.b.test"), "ERR_TLS_CERT_ALTNAME_INVALID"],
  ["the certificate has expired", taking("mx.a.test", { isExpired: true }), "CERT_HAS_EXPIRED"],
])("where %s the mail is deferred", async (_, script, error) => {
  await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  await world.peerAt("127.1.0.1", script);
  const [reply] = await world.courier().send("one@a.test");
  expect(reply).toMatchObject({ phase: "tls", error });
  if (error !== null) expect(reply?.text).toContain("required by the receiver's MTA-STS policy");
  expect(reply && classify(reply, false, "receivers")).toMatchObject({
    kind: "deferred",
    why: "unreachable",
  });
});

test("without a policy the same hosts get it", async () => {
  await world.peerAt("127.1.0.1", (talk) => talk.takeSecured(STRANGER()));
  const [reply] = await world.courier().send("one@a.test");
  expect(reply).toMatchObject({ code: 250, via: { isVerified: false } });
  expect(reply?.via?.policy).toBeUndefined();
});

test("a host that proves nothing is passed over for the next one", async () => {
  world.name({
    "a.test": {
      mx: [
        [10, "mx.a.test"],
        [20, "second.pool.test"],
      ],
    },
    "second.pool.test": { addresses: ["127.1.0.2"] },
  });
  await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  const first = await world.peerAt("127.1.0.1", (talk) => takeInTheOpen(talk, "PIPELINING"));
  await world.peerAt("127.1.0.2", taking("second.pool.test"));
  const [reply] = await world.courier().send("one@a.test");
  expect(reply).toMatchObject({ code: 250, via: { host: "second.pool.test", policy: "sts" } });
  expect(first.talks).toHaveLength(1);
  expect(first.talks[0]?.heard).not.toContain("MAIL FROM:<sender@a.test>");
});

test("a host that the policy does not name gets nothing, however it is preferred", async () => {
  world.name({
    "a.test": {
      mx: [
        [1, "mx.evil.test"],
        [2, "deep.down.pool.test"],
        [10, "mx.a.test"],
      ],
    },
    "mx.evil.test": { addresses: ["127.1.0.2"] },
    "deep.down.pool.test": { addresses: ["127.1.0.2"] },
  });
  await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  await world.peerAt("127.1.0.1", taking("mx.a.test"));
  const evil = await world.peerAt("127.1.0.2", taking("mx.evil.test"));
  expect(inShort(await world.courier().send("one@a.test"))).toEqual(["dot 250"]);
  world.name({ "a.test": { mx: [[1, "mx.evil.test"]] } });
  const [reply] = await world.courier().send("one@a.test");
  expect(reply).toMatchObject({
    phase: "route",
    error: "MX_NOT_IN_POLICY",
    text: "4.7.5 no MX host of a.test is in its MTA-STS policy",
  });
  expect(reply && classify(reply, false, "receivers").kind).toBe("deferred");
  expect(evil.talks).toHaveLength(0);
});

test("a domain with the same hosts and no policy shares no connection with it", async () => {
  world.name({ "b.test": { mx: [[10, "mx.a.test"]] } });
  await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  const peer = await world.peerAt("127.1.0.1", async (talk) => {
    if (talk.number === 1) await takeInTheOpen(talk, "PIPELINING");
    else await taking("mx.a.test")(talk);
  });
  const { send } = world.courier();
  expect((await send("one@b.test"))[0]).toMatchObject({ code: 250, via: { tls: null } });
  expect((await send("one@a.test"))[0]).toMatchObject({
    code: 250,
    via: { tls: "TLSv1.3", isVerified: true },
  });
  expect(peer.talks).toHaveLength(2);
});

test.each(["testing", "none"])("a policy that says %s keeps nothing back", async (mode) => {
  await world.policyOf("a.test", POLICY_HOST, [`mode: ${mode}`, "mx: other.test"]);
  await world.peerAt("127.1.0.1", (talk) => takeInTheOpen(talk, "PIPELINING"));
  expect(inShort(await world.courier().send("one@a.test"))).toEqual(["dot 250"]);
});

test("what the operator requires of a destination is required as well", async () => {
  await world.peerAt("127.1.0.1", async (talk) => {
    await (talk.number === 1 ? takeInTheOpen(talk, "PIPELINING") : talk.takeSecured(STRANGER()));
  });
  const encrypted = world.courier({ tls: "required" });
  expect((await encrypted.send("one@a.test"))[0]).toMatchObject({
    error: "TLS_NOT_OFFERED",
    text: "mx.a.test does not offer STARTTLS (required for this destination)",
  });
  const other = world.courier({ tls: "required" });
  expect((await other.send("one@a.test"))[0]).toMatchObject({ code: 250, via: { policy: "setting" } });
  const verified = world.courier({ tls: "verified" });
  expect((await verified.send("one@a.test"))[0]).toMatchObject({ phase: "tls" });
});

test.each(["off", "opportunistic"] as const)("a shaping file that says %s weakens no policy", async (tls) => {
  await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  await world.peerAt("127.1.0.1", (talk) => takeInTheOpen(talk, "PIPELINING"));
  expect(inShort(await world.courier({ tls }).send("one@a.test"))).toEqual(["tls TLS_NOT_OFFERED"]);
});

const STRANGER = () => ({ ...strangers.certify("mx.a.test") });
const strangers = openAuthority("strangers.test");

async function takeInTheOpen(talk: Talk, ...extensions: string[]): Promise<void> {
  await talk.hello(...extensions);
  for (;;) await talk.takeMail();
}

async function refuseTls(talk: Talk): Promise<void> {
  await talk.offerTls();
  talk.say("454 4.7.0 no TLS today");
  await talk.gone();
}

async function breakTls(talk: Talk): Promise<void> {
  await talk.offerTls();
  talk.say("220 go on");
  talk.break();
}

async function injectReply(talk: Talk): Promise<void> {
  await talk.offerTls();
  talk.mutter("220 go on\r\n250 2.0.0 and this as if it were secured\r\n");
  await talk.gone();
}
