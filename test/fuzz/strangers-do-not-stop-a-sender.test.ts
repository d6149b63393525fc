/** The policy that we ship, where strangers make bounces and complaints of others' mail, over many seeds. */
import { describe, expect, test } from "vitest";
import { measure, shareOver } from "../../src/capacity/measures.ts";
import type { Run } from "../../src/capacity/simulate.ts";
import type { Scenario } from "../../src/capacity/workload.ts";
import { names, runs, runsOf, SIMULATION_MS_MAX, scenario, withForgers } from "../rig/scenarios.ts";

type Stream = Scenario["streams"][number];

const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const MIX = { "gmail.com": 0.35, "yahoo.com": 0.12, "hotmail.com": 0.12, "outlook.com": 0.06 };
const ATTACKED_SEEDS = 10;

/** The level that each workspace fell to that was held back. */
function heldBack(read: Scenario): string[] {
  return runsOf(read, ATTACKED_SEEDS).flatMap(
    ({ changes }) => changes.find(({ level }) => level !== "normal")?.level ?? [],
  );
}

describe("the policy we ship", { timeout: SIMULATION_MS_MAX }, () => {
  test("is stopped by forged-domains, with several attacks on each sender, in at most one run of sixteen", () => {
    const all = runs("forged-domains");
    const held = all.filter(({ changes }) => changes.some(({ level }) => level !== "normal"));
    expect(held.length).toBeLessThanOrEqual(1);
  });

  test.each(["forged-complaints", "forged-signups", "forged-providers", "night-bounces"])(
    "is not stopped by %s",
    (name) => {
      const all = runs(name);
      for (const run of all) expect(run.changes.filter(({ level }) => level !== "normal")).toEqual([]);
      for (const run of all) expect(shareOver(run.delays.transactional, 12)).toBeLessThan(0.05);
      expect(measure(all, false).false_freezes_per_1000.worst).toBe(0);
    },
  );

  test.each([2, 3, 10])("is not stopped by strangers with %i domains, at night or at noon", (many) => {
    const attacks = [
      { perDay: 30, days: 1, hours: HOURS.map((hour) => (hour === 0 ? 1 : 0)) },
      { perDay: 60, days: 1, hours: HOURS.map((hour) => (hour === 0 ? 1 : 0)) },
      { perDay: 200, days: 1, hours: HOURS.map((hour) => (hour === 12 ? 1 : 0)) },
      { perDay: 400, days: 2, hours: null },
    ];
    const held = attacks.flatMap((attack) => heldBack(withForgers(many, attack)));
    expect(held).toEqual([]);
  });

  test("is stopped by strangers who send as much as the sender itself: nobody could tell them from a bad list", () => {
    const { hours } = scenario("forged-signups").streams.at(-1) as { hours: number[] };
    expect(heldBack(withForgers(10, { perDay: 3_000, days: 2, hours })).length).toBeGreaterThan(0);
  });

  test.each([2, 3, 10])("is not stopped by complaints of %i providers, at night or at noon", (many) => {
    const read = scenario("forged-providers");
    const held = [1, 12].flatMap((at_hour) => {
      const events = names(many).map((source) => ({
        ...{ kind: "complaints" as const, day: 20, at_hour, count: Math.ceil(20 / many), source },
      }));
      return heldBack({ ...read, days: 24, events });
    });
    expect(held).toEqual([]);
  });

  test("is frozen, not stopped, by eight complaints of the providers that have all the mail", () => {
    const read = scenario("forged-complaints");
    const from = (counts: readonly number[]) =>
      Object.keys(read.providers ?? {}).map((source, n) => ({
        ...{ kind: "complaints" as const, day: 20, at_hour: 1, count: counts[n] as number, source },
      }));
    expect(heldBack({ ...read, days: 24, events: from([2, 2, 1]) })).toEqual([]);
    expect(new Set(heldBack({ ...read, days: 24, events: from([3, 3, 2]) }))).toEqual(new Set(["frozen"]));
  });

  test("finds a bad list by its domains as soon as without them", () => {
    const read = scenario("bought-list");
    const [orders, list] = read.streams as [Stream, Stream];
    const of = (sources: Record<string, number> | undefined, bounce: number) => {
      const known = {
        ...read,
        days: 23,
        streams: [
          { ...orders, ...(sources && { sources: MIX }) },
          { ...list, bounce, ...(sources && { sources }) },
        ],
      };
      const sent = runsOf(known, 8).map(({ badBeforeFreeze }) => badBeforeFreeze);
      return sent.sort((a, b) => a - b)[4] as number;
    };
    expect(of(MIX, 0.33)).toBe(of(undefined, 0.33));
    const foreign = Object.fromEntries(names(40).map((name) => [name, 1 / 40]));
    expect(of(foreign, 0.33)).toBe(of(undefined, 0.33));
    expect(of(MIX, 0.1)).toBeLessThanOrEqual(3 * of(undefined, 0.1));
  });

  test("books the complaints of each provider to that provider", () => {
    const read = scenario("forged-providers");
    const [run] = runsOf({ ...read, days: 30 }, 1) as [Run];
    const forged = run.days[28]?.sources.filter(({ name }) => name.startsWith("small-3"));
    expect(forged?.map(({ complained }) => complained)).toEqual([7, 7, 7]);
  });
});
