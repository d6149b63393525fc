/**
 * Domains with the same MX hosts share connections. Somebody who can forge unsigned DNS adds a host of his
 * own to the MX records of a domain with DANE; for a domain of his own he signs the same set. His host gets
 * no mail of the other domain.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Dane, DaneFound, HostDane } from "../../src/transport/dane.ts";
import { inShort, openWorld, type World } from "../rig/direct.ts";

const RECORDS: HostDane = {
  kind: "records",
  records: [{ usage: 3, selector: 1, matching: 1, hex: "00".repeat(32) }],
  name: "mx.victim.test",
  alsoNamed: [],
};
const SIGNED: Record<string, DaneFound> = {
  "victim.test": { kind: "secure", hosts: new Map([["mx.victim.test", RECORDS]]) },
  "evil.test": {
    kind: "secure",
    hosts: new Map<string, HostDane>([
      ["mx.victim.test", RECORDS],
      ["mx.evil.test", { kind: "none" }],
    ]),
  },
};
const dane = { of: async (domain: string) => SIGNED[domain] } as unknown as Dane;

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.end());

test("a host that only another domain allows gets no mail of this one", async () => {
  const mx = [
    [10, "mx.victim.test"],
    [20, "mx.evil.test"],
  ] as const;
  world.name({
    "victim.test": { mx: [...mx] },
    "evil.test": { mx: [...mx] },
    "mx.victim.test": { addresses: ["127.1.0.1"] }, // nobody is there
    "mx.evil.test": { addresses: ["127.1.0.2"] },
  });
  const evil = await world.sinkAt("127.1.0.2");
  const { send } = world.courier({ dane });
  expect(inShort(await send("one@victim.test"))).toEqual(["connect ECONNREFUSED"]);
  expect(inShort(await send("two@evil.test"))).toEqual(["dot 250"]);
  expect(inShort(await send("three@victim.test"))).toEqual(["connect ECONNREFUSED"]);
  expect(evil.ledger.mails).toHaveLength(1);
});
