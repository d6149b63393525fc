/** src/capacity/replay.ts: mail that really came, under the caps that a policy would have given. */
import { describe, expect, test } from "vitest";
import { dayOf, dayPlus } from "../../src/capacity/policy/evidence.ts";
import {
  ALL_HEARD,
  type DayCounts,
  DEFAULT_POLICY,
  evaluate,
  startState,
} from "../../src/capacity/policy.ts";
import { type CapLook, type ReplayInput, replay } from "../../src/capacity/replay.ts";
import { BIN_MINUTES, FIRST_MS, simulate } from "../../src/capacity/simulate.ts";
import { checkScenario } from "../../src/capacity/workload.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2027, 2, 10);
const today = dayOf(NOW);

function counts(day: string, used: number, bounced = 0): DayCounts {
  const delivered = used - bounced;
  const fblDelivered = Math.floor(delivered / 3);
  return {
    day,
    attempted: used,
    delivered,
    bounced,
    blocked: 0,
    complained: 0,
    fblDelivered,
    delayed: 0,
    used,
  };
}

function lived(days: DayCounts[], more: Partial<ReplayInput> = {}): ReplayInput {
  return {
    policy: DEFAULT_POLICY,
    plan: "pro",
    state: startState(DEFAULT_POLICY, "pro"),
    overrides: [],
    days,
    looks: [],
    from: NOW,
    to: NOW + days.length * DAY_MS - 1,
    heard: ALL_HEARD,
    ...more,
  };
}

describe("days without looks", () => {
  test("that the policy decided give the caps that it gave", () => {
    let state = startState(DEFAULT_POLICY, "pro");
    const days: DayCounts[] = [];
    const caps: number[] = [];
    for (let n = 0; n < 12; n++) {
      state = evaluate(DEFAULT_POLICY, "pro", state, days, null, NOW + n * DAY_MS).state;
      caps.push(state.capDay);
      days.push(counts(dayPlus(today, n), state.capDay));
    }
    const replayed = replay(lived(days));
    expect(replayed.days.map(({ capDay }) => capDay)).toEqual(caps);
    expect(replayed.days.every(({ over, resolution }) => over === 0 && resolution === "1 hour")).toBe(true);
    expect(replayed.totals).toEqual(replayed.actual);
  });

  test("tell what would have waited, and when and why a cap would have changed", () => {
    const days = [counts(today, 500), counts(dayPlus(today, 1), 500, 100), counts(dayPlus(today, 2), 500)];
    const { days: found, steps, totals } = replay(lived(days));
    expect(found[0]).toMatchObject({ capDay: 300, used: 300, over: 200, censored: false });
    expect(found[1]?.capDay).toBe(420);
    expect(found[1]?.reasons.join(" ")).toMatch(/Grew.*Paused/s);
    expect(found[2]).toMatchObject({ bulkPaused: true, level: "paused" });
    expect(steps.map(({ level }) => level)).toContain("paused");
    expect(totals).toMatchObject({ pauses: 1 });
    expect(totals.waiting_hours).toBeGreaterThan(0);
  });

  test("an override of then holds as long as it held", () => {
    const override = {
      minimum: null,
      maximum: null,
      fixed: 1_000,
      fixedHour: 1_000,
      until: null,
      by: "Ada",
      reason: "",
    };
    const overrides = [
      { at: NOW, override },
      { at: NOW + DAY_MS, override: null },
    ];
    const { days } = replay(lived([counts(today, 900), counts(dayPlus(today, 1), 10)], { overrides }));
    expect(days[0]).toMatchObject({ capDay: 1_000, used: 900, over: 0 });
    expect(days[1]?.capDay).toBeLessThan(1_000);
  });
});

const LIFE = checkScenario({
  description: "",
  plan: "pro",
  days: 9,
  start_cap: 3000,
  streams: [
    { name: "orders", class: "transactional", per_day: 700, bounce: 0.01, complaint: 0.0002 },
    {
      name: "list",
      class: "automation",
      list: 900,
      from_day: 2,
      at_hour: 9,
      bad: true,
      bounce: 0.3,
      complaint: 0.01,
    },
  ],
});

