/**
 * Whom a mail goes to: MX records in their order, the domain itself where there are none, and nobody where
 * DNS says so.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { inShort, openWorld, SILENCE_MS, type World } from "../rig/direct.ts";

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.end());

test("the most preferred host takes the mail, and the others are left alone", async () => {
  world.name({
    "a.test": {
      mx: [
        [20, "second.test"],
        [10, "first.test"],
      ],
    },
    "first.test": { addresses: ["127.1.0.1"] },
    "second.test": { addresses: ["127.1.0.2"] },
  });
  const [first, second] = [await world.sinkAt("127.1.0.1"), await world.sinkAt("127.1.0.2")];
  const { send } = world.courier();
  for (let n = 0; n < 3; n++) expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
  expect([first.connections, second.connections]).toEqual([1, 0]);
  expect(first.ledger.faults).toEqual([]);
});

test("where nobody is at the first host the next one takes it, and the first is not asked again for a while", async () => {
  world.name({
    "a.test": {
      mx: [
        [10, "first.test"],
        [20, "second.test"],
      ],
    },
    "first.test": { addresses: ["127.1.0.1"] },
    "second.test": { addresses: ["127.1.0.2"] },
  });
  const second = await world.sinkAt("127.1.0.2");
  const { send, direct, pass } = world.courier({ limits: { idleMsMax: 10 } });
  expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
  const first = await world.sinkAt("127.1.0.1");
  await expect.poll(() => direct.figures.conversations).toBe(0);
  expect(inShort(await send("two@a.test"))).toEqual(["dot 250"]);
  expect([first.connections, second.connections]).toEqual([0, 2]);
  await expect.poll(() => direct.figures.conversations).toBe(0);
  pass(60_001);
  expect(inShort(await send("three@a.test"))).toEqual(["dot 250"]);
  expect([first.connections, second.connections]).toEqual([1, 2]);
});

test.each([421, 554])("a host that greets with %i is passed over, too", async (greetingCode) => {
  world.name({
    "a.test": {
      mx: [
        [10, "first.test"],
        [20, "second.test"],
      ],
    },
    "first.test": { addresses: ["127.1.0.1"] },
    "second.test": { addresses: ["127.1.0.2"] },
  });
  const [first, second] = [await world.sinkAt("127.1.0.1"), await world.sinkAt("127.1.0.2")];
  first.turn({ greetingCode });
  const { send } = world.courier();
  expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
  second.turn({ greetingCode });
  expect(first.connections).toBe(1);
  const other = world.courier();
  expect(inShort(await other.send("two@a.test"))).toEqual([`greeting ${greetingCode}`]);
});

test("hosts that share an address are tried once each, also when it refuses", async () => {
  world.name({
    "a.test": {
      mx: [
        [10, "first.test"],
        [20, "second.test"],
      ],
    },
    "first.test": { addresses: ["127.1.0.1"] },
    "second.test": { addresses: ["127.1.0.1"] },
  });
  const peer = await world.peerAt("127.1.0.1", async (talk) => {
    talk.say("554 not here");
    await talk.gone();
  });
  const { send } = world.courier();
  expect(inShort(await send("one@a.test"))).toEqual(["greeting 554"]);
  expect(peer.talks).toHaveLength(2);
});

test("hosts of equal preference share the mail", async () => {
  const hosts = [1, 2, 3, 4];
  world.name({ "a.test": { mx: hosts.map((n) => [10, `mx${n}.test`] as const) } });
  for (const n of hosts) world.name({ [`mx${n}.test`]: { addresses: [`127.1.0.${n}`] } });
  const sinks = await Promise.all(hosts.map((n) => world.sinkAt(`127.1.0.${n}`)));
  for (const sink of sinks) sink.turn({ dotDelayMs: 5 });
  const { send } = world.courier({ limits: { hurryMs: 0 } });
  await Promise.all(Array.from({ length: 200 }, (_, n) => send(`user${n}@a.test`)));
  for (const sink of sinks) expect(sink.ledger.mails.length).toBeGreaterThan(10);
});

test("a domain without MX takes its mail itself", async () => {
  world.name({ "a.test": { addresses: ["127.1.0.1"] } });
  const sink = await world.sinkAt("127.1.0.1");
  expect(inShort(await world.courier().send("one@a.test"))).toEqual(["dot 250"]);
  expect(sink.ledger.mails).toHaveLength(1);
});

test.each([
  ["does not exist", {}, "NO_DOMAIN", "5.1.2"],
  ["has neither MX nor address", { "a.test": {} }, "NO_DOMAIN", "5.1.2"],
  ["says that it takes no mail", { "a.test": { mx: [[0, ""]] as const } }, "NO_MAIL", "5.1.10"],
  ["has hosts without addresses", { "a.test": { mx: [[1, "mx.test"]] as const } }, "NO_HOST", "4.4.4"],
  ["has a host with no host name", { "a.test": { mx: [[1, "127.1.0.1"]] as const } }, "NO_HOST", "4.4.4"],
  ["has servers that fail", { "a.test": "fails" as const }, "DNS_FAILED", "4.4.3"],
  ["has servers that are silent", { "a.test": "is silent" as const }, "DNS_SILENT", "4.4.3"],
  [
    "has hosts whose servers fail",
    { "a.test": { mx: [[1, "mx.test"]] as const }, "mx.test": "fails" as const },
    "DNS_FAILED",
    "4.4.3",
  ],
])("a domain that %s is said to be so", async (_, zones, error, enhanced) => {
  world.name(zones);
  const { send } = world.courier(error === "DNS_SILENT" ? { dnsTimeoutMs: SILENCE_MS } : {});
  const [reply] = await send("one@a.test");
  expect(reply).toMatchObject({ phase: "route", code: null, error, enhanced });
});

test.each(["[127.1.0.1]", "127.1.0.1", "localhost", `${"a".repeat(64)}.test`])(
  "%s is no domain, and DNS is not asked",
  async (domain) => {
    const [reply] = await world.courier().send(`one@${domain}`);
    expect(reply).toMatchObject({ phase: "route", error: "NO_DOMAIN", enhanced: "5.1.2" });
    expect(world.dns.asked(domain)).toBe(0);
  },
);

test("an answer is used again for as long as it holds, and DNS is asked once however many want it", async () => {
  world.name({ "a.test": { mx: [[10, "mx.test"]] }, "mx.test": { addresses: ["127.1.0.1"] } });
  await world.sinkAt("127.1.0.1");
  const { send, pass } = world.courier();
  await Promise.all(Array.from({ length: 50 }, () => send("one@a.test")));
  expect([world.dns.asked("a.test"), world.dns.asked("mx.test")]).toEqual([1, 1]);
  pass(61_000); // the time to live of what the test's server says
  await send("one@a.test");
  expect([world.dns.asked("a.test"), world.dns.asked("mx.test")]).toEqual([2, 2]);
});

test("while DNS fails what was known before serves for an hour, and no longer", async () => {
  world.name({ "a.test": { mx: [[10, "mx.test"]] }, "mx.test": { addresses: ["127.1.0.1"] } });
  await world.sinkAt("127.1.0.1");
  const { send, pass } = world.courier();
  await send("one@a.test");
  world.name({ "a.test": "fails" });
  for (let minutes = 1; minutes < 60; minutes += 10) {
    pass(10 * 60_000);
    expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
  }
  pass(2 * 60_000);
  expect(inShort(await send("one@a.test"))).toEqual(["route DNS_FAILED"]);
});

test("a mail to several domains goes to each, and the replies stand in the order of its recipients", async () => {
  world.name({
    "a.test": { addresses: ["127.1.0.1"] },
    "b.test": { addresses: ["127.1.0.2"] },
    "null.test": { mx: [[0, ""]] },
  });
  const [a, b] = [await world.sinkAt("127.1.0.1"), await world.sinkAt("127.1.0.2")];
  const to = [
    "1@a.test",
    "2@b.test",
    "3@gone.test",
    "refuse-550@a.test",
    "4@null.test",
    "defer-451@b.test",
    "5@a.test",
  ];
  expect(inShort(await world.courier().send(to))).toEqual([
    "dot 250",
    "dot 250",
    "route NO_DOMAIN",
    "rcpt 550",
    "route NO_MAIL",
    "rcpt 451",
    "dot 250",
  ]);
  expect(a.ledger.mails.map((mail) => mail.to)).toEqual([["1@a.test", "5@a.test"]]);
  expect(b.ledger.mails.map((mail) => mail.to)).toEqual([["2@b.test"]]);
});

test("domains with the same MX set share their connections, whatever their preferences are called", async () => {
  world.name({
    "a.test": {
      mx: [
        [1, "mx1.test"],
        [5, "mx2.test"],
      ],
    },
    "b.test": {
      mx: [
        [20, "mx2.test"],
        [10, "mx1.test"],
      ],
    },
    "mx1.test": { addresses: ["127.1.0.1"] },
    "mx2.test": { addresses: ["127.1.0.2"] },
  });
  const sink = await world.sinkAt("127.1.0.1");
  const { send } = world.courier();
  await send("one@a.test");
  await send("two@b.test");
  expect(inShort(await send(["three@a.test", "four@b.test"]))).toEqual(["dot 250", "dot 250"]);
  expect(sink.connections).toBe(1);
  expect(sink.ledger.mails).toHaveLength(3);
});

test("private addresses are not reached unless they are allowed, not even through a public name", async () => {
  world.name({
    "a.test": { mx: [[10, "mx.test"]] },
    "mx.test": { addresses: ["127.1.0.1", "10.0.0.1", "169.254.169.254", "::1"] },
    "b.test": { addresses: ["::ffff:7f01:1"] },
  });
  const sink = await world.sinkAt("127.1.0.1");
  const { send } = world.courier({ mayReachLoopback: false });
  const replies = await send(["one@a.test", "two@b.test"]);
  expect(inShort(replies)).toEqual(["route ADDRESS_BARRED", "route ADDRESS_BARRED"]);
  expect(replies.map(({ enhanced }) => enhanced)).toEqual(["5.4.4", "5.4.4"]);
  expect(sink.connections).toBe(0);
});
