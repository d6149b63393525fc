/**
 * Whoever adds a webhook chooses its URL, and what its name leads to. In every form, a special address is
 * refused when it is given, and nothing connects to one when a name leads there, now or a moment later.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { egressRules, readEndpoint } from "../../src/webhooks/endpoint.ts";
import { Poster } from "../../src/webhooks/post.ts";
import { DnsServer, dnsOf } from "../rig/dns.ts";
import { openReceiver, type Receiver } from "../rig/hookreceiver.ts";
import { type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

const LOOPBACK = [{ address: "127.0.0.0", prefix: 8 }];

let api: TestApi;
let dns: DnsServer;
let receiver: Receiver;
beforeAll(async () => {
  api = await testApi();
  dns = new DnsServer();
  await dns.open();
  receiver = await openReceiver();
});
afterAll(async () => {
  await api.stop();
  await dns.close();
  await receiver.close();
});

const HOSTS = [
  "127.0.0.1",
  "127.1",
  "0x7f000001",
  "017700000001",
  "2130706433",
  "0",
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "169.254.169.254",
  "168.63.129.16",
  "172.16.0.1",
  "192.168.1.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "[::]",
  "[::1]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
  "[::127.0.0.1]",
  "[64:ff9b::7f00:1]",
  "[64:ff9b:1::a00:1]",
  "[2002:7f00:1::]",
  "[2001:0:7f00:1::]",
  "[fe80::1]",
  "[fc00::1]",
  "[fd00:ec2::254]",
  "[ff02::1]",
  "[2001:db8::1]",
  "[100::1]",
  "localhost",
  "localhost.",
  "a.localhost",
];

test.each(HOSTS)("https://%s/ is refused when it is given", async (host) => {
  const { client } = await api.workspace();
  const endpoint = `https://${host}/hook`;
  const { status, body } = await client.post<Refusal>("/webhooks", { endpoint });
  expect(status, JSON.stringify(body)).toBe(422);
  expect(body.message).toContain("The `endpoint` field must not lead to");
  expect(body.message).toContain("WEBHOOK_NETWORKS_ALLOWED");
  // also as the address that an endpoint is moved to
  const { body: made } = await client.post<{ id: string }>("/webhooks", { endpoint: "https://example.com/" });
  expect((await client.call("PATCH", `/webhooks/${made.id}`, { endpoint })).status).toBe(422);
});

test.each([
  ["http://example.com/hook", "must start with https://"],
  ["ftp://example.com/hook", "must start with https://"],
  ["file:///etc/passwd", "must start with https://"],
  ["https://user:secret@example.com/", "must not contain a user"],
  ["https://example.com:22/", "must not have the port 22"],
  ["https://example.com:25/", "must not have the port 25"],
  ["example.com/hook", "must be a URL"],
  [`https://example.com/${"a".repeat(2_048)}`, "at most 2048 characters"],
])("%s is refused: %s", async (endpoint, words) => {
  const { client } = await api.workspace();
  const { status, body } = await client.post<Refusal>("/webhooks", { endpoint });
  expect(status).toBe(422);
  expect(body.message).toContain(words);
});

test("where the operator allows a network, it may be reached, also without TLS", () => {
  const rules = egressRules(LOOPBACK);
  expect(readEndpoint("http://127.0.0.1:3001/a#b", rules)).toEqual({ url: "http://127.0.0.1:3001/a" });
  expect(readEndpoint("http://localhost:3001/", rules)).toEqual({ url: "http://localhost:3001/" });
  expect(readEndpoint("http://10.0.0.1/", rules)).toHaveProperty("fault");
});

/** What a post to this name ends with, by rules that allow nothing unless told. */
async function posted(url: string, allowed: typeof LOOPBACK = []) {
  const poster = new Poster(url, 1, { dns: dnsOf(dns), rules: egressRules(allowed) });
  try {
    return await poster.post("{}", {});
  } finally {
    poster.close();
  }
}

test.each([
  ["an address", ["127.0.0.1"]],
  ["one of IPv6", ["::1"]],
  ["a mapped one", ["::ffff:127.0.0.1"]],
  ["one behind NAT64", ["64:ff9b::7f00:1"]],
  ["several", ["10.0.0.1", "192.168.0.1", "fe80::1"]],
])("a name that leads to %s is not connected to", async (_, addresses) => {
  dns.zones.set("hooks.example", { addresses });
  const before = receiver.heard.length;
  for (const scheme of ["http", "https"]) {
    const result = await posted(`${scheme}://hooks.example:${receiver.port}/`);
    expect(result).toMatchObject({
      status: null,
      error: expect.stringContaining("webhooks may not be sent"),
    });
  }
  expect(receiver.heard.length).toBe(before);
});

test("a name that leads somewhere else a moment later gains nothing: each connection is checked", async () => {
  dns.zones.set("turns.example", { addresses: ["127.0.0.1"] });
  const url = `http://turns.example:${receiver.port}/`;
  expect(await posted(url, LOOPBACK)).toMatchObject({ status: 200, error: null });
  dns.zones.set("turns.example", { addresses: ["10.0.0.1"] });
  expect(await posted(url, LOOPBACK)).toMatchObject({ status: null });
  // of several only what may be reached is tried
  dns.zones.set("turns.example", { addresses: ["10.0.0.1", "127.0.0.1"] });
  expect(await posted(url, LOOPBACK)).toMatchObject({ status: 200 });
  expect(dns.asked("turns.example")).toBeGreaterThanOrEqual(6);
});

test("without TLS only allowed networks are reached, whatever the name leads to", async () => {
  dns.zones.set("public.example", { addresses: ["198.41.0.4"] });
  expect(await posted("http://public.example/", LOOPBACK)).toMatchObject({
    status: null,
    error: "the endpoint must start with https://",
  });
});

test("a name that does not exist, or whose servers fail, is a failure like any other", async () => {
  expect(await posted("https://nobody.example/")).toMatchObject({ error: "nobody.example has no address" });
  dns.zones.set("broken.example", "fails");
  expect(await posted("https://broken.example/")).toMatchObject({ status: null });
});
