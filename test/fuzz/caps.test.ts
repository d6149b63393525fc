/** src/capacity/policy.ts: what must hold for every workspace and history. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { dayOf, dayPlus, judgedOf } from "../../src/capacity/policy/evidence.ts";
import {
  type CapState,
  type DayCounts,
  DEFAULT_POLICY,
  effective,
  evaluate,
} from "../../src/capacity/policy.ts";
import { CAP_MIN, PLANS } from "../../src/rules/plans.ts";
import { counts, override } from "../rig/caps.ts";

const DAY_MS = 86_400_000;
const START = Date.UTC(2027, 2, 1, 12);
const today = dayOf(START);
const policy = DEFAULT_POLICY;

const LEVELS = ["normal", "frozen", "probing", "shrunk", "paused"] as const;
const someCounts = (day: string) =>
  fc
    .record({
      delivered: fc.nat(3_000),
      bounced: fc.oneof(fc.nat(20), fc.nat(900)),
      blocked: fc.oneof(fc.constant(0), fc.nat(500)),
      complained: fc.oneof(fc.nat(4), fc.nat(60)),
      delayed: fc.oneof(fc.constant(0), fc.nat(500)),
      onTheWay: fc.nat(300),
    })
    .map(({ onTheWay, ...some }) => {
      const attempted = some.delivered + some.bounced + some.blocked + onTheWay;
      return counts(day, { ...some, attempted, used: attempted });
    });
const someDays = fc
  .tuple(...Array.from({ length: 12 }, (_, n) => fc.option(someCounts(dayPlus(today, n - 11)), { freq: 3 })))
  .map((days) => days.filter((one): one is DayCounts => one !== null));
const someState: fc.Arbitrary<CapState> = fc.record({
  capDay: fc.integer({ min: CAP_MIN, max: 600_000 }),
  capHour: fc.integer({ min: CAP_MIN, max: 100_000 }),
  level: fc.constantFrom(...LEVELS),
  healthyDays: fc.nat(20),
  cleanDays: fc.nat(3),
  idleDays: fc.nat(60),
  evaluatedOn: fc.option(fc.nat(5).map((ago) => dayPlus(today, -ago))),
  changedAt: fc.constant(null),
  pausedAt: fc.array(
    fc.nat(40 * DAY_MS).map((ago) => START - ago),
    { maxLength: 4 },
  ),
  shrunkAt: fc.array(
    fc.nat(20 * DAY_MS).map((ago) => START - ago),
    { maxLength: 2 },
  ),
  probe: fc.integer({ min: CAP_MIN, max: 2_000 }),
  since: fc.option(fc.nat(20).map((ago) => dayPlus(today, -ago))),
  judged: fc.option(fc.nat(6).chain((ago) => someCounts(dayPlus(today, -ago)).map(judgedOf))),
  hours: fc.constant([]),
});
const plan = fc.constantFrom(...PLANS);
const someOverride = fc.option(
  fc
    .record({
      minimum: fc.option(fc.integer({ min: CAP_MIN, max: 9_000 })),
      maximum: fc.option(fc.integer({ min: CAP_MIN, max: 9_000 })),
      fixed: fc.option(fc.integer({ min: CAP_MIN, max: 9_000 })),
    })
    .map(override),
);

test("a second run changes nothing", () => {
  fc.assert(
    fc.property(plan, someState, someDays, someOverride, (plan, state, days, by) => {
      const once = evaluate(policy, plan, state, days, by, START);
      const twice = evaluate(policy, plan, once.state, days, by, START + 1_000);
      expect(twice.changed).toBe(false);
      expect(twice.state).toEqual(once.state);
    }),
    { numRuns: 2_000 },
  );
});

test("the state is plain data, and what is given stays as it was", () => {
  fc.assert(
    fc.property(plan, someState, someDays, (plan, state, days) => {
      const [stateBefore, daysBefore] = [structuredClone(state), structuredClone(days)];
      const done = evaluate(policy, plan, state, days, null, START);
      expect(JSON.parse(JSON.stringify(done.state))).toEqual(done.state);
      expect([state, days]).toEqual([stateBefore, daysBefore]);
    }),
    { numRuns: 300 },
  );
});

test("the caps stay within their bounds, and grow by no more than the factor in one run", () => {
  fc.assert(
    fc.property(plan, someState, someDays, someOverride, (plan, state, days, by) => {
      const { state: next } = evaluate(policy, plan, state, days, by, START);
      const caps = effective(policy, plan, next, by, START);
      expect(next.capDay).toBeGreaterThanOrEqual(CAP_MIN);
      expect(next.capDay).toBeLessThanOrEqual(Math.ceil(state.capDay * policy.growth));
      expect(caps.hour).toBeGreaterThanOrEqual(CAP_MIN);
      expect(caps.hour).toBeLessThanOrEqual(caps.day);
      if (by === null) expect(caps.day).toBeLessThanOrEqual(policy.ceiling[plan]);
    }),
    { numRuns: 2_000 },
  );
});

test("more harm never leaves a higher cap, nor a milder level", () => {
  // late by more than a day a step back may come on another day, and forgive other evidence
  const onTime = fc.tuple(someState, fc.nat(1)).map(([state, ago]) => {
    return { ...state, evaluatedOn: dayPlus(today, -ago) };
  });
  // a step is taken on counts of that time, which have only grown since
  const judgedShare = fc.option(fc.tuple(fc.nat(6), fc.nat(100)));
  const history = fc.tuple(onTime, someDays, judgedShare).map(([state, days, share]) => {
    const [ago, percent] = share ?? [0, 0];
    const counted = share && days.find(({ day }) => day === dayPlus(today, -ago));
    if (!counted) return { state: { ...state, judged: null }, days };
    const { day, ...all } = judgedOf(counted);
    const part = (count: number) => Math.floor((count * percent) / 100);
    const { tried, answered, bounced, complained } = all;
    const judged = {
      day,
      tried: part(tried),
      answered: part(answered),
      bounced: part(bounced),
      complained: part(complained),
    };
    return { state: { ...state, since: day, judged }, days };
  });
  const order: readonly string[] = LEVELS;
  const more = fc.record({ day: fc.nat(11), bounced: fc.nat(200), complained: fc.nat(20) });
  fc.assert(
    fc.property(plan, history, more, (plan, { state, days }, more) => {
      const worse = days.map((one, n) =>
        n === more.day % days.length
          ? { ...one, bounced: one.bounced + more.bounced, complained: one.complained + more.complained }
          : one,
      );
      const less = evaluate(policy, plan, state, days, null, START).state;
      const harmed = evaluate(policy, plan, state, worse, null, START).state;
      expect(harmed.capDay).toBeLessThanOrEqual(less.capDay);
      expect(order.indexOf(harmed.level)).toBeGreaterThanOrEqual(order.indexOf(less.level));
    }),
    { numRuns: 5_000 },
  );
});

test("days missed are days run one by one, where nothing happened", () => {
  fc.assert(
    fc.property(plan, someState, fc.nat(90), (plan, state, missed) => {
      const given = { ...state, evaluatedOn: today, judged: null };
      const from = evaluate(policy, plan, given, [], null, START).state;
      let daily = from;
      for (let n = 1; n <= missed; n++)
        daily = evaluate(policy, plan, daily, [], null, START + n * DAY_MS).state;
      const atOnce = evaluate(policy, plan, from, [], null, START + missed * DAY_MS).state;
      const { changedAt: _a, ...expected } = daily;
      const { changedAt: _b, ...found } = atOnce;
      expect(found).toEqual(expected);
    }),
    { numRuns: 300 },
  );
});

test("it does not matter how often it runs within a day on which the counts stand still", () => {
  fc.assert(
    fc.property(plan, someState, someDays, fc.array(fc.nat(DAY_MS / 2 - 1)), (plan, state, days, times) => {
      const first = evaluate(policy, plan, state, days, null, START).state;
      let last = first;
      for (const after of times) last = evaluate(policy, plan, last, days, null, START + after).state;
      expect(last).toEqual(first);
    }),
    { numRuns: 300 },
  );
});