describe("days with looks", () => {
  const looks: CapLook[] = [];
  const run = simulate(DEFAULT_POLICY, LIFE, LIFE.days, 5, (bin, _state, known) => {
    const at = FIRST_MS + bin * BIN_MINUTES * 60_000;
    for (const day of known.slice(-2))
      looks.push({ at, counts: structuredClone(day), waiting: 0, waitingBulk: 0 });
  });
  const state = { ...startState(DEFAULT_POLICY, "pro"), capDay: 3_000, capHour: 600 };
  const input: ReplayInput = {
    ...lived(run.days as DayCounts[], { state, looks }),
    from: FIRST_MS,
    to: FIRST_MS + LIFE.days * DAY_MS - 1,
  };

  test("under the same policy take the same first step at the same look", () => {
    const { steps, days } = replay(input);
    const step = run.changes.find(({ level }) => level === "paused");
    const replayed = steps.find(({ level }) => level === "paused");
    expect(replayed?.at).toBe(
      new Date(FIRST_MS + (step?.bin as number) * BIN_MINUTES * 60_000).toISOString(),
    );
    expect(days[0]).toMatchObject({ resolution: "5 minutes", used: run.days[0]?.used });
  });

  test("a policy that looks away sends no less, and one that is strict holds sooner", () => {
    const blind = {
      ...DEFAULT_POLICY,
      freeze: { bounce: 0.9, complaint: 0.9 },
      pause: { ...DEFAULT_POLICY.pause, bounce: 0.9, complaint: 0.9 },
      shrink: { ...DEFAULT_POLICY.shrink, bounce: 0.9, complaint: 0.9 },
    };
    const [same, other] = [replay(input), replay({ ...input, policy: blind })];
    expect(other.totals).toMatchObject({ pauses: 0, freezes: 0 });
    expect(other.totals.sent).toBeGreaterThanOrEqual(same.totals.sent);
    const strict = { ...DEFAULT_POLICY, evidence: { ...DEFAULT_POLICY.evidence, errors_per_month: 0.3 } };
    const first = (steps: { at: string; level: string }[]) =>
      steps.find(({ level }) => level === "paused")?.at ?? "9";
    expect(first(replay({ ...input, policy: strict }).steps) <= first(same.steps)).toBe(true);
  });
});

describe("a span that starts or ends within a day", () => {
  const PER_LOOK = 10;
  const HOUR_MS = 3_600_000;
  /** 2,880 a day, evenly, under a cap of 3,000: nothing ever waits. */
  const steady: DayCounts[] = [0, 1, 2].map((n) => counts(dayPlus(today, n), 288 * PER_LOOK));
  const steadyLooks: CapLook[] = steady.flatMap(({ day }) =>
    Array.from({ length: 288 }, (_, n) => ({
      at: Date.parse(day) + (n + 1) * BIN_MINUTES * 60_000 - 1,
      counts: counts(day, (n + 1) * PER_LOOK),
      waiting: 0,
      waitingBulk: 0,
    })),
  );
  const grown = { ...startState(DEFAULT_POLICY, "pro"), capDay: 3_000, capHour: 600 };
  const idle = { ...DEFAULT_POLICY, growth: 1 };
  const about = { state: grown, policy: idle };

  test.each([0, 6, 12, 20, 20.5])("invents no waiting from %s:00 on, with looks or without", (hour) => {
    const from = NOW + hour * HOUR_MS;
    for (const looks of [steadyLooks, []]) {
      const found = replay(lived(steady, { ...about, looks, from }));
      expect(found.totals).toEqual(found.actual);
      expect(found.totals).toMatchObject({ waiting_hours: 0, delayed: 0 });
      expect(found.totals.sent).toBe(steady.length * 2_880 - hour * 120);
      expect(found.days[0]).toMatchObject({ used: 2_880 - hour * 120, actual: 2_880 - hour * 120 });
    }
  });

  test("what was used of the caps before counts against them", () => {
    const from = NOW + 20 * HOUR_MS;
    // 2,400 of it went before; 280 more than the cap holds come in the evening
    const days = [counts(today, 3_280)];
    const looks = [
      ...steadyLooks.filter(({ at }) => at < from),
      { at: from + HOUR_MS, counts: counts(today, 2_900), waiting: 0, waitingBulk: 0 },
      { at: from + 3 * HOUR_MS, counts: counts(today, 3_280), waiting: 0, waitingBulk: 0 },
    ];
    const { totals, actual } = replay(lived(days, { ...about, looks, from, to: from + 3.5 * HOUR_MS }));
    expect(actual.sent).toBe(880);
    expect(totals.sent).toBe(600);
  });

  test("the last day counts until the end of the span, really and under the policy", () => {
    const to = NOW + 2 * DAY_MS + 6 * HOUR_MS;
    for (const looks of [steadyLooks, []]) {
      const { totals, actual } = replay(lived(steady, { ...about, looks, to }));
      expect(actual.sent).toBe(2 * 2_880 + 720);
      expect(totals).toEqual(actual);
    }
  });

  test("a step that was taken on the morning is not taken again", () => {
    const bad = (used: number) => counts(today, used, Math.floor(used * 0.3));
    const looks = steadyLooks.slice(0, 288).map((look) => ({ ...look, counts: bad(look.counts.used) }));
    const morning = replay(lived([bad(2_880)], { state: grown, looks }));
    expect(morning.totals.pauses).toBe(1);
    const from = NOW + 12 * HOUR_MS;
    const evening = replay(lived([bad(2_880)], { state: grown, stateAt: NOW, looks, from }));
    expect(evening.totals).toMatchObject({ pauses: 0, freezes: 0 });
    expect(evening.days[0]).toMatchObject({ level: "paused" });
  });

  test("mail that waited when the span starts is the backlog of both", () => {
    const from = NOW + DAY_MS;
    const looks = [
      {
        at: NOW + 15 * HOUR_MS,
        counts: { ...counts(today, 3_000), delayed: 200 },
        waiting: 200,
        waitingBulk: 0,
      },
      { at: from + 300_000, counts: counts(dayPlus(today, 1), 200), waiting: 0, waitingBulk: 0 },
    ];
    const days = [counts(today, 3_000), counts(dayPlus(today, 1), 200)];
    const { totals, actual } = replay(lived(days, { ...about, looks, from, to: from + HOUR_MS }));
    expect(actual).toMatchObject({ sent: 200, waiting_most: 200 });
    expect(totals).toMatchObject({ sent: 200, waiting_most: 200 });
  });
});

