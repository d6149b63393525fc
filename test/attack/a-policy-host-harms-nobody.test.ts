/**
 * The host of an MTA-STS policy belongs to whoever owns the receiver's domain. Whatever it answers, no mail
 * waits for it longer than a bound, nothing inside our networks is asked, and what is no policy counts as
 * none.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import { inShort, openWorld, type World } from "../rig/direct.ts";
import { heldBy } from "../rig/held.ts";
import { openPolicyHost, type PolicyHost } from "../rig/policyhost.ts";

const POLICY_HOST = "127.1.0.9";
const ENFORCED = ["mode: enforce", "mx: nobody.test"];
/** The host has four seconds; the rest is for a busy machine. What is not bounded at all never ends. */
const MS_MAX = 20_000;

let world: World;
let served: PolicyHost;
beforeEach(async () => {
  world = await openWorld();
  world.name({ "a.test": { mx: [[10, "mx.a.test"]] }, "mx.a.test": { addresses: ["127.1.0.1"] } });
  served = await world.policyOf("a.test", POLICY_HOST, ENFORCED);
  await world.sinkAt("127.1.0.1");
});
afterEach(() => world.end());

const plain = { "content-type": "text/plain" };
const policy = () => served.text;
type Handle = (request: IncomingMessage, response: ServerResponse) => void;
const ANSWERS: readonly (readonly [string, Handle])[] = [
  ["redirects to another path", (_, r) => r.writeHead(301, { ...plain, location: "/other" }).end(policy())],
  [
    "redirects into our network",
    (_, r) => r.writeHead(302, { ...plain, location: "http://127.0.0.1/" }).end(),
  ],
  ["answers 404", (_, r) => r.writeHead(404, plain).end(policy())],
  ["answers 203", (_, r) => r.writeHead(203, plain).end(policy())],
  ["answers with HTML", (_, r) => r.writeHead(200, { "content-type": "text/html" }).end(policy())],
  ["answers without a type", (_, r) => r.writeHead(200).end(policy())],
  ["answers with 65 KB", (_, r) => r.writeHead(200, plain).end(`${policy()}${"x: y\n".repeat(14_000)}`)],
  ["says nothing", () => {}],
  ["never stops", (_, r) => void setInterval(() => r.write("x"), 1).unref()],
  ["drips", (_, r) => void setInterval(() => r.write("\n"), 200).unref()],
  [
    "breaks off",
    (_, r) => {
      r.writeHead(200, { ...plain, "content-length": "1000" }).write(policy());
      setImmediate(() => r.destroy());
    },
  ],
  [
    "sends headers without end",
    (_, r) => {
      r.socket?.write("HTTP/1.1 200 OK\r\n");
      const timer = setInterval(() => r.socket?.write(`x-${Math.random()}: ${"y".repeat(5_000)}\r\n`), 1);
      r.socket?.on("close", () => clearInterval(timer));
      timer.unref();
    },
  ],
  [
    "serves a policy of another version",
    (_, r) => r.writeHead(200, plain).end(policy().replace("STSv1", "STSv2")),
  ],
  [
    "serves a policy without hosts",
    (_, r) => r.writeHead(200, plain).end("version: STSv1\nmode: enforce\nmax_age: 60\n"),
  ],
  [
    "serves ten thousand hosts",
    (_, r) => r.writeHead(200, plain).end(policy() + "mx: a.test\n".repeat(5_000)),
  ],
  [
    "switches to another protocol",
    (_, r) => r.socket?.write("HTTP/1.1 101 Other\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n"),
  ],
  ["serves noise", (_, r) => r.writeHead(200, plain).end(Buffer.alloc(60_000, 0xff))],
];

test.each(ANSWERS)("one that %s holds up nobody", async (_, answer) => {
  served.answer = answer;
  const { send } = world.courier();
  const began = performance.now();
  expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
  expect(performance.now() - began).toBeLessThan(MS_MAX);
  expect(served.asked).toEqual(["/.well-known/mta-sts.txt"]);
});

test("one that was asked in vain is left alone for a while", async () => {
  served.answer = (_, r) => r.writeHead(500).end();
  const { send, pass } = world.courier();
  for (let n = 0; n < 3; n++) {
    await send("one@a.test");
    pass(600_001); // the route is looked up again
  }
  expect(served.asked).toHaveLength(1);
  world.clock.advance(300_001);
  await send("one@a.test");
  expect(served.asked).toHaveLength(2);
});

test("one with a certificate for another name is not believed", async () => {
  await served.close();
  const other = await openPolicyHost(POLICY_HOST, world.httpsPort, world.authority.certify("mta-sts.b.test"));
  other.text = served.text;
  const { send, policies } = world.courier();
  expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
  expect((await policies.of("a.test")).failure?.result).toBe("sts-webpki-invalid");
  await other.close();
  expect(other.asked).toEqual([]);
});

test.each([
  ["at a private address", { addresses: [POLICY_HOST] }],
  ["behind an alias for a private address", { alias: "inside.test" }],
])("one %s is not asked", async (_, zone) => {
  world.name({ "mta-sts.a.test": zone, "inside.test": { addresses: [POLICY_HOST, "::ffff:127.1.0.9"] } });
  const { policies } = world.courier({ mayReachLoopback: false });
  expect((await policies.of("a.test")).failure).toEqual({
    result: "sts-policy-fetch-error",
    why: "mta-sts.a.test leads to addresses that are not public",
  });
  expect(served.asked).toEqual([]);
});

test.each([
  ["two records", ["v=STSv1; id=1;", "v=STSv1; id=2;"]],
  ["an id with other letters", ["v=STSv1; id=a-b;"]],
  ["no id", ["v=STSv1;"]],
  ["another version", ["v=STSv12; id=1;"]],
  ["very many fields", [`v=STSv1; ${"x=y; ".repeat(10_000)}`]],
])("a record with %s names no policy", async (_, txt) => {
  world.name({ "_mta-sts.a.test": { txt } });
  expect(inShort(await world.courier().send("one@a.test"))).toEqual(["dot 250"]);
  expect(served.asked).toEqual([]);
});

test.each([
  ["many hosts", "mx: *.a.test\n".repeat(4_900)],
  ["a field with many spaces", `x: y${" ".repeat(60_000)}z\n`],
  ["a line of spaces", `${" ".repeat(60_000)}z\n`],
])("reading a policy with %s holds the loop for less than 50 ms", async (_, more) => {
  served.answer = (_, r) => r.writeHead(200, plain).end(`${policy()}${more}`);
  const { policies } = world.courier();
  expect(await heldBy(() => policies.of("a.test"), 50)).toBeLessThan(50);
});
