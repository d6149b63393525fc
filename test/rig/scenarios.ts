/** What the files in caps/scenarios do under the policy that we ship. */
import { readFileSync } from "node:fs";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { type Run, simulate } from "../../src/capacity/simulate.ts";
import { checkScenario, type Scenario } from "../../src/capacity/workload.ts";

type Stream = Scenario["streams"][number];

const SEEDS = 16;
/** A simulation of many seeds may take so long on a busy machine. */
export const SIMULATION_MS_MAX = 60_000;

export function scenario(name: string): Scenario {
  return checkScenario(
    JSON.parse(readFileSync(new URL(`../../caps/scenarios/${name}.json`, import.meta.url), "utf8")),
  );
}

export function runs(name: string, seeds = SEEDS): Run[] {
  return runsOf(scenario(name), seeds);
}

export function runsOf(read: Scenario, seeds: number): Run[] {
  return Array.from({ length: seeds }, (_, n) => simulate(DEFAULT_POLICY, read, read.days, n + 1));
}

export function names(many: number): string[] {
  return Array.from({ length: many }, (_, n) => `d${n}.test`);
}

type Attack = { perDay: number; days: number; hours: number[] | null };

/** The sender of forged-signups, attacked over so many domains. */
export function withForgers(many: number, { perDay, days, hours }: Attack): Scenario {
  const read = scenario("forged-signups");
  const [forged, ...good] = [...read.streams].reverse() as [Stream, ...Stream[]];
  const { source: _, ...unsourced } = forged;
  const sources = Object.fromEntries(names(many).map((name) => [name, 1 / many]));
  const attack = { ...unsourced, sources, per_day: perDay, to_day: 20 + days, ...(hours && { hours }) };
  return { ...read, days: 25, streams: [...good, attack] };
}
