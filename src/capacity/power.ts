/**
 * What the statistics of a policy cost and catch: steady senders at a multiple of a freeze rate, looked at
 * every five minutes by the evaluator itself, until the first step against them. Below the limit that is harm
 * to the healthy, above it the bad mail that goes before anybody acts.
 */
import { DAY_MS } from "../clock.ts";
import { dayOf, type Measure, type Sample, wilson } from "./policy/evidence.ts";
import { COUNTED_DAYS_MAX, type DayCounts, evaluate, type Policy, startState } from "./policy.ts";
import { binomial, poisson, randomOf } from "./random.ts";
import { FIRST_MS } from "./simulate.ts";
import { BINS_PER_DAY, BINS_PER_HOUR, FBL_SHARE } from "./workload.ts";

export const POWER_VOLUMES = [200, 1_500, 10_000];
export const POWER_MULTIPLES = [0.5, 0.8, 0.9, 0.98, 1.1, 1.2, 1.4, 2, 3, 5];
const BUDGETS = [0.0005, 0.005, 0.05, 0.3];
const HEALTHY_AT = 0.98;
const BAD_AT = 2;
const DAYS = 60;
const SEED_STRIDE = 0x9e3779b1;
const CONFIDENCE_EACH_SIDE = 0.975;

/** Of senders at one volume and rate: how many meet a step, and what they had sent by then. */
export type Power = {
  measure: Measure;
  perDay: number;
  rate: number;
  multiple: number;
  runs: number;
  heldPer1000: number;
  heldLow: number;
  heldHigh: number;
  /** The middle of all senders; null: most of them never meet a step. */
  sentBeforeStep: number | null;
};

export type PowerTables = {
  days: number;
  rates: Power[];
  /** The same policy with other error budgets. */
  trade: { errorsPerMonth: number; healthy: Power; bad: Power }[];
};

export function powerTables(policy: Policy, runs: number, progress: (share: number) => void): PowerTables {
  const cells = 2 * POWER_VOLUMES.length * POWER_MULTIPLES.length + 2 * POWER_VOLUMES.length * BUDGETS.length;
  let done = 0;
  const at = (of: Policy, measure: Measure, perDay: number, multiple: number) => {
    const found = powerAt(of, measure, perDay, multiple, runs);
    progress(++done / cells);
    return found;
  };
  const measures = ["bounce", "complaint"] as const;
  const rates = measures.flatMap((measure) =>
    POWER_VOLUMES.flatMap((perDay) =>
      POWER_MULTIPLES.map((multiple) => at(policy, measure, perDay, multiple)),
    ),
  );
  const trade = POWER_VOLUMES.flatMap((perDay) =>
    BUDGETS.map((errorsPerMonth) => {
      const of = { ...policy, evidence: { ...policy.evidence, errors_per_month: errorsPerMonth } };
      const [healthy, bad] = [HEALTHY_AT, BAD_AT].map((multiple) => at(of, "bounce", perDay, multiple));
      return { errorsPerMonth, healthy: healthy as Power, bad: bad as Power };
    }),
  );
  return { days: DAYS, rates, trade };
}

export function powerAt(
  policy: Policy,
  measure: Measure,
  perDay: number,
  multiple: number,
  runs: number,
): Power {
  const rate = multiple * policy.freeze[measure];
  const sent = Array.from({ length: runs }, (_, n) => sentBeforeStep(policy, measure, perDay, rate, n + 1));
  const held: Sample = { events: sent.filter(Number.isFinite).length, of: runs };
  const { lower, upper } = wilson(held, CONFIDENCE_EACH_SIDE);
  const middle = sent.sort((a, b) => a - b)[runs >> 1] as number;
  return {
    measure,
    perDay,
    rate,
    multiple,
    runs,
    heldPer1000: (1_000 * held.events) / runs,
    heldLow: 1_000 * lower,
    heldHigh: 1_000 * upper,
    sentBeforeStep: Number.isFinite(middle) ? middle : null,
  };
}

/** Infinite: no step is taken. */
function sentBeforeStep(
  policy: Policy,
  measure: Measure,
  perDay: number,
  rate: number,
  seed: number,
): number {
  const random = randomOf(Math.imul(seed, SEED_STRIDE));
  const days: DayCounts[] = [];
  let state = startState(policy, "pro");
  let sent = 0;
  for (let bin = 0; bin < DAYS * BINS_PER_DAY; bin++) {
    const now = FIRST_MS + (bin * DAY_MS) / BINS_PER_DAY;
    if (bin % BINS_PER_DAY === 0) {
      days.push(emptyDay(dayOf(now)));
      if (days.length > COUNTED_DAYS_MAX) days.shift();
    }
    const count = poisson(random, perDay / BINS_PER_DAY);
    const fblDelivered = binomial(random, count, FBL_SHARE);
    const events = binomial(random, measure === "bounce" ? count : fblDelivered, rate);
    addTo(days.at(-1) as DayCounts, measure, { count, fblDelivered, events });
    sent += count;
    // another look would find the same
    if (events === 0 && bin % BINS_PER_HOUR !== 0) continue;
    state = evaluate(policy, "pro", state, days, null, now).state;
    if (state.level !== "normal") return sent;
  }
  return Number.POSITIVE_INFINITY;
}

type Bin = { count: number; fblDelivered: number; events: number };

function addTo(day: DayCounts, measure: Measure, { count, fblDelivered, events }: Bin): void {
  const bounced = measure === "bounce" ? events : 0;
  day.attempted += count;
  day.used += count;
  day.delivered += count - bounced;
  day.bounced += bounced;
  day.fblDelivered += fblDelivered;
  day.complained += events - bounced;
}

function emptyDay(day: string): DayCounts {
  return {
    day,
    attempted: 0,
    delivered: 0,
    bounced: 0,
    blocked: 0,
    complained: 0,
    fblDelivered: 0,
    delayed: 0,
    used: 0,
  };
}
