/**
 * What a domain's own DNS servers may answer: as many records as fit, long names, our own addresses, and ever
 * new receivers. None of it holds the event loop or takes the place of others.
 */
import { networkInterfaces } from "node:os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Dns, Routes } from "../../src/delivery/routes.ts";
import { mayCarryTo } from "../../src/networks.ts";
import { inShort, openWorld, type World } from "../rig/direct.ts";
import { heldBy } from "../rig/held.ts";

const HELD_MS_MAX = 50;
/** More than an answer of 65,535 bytes holds. */
const RECORDS = 5_000;

const many = <T>(make: (n: number) => T): T[] => Array.from({ length: RECORDS }, (_, n) => make(n));
const own = Object.values(networkInterfaces()).flatMap((some) => (some ?? []).map(({ address }) => address));
const LONG = `${`${"a-".repeat(31)}a.`.repeat(3)}${"b".repeat(50)}`;

type Mx = { exchange: string; priority: number };

/** The most work in one turn of the loop until the route is known. */
function heldByRoute(mx: readonly Mx[], addresses: readonly string[]): Promise<number> {
  const dns: Dns = {
    resolveMx: async () => [...mx],
    resolve4: async () => addresses.map((address) => ({ address, ttl: 60 })),
    resolve6: async () => [],
  };
  const find = () =>
    new Routes({
      dns,
      families: [4],
      mayCarryTo: mayCarryTo([]),
      now: () => performance.now(),
      random: Math.random,
    }).find("a.test");
  return heldBy(find, HELD_MS_MAX);
}

test.each<[what: string, mx: Mx[], addresses: string[]]>([
  [
    "thousands of hosts, each of a preference of its own",
    many((n) => ({ exchange: `mx${n}.a.test`, priority: n })),
    ["192.0.2.1"],
  ],
  [
    "thousands of hosts with names as long as they may be",
    many((n) => ({ exchange: `${n}.${LONG}.test`, priority: 10 })),
    ["192.0.2.1"],
  ],
  [
    "thousands of names that are nearly hosts",
    many((n) => ({ exchange: `${n}.${LONG}.${"c-".repeat(20)}`, priority: 10 })),
    ["192.0.2.1"],
  ],
  [
    "one host thousands of times, and others behind it",
    many((n) => ({ exchange: n % 2 ? "mx.a.test" : `mx${n}.a.test`, priority: n % 7 })),
    ["192.0.2.1"],
  ],
  [
    "hosts of thousands of addresses",
    many((n) => ({ exchange: `mx${n}.a.test`, priority: 1 })),
    many((n) => `8.8.${n >> 8}.${n & 255}`),
  ],
  [
    "hosts of thousands of addresses, all ours",
    many((n) => ({ exchange: `mx${n}.a.test`, priority: 1 })),
    many((n) => own[n % own.length] as string),
  ],
])("%s", async (_, mx, addresses) => {
  expect(await heldByRoute(mx, addresses)).toBeLessThan(HELD_MS_MAX);
});

test("what is kept of thousands of hosts is little, and the same in whatever order they come", async () => {
  const kept = async (mx: readonly Mx[]) => {
    const dns: Dns = {
      resolveMx: async () => [...mx],
      resolve4: async () => [{ address: "8.8.8.8", ttl: 60 }],
      resolve6: async () => [],
    };
    const random = () => 0;
    const routes = new Routes({ dns, families: [4], mayCarryTo: mayCarryTo([]), now: () => 0, random });
    const route = await routes.find("a.test");
    if (!("stops" in route)) throw new Error(route.text);
    return route;
  };
  const mx = many((n) => ({ exchange: `${n}.${LONG}.test`, priority: n % 7 }));
  const route = await kept(mx);
  expect(route.hosts.join("").length).toBeLessThan(20_000);
  expect(route.stops.every(({ rank }) => rank === 0)).toBe(true);
  expect((await kept(mx.toReversed())).name).toBe(route.name);
});

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.end());

test("ever new receivers refuse nobody", async () => {
  const sink = await world.sinkAt("127.1.0.1");
  const { send } = world.courier({ destinationsMax: 10 });
  for (let n = 0; n < 50; n++) {
    world.name({
      [`a${n}.test`]: { mx: [[10, `mx${n}.test`]] },
      [`mx${n}.test`]: { addresses: ["127.1.0.1"] },
    });
    expect(inShort(await send(`one@a${n}.test`))).toEqual(["dot 250"]);
  }
  expect(sink.ledger.mails).toHaveLength(50);
});

test.each([
  ["a host name in capitals", "MX.B.TEST", "dot 250"],
  ["a name that begins with its own domain's escape", "mx\\.b.test", "route NO_HOST"],
  ["an address in the place of a name", "127.1.0.1", "route NO_HOST"],
  ["a name with a space", "mx b.test", "route NO_HOST"],
  ["a name that breaks lines", "mx\r\nb.test", "route NO_HOST"],
  ["a name with a zero", "mx\0.b.test", "route NO_HOST"],
  ["a name in UTF-8", "mx\u00c3\u00bc.b.test", "route NO_HOST"],
])("%s", async (_, host, reply) => {
  await world.sinkAt("127.1.0.1");
  world.name({
    "a.test": { mx: [[10, host]] },
    "mx.b.test": { addresses: ["127.1.0.1"] },
    [host.toLowerCase()]: { addresses: ["127.1.0.1"] },
  });
  expect(inShort(await world.courier().send("one@a.test"))).toEqual([reply]);
});
