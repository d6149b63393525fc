/**
 * Whoever owns a domain writes its MX records as they like. Mail of other domains never goes to a host that
 * only the attacker names, whatever the two sets have in common.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { openWorld, type World } from "../rig/direct.ts";
import type { Sink } from "../rig/sink.ts";

type Mx = readonly [preference: number, host: string];

const ROUNDS = 40;

let world: World;
let [victims, attackers]: Sink[] = [];
beforeEach(async () => {
  world = await openWorld();
  victims = await world.sinkAt("127.1.0.1");
  attackers = await world.sinkAt("127.1.0.2");
  world.name({ "zz.evil.test": { addresses: ["127.1.0.2"] } });
});
afterEach(() => world.end());

/** The hosts of the victim's receiver, all at one address. */
function hostsOf(count: number, nameOf: (n: number) => string): string[] {
  const hosts = Array.from({ length: count }, (_, n) => nameOf(n));
  for (const host of hosts) world.name({ [host.toLowerCase()]: { addresses: ["127.1.0.1"] } });
  return hosts;
}

const short = (n: number): string => `mx${String(n).padStart(3, "0")}.big.test`;
const long = (n: number): string => `${`${"a".repeat(60)}.`.repeat(3)}${n}.${"b".repeat(50)}.test`;
const equals = (hosts: readonly string[]): Mx[] => hosts.map((host) => [10, host]);
const inTurn = (hosts: readonly string[]): Mx[] => hosts.map((host, n) => [10 * n + 10, host]);

test.each<[what: string, victim: () => Mx[], attacker: (victim: readonly Mx[]) => Mx[]]>([
  ["one host behind ten equals", () => equals(hostsOf(10, short)), (mx) => [...mx, [10, "zz.evil.test"]]],
  [
    "three hundred hosts behind ten equals",
    () => equals(hostsOf(10, short)),
    (mx) => [...mx, ...new Array<Mx>(300).fill([10, "zz.evil.test"])],
  ],
  ["one host before ten in turn", () => inTurn(hostsOf(10, short)), (mx) => [...mx, [10, "zz.evil.test"]]],
  ["one host behind two hundred", () => equals(hostsOf(200, short)), (mx) => [...mx, [10, "zz.evil.test"]]],
  [
    "one host of the first rank beside names of 250 characters",
    () => inTurn(hostsOf(12, long)),
    (mx) => [[1, "zz.evil.test"], ...mx],
  ],
  [
    "one host before the victim's, which are written otherwise",
    () => equals(hostsOf(10, short)),
    (mx) => [[10, "zz.evil.test"], ...mx.map(([at, host]) => [at, host.toUpperCase()] as const)],
  ],
  [
    "the victim's hosts twice, and one of its own",
    () => equals(hostsOf(10, short)),
    (mx) => [[10, "zz.evil.test"], ...mx, ...mx],
  ],
  [
    "names that hold the signs between names",
    () => equals(hostsOf(2, short)),
    (mx) => [[10, mx.map(([, host]) => host.replaceAll(".", "_")).join(", 0 ")], [10, "zz.evil.test"], ...mx],
  ],
])("%s", async (_, ofVictim, ofAttacker) => {
  const victim = ofVictim();
  world.name({ "victim.test": { mx: victim } });
  for (let n = 0; n < ROUNDS; n++) world.name({ [`evil${n}.test`]: { mx: ofAttacker(victim) } });
  const { send } = world.courier({ limits: { hurryMs: 0, conversationDeliveriesMax: 1 } });
  for (let n = 0; n < ROUNDS; n++)
    await Promise.all([send(`m${n}@evil${n}.test`), send(`a${n}@victim.test`), send(`b${n}@victim.test`)]);
  const taken = (sink: Sink | undefined) =>
    (sink?.ledger.mails ?? []).flatMap(({ to }) => to).filter((one) => one.endsWith("@victim.test")).length;
  expect([taken(victims), taken(attackers)]).toEqual([2 * ROUNDS, 0]);
});

test("domains of one receiver are one destination, however their records are written", async () => {
  const hosts = hostsOf(12, short);
  world.name({
    "a.test": { mx: equals(hosts) },
    "b.test": { mx: equals(hosts.map((host) => host.toUpperCase()).reverse()) },
    "c.test": { mx: [...hosts, ...hosts].map((host) => [50, host]) },
  });
  const { send } = world.courier();
  for (const domain of ["a.test", "b.test", "c.test"]) await send(`one@${domain}`);
  expect(victims?.connections).toBe(1);
});
