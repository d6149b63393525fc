/**
 * Against a plain model: whatever DNS says and whoever is at the hosts, every recipient gets the reply that
 * its domain allows, in its place, and what was answered 250 arrived exactly once.
 */
import fc from "fast-check";
import { afterAll, beforeAll, test } from "vitest";
import { inShort, openWorld, type World } from "../rig/direct.ts";
import { mailTo } from "../rig/peer.ts";
import { SOMEBODY } from "../rig/shaping.ts";
import type { Sink } from "../rig/sink.ts";

const RUNS = 60;

/** What may be found at an address, and the replies that it leads to. */
const HOSTS = {
  good: { address: "127.1.3.1", replies: ["dot 250"] },
  also: { address: "127.1.3.2", replies: ["dot 250"] },
  refusing: { address: "127.1.3.3", replies: ["greeting 554"] },
  busy: { address: "127.1.3.4", replies: ["greeting 421"] },
  dead: { address: "127.1.3.5", replies: ["connect ECONNREFUSED"] },
  barred: { address: "10.0.0.1", replies: ["route ADDRESS_BARRED"] },
} as const;
type HostName = keyof typeof HOSTS;
const REACHABLE: readonly HostName[] = ["good", "also"];
const TALKING: readonly HostName[] = ["good", "also", "refusing", "busy", "dead"];

type Domain = "missing" | "null" | "failing" | readonly { host: HostName; preference: number }[];

const domain: fc.Arbitrary<Domain> = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom("missing" as const, "null" as const, "failing" as const) },
  {
    weight: 4,
    arbitrary: fc.uniqueArray(
      fc.record({
        host: fc.constantFrom(...(Object.keys(HOSTS) as HostName[])),
        preference: fc.integer({ min: 0, max: 3 }),
      }),
      { minLength: 1, maxLength: 5, selector: ({ host }) => host },
    ),
  },
);

/** The replies that are right. */
function expectedOf(domain: Domain): readonly string[] {
  if (domain === "missing") return ["route NO_DOMAIN"];
  if (domain === "null") return ["route NO_MAIL"];
  if (domain === "failing") return ["route DNS_FAILED"];
  const names = domain.map(({ host }) => host);
  if (names.some((name) => REACHABLE.includes(name))) return ["dot 250"];
  const talking = names.filter((name) => TALKING.includes(name));
  if (talking.length === 0) return HOSTS.barred.replies;
  return talking.flatMap((name) => HOSTS[name].replies);
}

let world: World;
let sinks: Sink[];
beforeAll(async () => {
  world = await openWorld();
  const open = async (name: HostName, greetingCode: number | null = null) => {
    const sink = await world.sinkAt(HOSTS[name].address);
    sink.turn({ greetingCode });
    world.name({ [`${name}.test`]: { addresses: [HOSTS[name].address] } });
    return sink;
  };
  sinks = await Promise.all([open("good"), open("also"), open("refusing", 554), open("busy", 421)]);
  for (const name of ["dead", "barred"] as const)
    world.name({ [`${name}.test`]: { addresses: [HOSTS[name].address] } });
});
afterAll(() => world.end());

test("each recipient gets the reply that its domain allows, and each 250 is one copy", async () => {
  let round = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(domain, { minLength: 1, maxLength: 6 }),
      fc.array(fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 20 }),
      async (domains, mails) => {
        round++;
        const nameOf = (n: number) => `r${round}d${n % domains.length}.test`;
        for (const [n, one] of domains.entries()) {
          if (one === "missing") continue;
          world.name({
            [nameOf(n)]:
              one === "null"
                ? { mx: [[0, ""]] }
                : one === "failing"
                  ? "fails"
                  : { mx: one.map(({ host, preference }) => [preference, `${host}.test`]) },
          });
        }
        const { direct } = world.courier();
        const copies = new Map<string, number>();
        await Promise.all(
          mails.map(async (places, m) => {
            const to = places.map((n, k) => `m${m}k${k}@${nameOf(n)}`);
            const message = Buffer.from(`Message-ID: <r${round}m${m}@test>\r\n\r\nhello\r\n`);
            const words = inShort(await direct.send(mailTo(to), message, { mayBegin: () => true }, SOMEBODY));
            if (words.length !== to.length) throw new Error(`${words.length} replies to ${to.length}`);
            for (const [k, word] of words.entries()) {
              const allowed = expectedOf(domains[(places[k] as number) % domains.length] as Domain);
              if (!allowed.includes(word)) throw new Error(`${to[k]}: ${word}, not ${allowed}`);
              if (word === "dot 250") copies.set(to[k] as string, 0);
            }
          }),
        );
        await direct.close(0);
        for (const address of sinks.flatMap(({ ledger }) => ledger.mails.flatMap(({ to }) => to)))
          if (address.includes(`@r${round}d`)) copies.set(address, (copies.get(address) ?? 0) + 1);
        for (const [address, count] of copies)
          if (count !== 1) throw new Error(`${address} arrived ${count} times`);
      },
    ),
    { numRuns: RUNS },
  );
});
