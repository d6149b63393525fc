/** src/capacity/simulate.ts: simulated lives, the files that say what to simulate, and what is asked. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { check, readAssertion } from "../../src/capacity/assertion.ts";
import { measure, shareOver } from "../../src/capacity/measures.ts";
import { checkPolicy } from "../../src/capacity/policy/check.ts";
import { wilson } from "../../src/capacity/policy/evidence.ts";
import { PolicyFile } from "../../src/capacity/policy/file.ts";
import { DEFAULT_POLICY, type Policy } from "../../src/capacity/policy.ts";
import { binomial, poisson, randomOf } from "../../src/capacity/random.ts";
import { type Run, simulate } from "../../src/capacity/simulate.ts";
import { readSweep, withParameter } from "../../src/capacity/study.ts";
import { checkScenario } from "../../src/capacity/workload.ts";
import { costOf } from "../rig/held.ts";
import { runs, scenario, withForgers } from "../rig/scenarios.ts";

const ROOT = new URL("../../", import.meta.url);

const json = (path: string): unknown => JSON.parse(readFileSync(new URL(path, ROOT), "utf8"));

describe("a simulated workspace", () => {
  test("lives the same life again for the same seed, and another for another", () => {
    const shop = scenario("bought-list");
    const first = simulate(DEFAULT_POLICY, shop, 30, 7);
    expect(simulate(DEFAULT_POLICY, shop, 30, 7)).toEqual(first);
    expect(simulate(DEFAULT_POLICY, shop, 30, 8).sent).not.toBe(first.sent);
  });

  test("meets the same demand under another policy, day by day", () => {
    for (const name of ["clean-start", "bought-list", "shared-address"]) {
      const read = scenario(name);
      const demand = (policy: Policy) => simulate(policy, read, read.days, 3).days.map((day) => day.demand);
      expect(demand({ ...DEFAULT_POLICY, growth: 1.1 })).toEqual(demand(DEFAULT_POLICY));
    }
  });

  test("under a policy that decides the same until a day, everything is the same until then", () => {
    const read = scenario("clean-start");
    const [one, other] = [DEFAULT_POLICY, { ...DEFAULT_POLICY, growth: 1.41 }].map((policy) =>
      simulate(policy, read, 30, 3),
    ) as [Run, Run];
    expect(other.days[0]).toEqual(one.days[0]);
    const arrived = ({ days }: Run) => days.reduce((sum, day) => sum + day.demand, 0);
    const left = (run: Run) => run.sent + (run.days.at(-1)?.waiting ?? 0) + run.refused;
    expect([left(one), left(other)]).toEqual([arrived(one), arrived(other)]);
    expect(arrived(other)).toBe(arrived(one));
  });

  test("waits as the windows of the hour say: a burst goes in parts, fourteen buckets apart", () => {
    const burst = checkScenario({
      description: "",
      plan: "pro",
      days: 1,
      start_cap: 3_000,
      streams: [{ name: "burst", class: "transactional", list: 1_500, at_hour: 2, bounce: 0, complaint: 0 }],
    });
    const { delays, days } = simulate(DEFAULT_POLICY, burst, 1, 1);
    const waited = Object.fromEntries([...delays.transactional.entries()].filter(([, count]) => count > 0));
    expect(waited).toEqual({ 0: 600, 14: 600, 28: 300 });
    expect(days[0]).toMatchObject({ used: 1_500, delayed: 900, waiting: 0, cap: 3_000 });
  });

  test("keeps a part of the caps from automation mail", () => {
    const stream = { per_day: 3_000, bounce: 0, complaint: 0 };
    const crowded = checkScenario({
      description: "",
      plan: "pro",
      days: 1,
      streams: [
        { ...stream, name: "orders", class: "transactional", per_day: 80 },
        { ...stream, name: "campaign", class: "automation" },
      ],
    });
    const { delays, days } = simulate(DEFAULT_POLICY, crowded, 1, 1);
    expect(days[0]?.used).toBeLessThanOrEqual(300);
    expect(shareOver(delays.transactional, 0)).toBe(0);
    expect(shareOver(delays.automation, 0)).toBeGreaterThan(0.8);
  });

  test("never sends more in a day than the largest cap of that day", () => {
    for (const name of ["seasonal-x10", "hour-burst", "dormant-return"])
      for (const { days } of runs(name, 3))
        for (const { used, cap } of days) expect(used).toBeLessThanOrEqual(cap);
  });

  test("takes under two seconds for 60 days", () => {
    expect(costOf(() => runs("clean-start", 1), 2_000)).toBeLessThan(2_000);
  });
});

describe("the files", () => {
  test("caps/policy.json is the policy we ship, and its schema is beside it", () => {
    const { $schema: _schema, description: _description, ...policy } = checkPolicy(json("caps/policy.json"));
    expect(policy).toEqual(DEFAULT_POLICY);
    const { $schema: _dialect, ...schema } = json("caps/policy.schema.json") as Record<string, unknown>;
    expect(schema).toEqual(JSON.parse(JSON.stringify(PolicyFile)));
  });

  test("every field of the policy says what it means", () => {
    const silent = fieldsOf(PolicyFile, "").filter(({ description }) => !description);
    expect(silent.map(({ path }) => path)).toEqual([]);
  });

  test("every scenario is valid", () => {
    const names = readdirSync(new URL("caps/scenarios/", ROOT)).map((file) => file.replace(".json", ""));
    expect(names.length).toBeGreaterThanOrEqual(11);
    for (const name of names) expect(scenario(name).description).not.toBe("");
  });

  test("a broken scenario is refused by the name of its field", () => {
    const shop = scenario("steady-shop");
    expect(() => checkScenario({ ...shop, days: 0 })).toThrow("`days` must be at least 1.");
    const [stream] = shop.streams;
    expect(() => checkScenario({ ...shop, streams: [{ ...stream, bounce: 2 }] })).toThrow(
      "`streams.0.bounce`",
    );
    expect(() => checkScenario({ ...shop, streams: [{ ...stream, list: 5 }] })).toThrow(
      "either `per_day` or",
    );
  });
});

describe("what is asked on the command line", () => {
  test("an assertion holds against the worst run, or the typical one, and says what was seen", () => {
    const measures = measure(runs("hour-burst", 2), false);
    expect(check(readAssertion("p50_delay_hours<6"), measures)).toMatchObject({ holds: true });
    const failed = check(readAssertion("waiting_most < 1"), measures);
    expect(failed).toMatchObject({ holds: false });
    expect(failed.says).toMatch(
      /^waiting_most < 1 does not hold: at worst \d+ \(typically \d+, \d+ to \d+ with 95% confidence\)\.$/,
    );
    expect(check(readAssertion("oscillations.typical=0"), measures).says).toContain("holds: typically 0");
    expect(check(readAssertion("days_to_target<14"), measures).says).toContain("cannot be checked");
    expect(() => readAssertion("p98_delay_hours<6")).toThrow("There is no measure p98_delay_hours");
    expect(() => readAssertion("p99_delay_hours")).toThrow("It must read like");
  });

  test("what is held back without reason is counted, with its interval", () => {
    const held = (falselyHeld: boolean) => ({ ...(runs("hour-burst", 1)[0] as Run), falselyHeld });
    const found = measure([...Array(99).fill(held(false)), held(true)], false);
    expect(found.false_freezes_per_1000.worst).toBe(10);
    expect(found.false_freezes_low.worst).toBeCloseTo(1.8, 0);
    expect(found.false_freezes_high.worst).toBeCloseTo(54.5, 0);
  });

  test("who sends mail over a limit is not a good workspace, and is counted apart", () => {
    const read = scenario("night-bounces");
    const dirty = simulate(DEFAULT_POLICY, read, 10, 21);
    expect(dirty.changes.map(({ level }) => level)).toContain("frozen");
    expect(dirty).toMatchObject({ isOverLimit: true, falselyHeld: false });
    const clean = simulate(DEFAULT_POLICY, read, 10, 1);
    expect(clean).toMatchObject({ isOverLimit: false, falselyHeld: false });
    const { over_limit_per_1000, false_freezes_per_1000 } = measure([clean, dirty, clean, clean], false);
    expect(over_limit_per_1000.typical).toBe(250);
    expect(false_freezes_per_1000).toMatchObject({
      typical: 0,
      high: 1_000 * wilson({ events: 0, of: 3 }, 0.975).upper,
    });
    expect(measure([dirty], false).false_freezes_per_1000.worst).toBe(null);
  });

  test("strangers, a strict policy or a scenario over the limit make nobody a bad workspace", () => {
    const strangers = simulate(
      DEFAULT_POLICY,
      withForgers(2, { perDay: 2_000, days: 5, hours: null }),
      25,
      1,
    );
    expect(strangers).toMatchObject({ isOverLimit: false, falselyHeld: true });
    const strict = structuredClone(DEFAULT_POLICY);
    Object.assign(strict.freeze, { bounce: 0.02 });
    Object.assign(strict.healthy, { bounce: 0.015 });
    const read = scenario("night-bounces");
    const held = simulate(strict, read, 10, 36);
    expect(held).toMatchObject({ isOverLimit: false, falselyHeld: true });
    const streams = read.streams.map((stream) => ({ ...stream, bounce: 0.09 }));
    expect(simulate(DEFAULT_POLICY, { ...read, streams }, 10, 1)).toMatchObject({
      isOverLimit: false,
      falselyHeld: true,
    });
  });

  test("a policy that pauses at a single complaint holds good workspaces back", () => {
    const strict = structuredClone(DEFAULT_POLICY);
    strict.evidence.complaints_min = 1;
    strict.evidence.errors_per_month = 0.5;
    Object.assign(strict.freeze, { complaint: 0.0001 });
    Object.assign(strict.healthy, { complaint: 0.0001 });
    Object.assign(strict.prior, { complaint: { rate: 0.00005, weight: 2_000 } });
    const read = scenario("one-complaint");
    const all = Array.from({ length: 8 }, (_, n) => simulate(strict, read, read.days, n + 1));
    expect(measure(all, true).false_freezes_per_1000.worst).toBeGreaterThan(0);
  });

  test("a sweep names a number of the policy", () => {
    expect(readSweep("growth=1.1..2.0/10").values).toEqual([1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2]);
    expect(readSweep("start.day=300..400/3").values).toEqual([300, 350, 400]);
    const shop = scenario("steady-shop");
    const change = (parameter: string, value: number) =>
      withParameter(DEFAULT_POLICY, shop, parameter, value);
    expect(change("freeze.bounce", 0.055).policy.freeze.bounce).toBe(0.055);
    expect(change("receivers.learning", 0.2)).toMatchObject({
      policy: DEFAULT_POLICY,
      scenario: { receivers: { learning: 0.2 } },
    });
    expect(() => change("freeze", 1)).toThrow("no number `freeze`");
    expect(() => change("growth", 0)).toThrow("With growth=0: `growth` must be at least 1.");
    expect(() => readSweep("growth=1..2")).toThrow("It must read like");
  });
});

test("counts are drawn with the mean they are asked for", () => {
  const random = randomOf(1);
  const mean = (draw: () => number) => Array.from({ length: 20_000 }, draw).reduce((a, b) => a + b) / 20_000;
  for (const expected of [0.2, 4, 29, 500]) {
    const found = mean(() => poisson(random, expected));
    expect(Math.abs(found - expected)).toBeLessThan(5 * Math.sqrt(expected / 20_000));
  }
  for (const [of, chance] of [
    [40, 0.01],
    [1_000, 0.006],
    [1_000, 0.4],
    [30, 0.9],
  ] as const) {
    const found = mean(() => binomial(random, of, chance));
    expect(Math.abs(found - of * chance)).toBeLessThan(
      5 * Math.sqrt((of * chance * (1 - chance)) / 20_000) + 1e-9,
    );
  }
});

type Schema = { type?: string; description?: string; properties?: Record<string, Schema> };

function fieldsOf(schema: Schema, path: string): { path: string; description: string | undefined }[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
    ...(field.properties ? [] : [{ path: `${path}${name}`, description: field.description }]),
    ...fieldsOf(field, `${path}${name}.`),
  ]);
}
