/**
 * Random lives of a workspace, in the simulator and on the real path side by side: sends, outcomes, reports,
 * overrides, days that pass and restarts. At every step caps, level, what waits and what goes are the same.
 */
import { expect, test } from "vitest";
import { checkScenario, type Scenario } from "../../src/capacity/workload.ts";
import { isUnordered, lifeOf, RealLife } from "../rig/capslife.ts";

const MINUTES_MAX = 8;

const base = { description: "", plan: "pro", receivers: "indifferent" };
const orders = (more: object) => ({
  name: "orders",
  class: "transactional",
  bounce: 0.01,
  complaint: 0,
  ...more,
});
const list = (more: object) => ({ name: "list", class: "automation", bounce: 0.01, complaint: 0, ...more });

const LIVES: Record<string, { seed: number; restarts: readonly number[]; scenario: Scenario }> = {
  "a bad list is paused, and late complaints hold it back after days of silence": {
    seed: 3,
    restarts: [140, 900],
    scenario: checkScenario({
      ...base,
      days: 5,
      streams: [
        list({ list: 120, at_hour: 9, bounce: 0.35, bad: true }),
        list({
          name: "late",
          list: 60,
          at_hour: 8,
          bounce: 0,
          complaint: 0.5,
          complaint_after: { median_hours: 66, spread: 0.15 },
          fbl_share: 0.9,
        }),
        list({ name: "more", list: 40, at_hour: 11 }),
      ],
    }),
  },
  "complaints alone pause it, where they can be heard": {
    seed: 5,
    restarts: [200],
    scenario: checkScenario({
      ...base,
      days: 3,
      streams: [
        orders({ list: 60, at_hour: 7, every_day: true, bounce: 0 }),
        list({
          list: 70,
          at_hour: 9,
          bounce: 0,
          complaint: 0.3,
          complaint_after: { median_hours: 1, spread: 0.5 },
          fbl_share: 0.8,
        }),
        list({ name: "again", list: 50, at_hour: 15, from_day: 1, bounce: 0 }),
      ],
    }),
  },
  "soft bounces and blocks say nothing of the list, and keep the cap from growing": {
    seed: 2,
    restarts: [],
    scenario: checkScenario({
      ...base,
      days: 4,
      streams: [orders({ list: 300, at_hour: 9, every_day: true, bounce: 0 })],
      events: [
        { kind: "soft", from_day: 0, to_day: 2, share: 0.15 },
        { kind: "blocked", from_day: 1, to_day: 2, share: 0.05 },
      ],
    }),
  },
  "a bad list in the stream bulk is paused for itself, beside transactional mail that is fine": {
    seed: 4,
    restarts: [400, 1_440],
    scenario: checkScenario({
      ...base,
      days: 6,
      streams: [
        orders({ list: 200, at_hour: 6, every_day: true, bounce: 0.005 }),
        list({ list: 60, at_hour: 9, from_day: 1, every_day: true, bounce: 0.4, bad: true }),
      ],
    }),
  },
  "somebody sets the caps while mail of both kinds waits": {
    seed: 7,
    restarts: [130, 410],
    scenario: checkScenario({
      ...base,
      days: 3,
      streams: [
        orders({ list: 130, at_hour: 9, every_day: true, bounce: 0 }),
        list({ list: 260, at_hour: 8, bounce: 0 }),
      ],
      events: [{ kind: "override", from_day: 1, to_day: 2, fixed: 600, fixed_hour: 150 }],
    }),
  },
};

for (const [name, { scenario, seed, restarts }] of Object.entries(LIVES))
  test(name, { timeout: MINUTES_MAX * 60_000 }, () => compare(scenario, seed, restarts));

/** As many as asked for: each is another history. */
const SEEDS = (process.env.LIVES ?? "1,2").split(",").map(Number);

test.each(SEEDS)("a random life, seed %i", { timeout: MINUTES_MAX * 60_000 }, async (first) => {
  let seed = first;
  let random = randomOf(seed);
  let scenario = someLife(random);
  while (isUnordered(lifeOf(scenario, seed))) {
    seed += 1_000;
    random = randomOf(seed);
    scenario = someLife(random);
  }
  await compare(scenario, seed, [random(scenario.days * 288), random(scenario.days * 288)]);
});

async function compare(scenario: Scenario, seed: number, restarts: readonly number[]): Promise<void> {
  const life = lifeOf(scenario, seed);
  expect(isUnordered(life)).toBe(false);
  const real = await RealLife.begin();
  try {
    for (const bin of life) {
      if (restarts.includes(bin.bin)) await real.restart();
      await real.live(bin, scenario.events ?? []);
    }
  } finally {
    await real.close();
  }
}

function someLife(random: (below: number) => number): Scenario {
  const one = <T>(...choices: T[]): T => choices[random(choices.length)] as T;
  const hour = (): number => random(20);
  const fixed = { kind: "override", from_day: 1, to_day: 3, fixed: one(200, 800) };
  return checkScenario({
    ...base,
    days: 4,
    streams: [
      orders({ list: one(40, 120, 320), at_hour: hour(), every_day: true, bounce: one(0, 0.01, 0.05) }),
      list({ list: one(80, 240), at_hour: hour(), bounce: one(0.01, 0.2, 0.5), complaint: one(0, 0.1) }),
      list({
        name: "late",
        list: one(50, 150),
        at_hour: hour(),
        from_day: random(3),
        bounce: one(0.01, 0.3),
        bounce_after: { median_hours: one(2, 20), spread: 0.5 },
      }),
    ],
    events: one<object[]>(
      [],
      [fixed],
      [{ kind: "blocked", from_day: 1, to_day: 2, share: 0.2 }],
      [{ kind: "soft", from_day: 1, to_day: 3, share: 0.2 }],
    ),
  });
}

/** mulberry32: the same life for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}