describe("between two looks", () => {
  const HOUR_MS = 3_600_000;
  const MINUTE_MS = 60_000;
  const look = (at: number, used: number, waiting = 0): CapLook => ({
    ...{ at, counts: { ...counts(today, used), delayed: waiting }, waiting, waitingBulk: 0 },
  });
  const idle = { ...DEFAULT_POLICY, growth: 1 };

  test("an override lets mail go from its start on", () => {
    const override = {
      ...{ minimum: 5_000, maximum: null, fixed: null, fixedHour: null, until: null, by: "Ada", reason: "" },
    };
    const looks = [look(NOW + 9 * HOUR_MS, 100, 20), look(NOW + 9 * HOUR_MS + 5 * MINUTE_MS, 481)];
    const overrides = [
      { at: NOW, override: null },
      { at: NOW + 9 * HOUR_MS + MINUTE_MS, override },
    ];
    const days = [{ ...counts(today, 481), delayed: 20 }];
    const { totals, actual } = replay(
      lived(days, { policy: idle, looks, overrides, to: NOW + 10 * HOUR_MS }),
    );
    expect(actual.sent).toBe(481);
    expect(totals).toMatchObject({ sent: 481, bad: actual.bad });
  });

  test("what waits goes as the hours turn, whether or not anything really went then", () => {
    // 100 an hour, and 250 at once; really all of it could go
    const looks = [look(NOW + 9 * HOUR_MS, 250), look(NOW + 20 * HOUR_MS, 251)];
    const days = [counts(today, 251)];
    const { totals } = replay(lived(days, { policy: idle, looks, to: NOW + 23 * HOUR_MS }));
    expect(totals).toMatchObject({ sent: 251, delayed: 150 });
    expect(totals.waiting_hours).toBeGreaterThan(150);
    expect(totals.waiting_hours).toBeLessThan(150 * 3);
  });

  test("what waits until the end of the span waits until then", () => {
    const days = [{ ...counts(today, 100), delayed: 40 }];
    const looks = [look(NOW + 9 * HOUR_MS, 100), look(NOW + 9 * HOUR_MS + 5 * MINUTE_MS, 100, 40)];
    const paused = { ...startState(idle, "pro"), capDay: 100, capHour: 50 };
    const { totals, actual } = replay(
      lived(days, { policy: idle, state: paused, looks, to: NOW + 19 * HOUR_MS }),
    );
    expect(actual.waiting_hours).toBeCloseTo(40 * (10 - 1 / 12), 0);
    expect(totals.waiting_hours).toBeGreaterThan(40);
  });

  test("what came after the last look of a day is not lost while something waits", () => {
    const days = [counts(today, 400), counts(dayPlus(today, 1), 0)];
    const looks = [look(NOW + 9 * HOUR_MS, 250)];
    const { actual, totals } = replay(lived(days, { policy: idle, looks }));
    expect(actual.sent).toBe(400);
    expect(totals.sent).toBe(400);
  });
});
