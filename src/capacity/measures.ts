/**
 * What an SRE asks of a policy, in numbers: from many simulated workspaces to one table. `typical` is the median of the
 * runs and for delays the percentile of all their mail; `worst` is the worst run, and what an assertion holds against.
 */
import { BIN_MINUTES, type Run } from "./simulate.ts";

/** null: the question does not arise, as the days to a target without one. */
export type Measured = { typical: number | null; worst: number | null };
export type MeasureName = keyof typeof MEASURES;
export type Measures = Record<MeasureName, Measured>;

const PERCENTILES = { p50: 0.5, p95: 0.95, p99: 0.99 } as const;
const HOUR_BINS = 60 / BIN_MINUTES;

type MeasureKind = keyof Run["delays"];
type Delays = ArrayLike<number>;

/** In the order of the table; `of` one run, or `pooled` over all of them for what one run cannot tell. */
const MEASURES = {
  days_to_target: {
    says: "days until the cap is the target",
    of: (run: Run) => run.daysToTarget ?? Infinity,
  },
  transactional_p50_delay_hours: delay("transactional", "p50"),
  transactional_p95_delay_hours: delay("transactional", "p95"),
  transactional_p99_delay_hours: delay("transactional", "p99"),
  automation_p50_delay_hours: delay("automation", "p50"),
  automation_p95_delay_hours: delay("automation", "p95"),
  automation_p99_delay_hours: delay("automation", "p99"),
  p50_delay_hours: delay("all", "p50"),
  p95_delay_hours: delay("all", "p95"),
  p99_delay_hours: delay("all", "p99"),
  delayed_share: {
    says: "good mail that waits over an hour",
    of: (run: Run) => shareOver(allOf(run), HOUR_BINS),
  },
  waiting_most: { says: "recipients waiting at once, at most", of: (run: Run) => run.waitingMost },
  waiting_end: { says: "recipients waiting at the end", of: (run: Run) => run.days.at(-1)?.waiting ?? 0 },
  bad_before_freeze: { says: "bad mail sent before the first step", of: (run: Run) => run.badBeforeFreeze },
  bad_before_pause: {
    says: "bad mail sent before automation is paused",
    of: (run: Run) => run.badBeforePause,
  },
  bad_sent: { says: "bad mail sent in all", of: (run: Run) => run.badSent },
  bad_bounced: { says: "bad mail that bounced", of: (run: Run) => run.badBounced },
  reaction_minutes: { says: "minutes from proof to the first step", of: (run: Run) => run.reactionMinutes },
  false_freezes_per_1000: {
    says: "of 1,000 good workspaces, held back",
    of: (run: Run) => (run.falselyHeld ? 1_000 : 0),
    pooled: (runs: readonly Run[]) => (1_000 * runs.filter((run) => run.falselyHeld).length) / runs.length,
  },
  oscillations: { says: "turns between growing and shrinking", of: (run: Run) => run.turns },
  sent: { says: "recipients sent to", of: (run: Run) => run.sent, more: "better" },
} satisfies Record<string, Question>;

type Question = {
  says: string;
  of: (run: Run) => number | null;
  pooled?: (runs: readonly Run[]) => number;
  more?: "better";
};

export const MEASURE_NAMES = Object.keys(MEASURES) as MeasureName[];

export function meaningOf(name: MeasureName): string {
  return MEASURES[name].says;
}

export function measure(runs: readonly Run[], hasTarget: boolean): Measures {
  const measured = MEASURE_NAMES.map((name): [MeasureName, Measured] => {
    if (name === "days_to_target" && !hasTarget) return [name, { typical: null, worst: null }];
    const question: Question = MEASURES[name];
    const values = runs.map(question.of).filter((value): value is number => value !== null);
    if (values.length === 0) return [name, { typical: null, worst: null }];
    const inOrder = values.sort((a, b) => a - b);
    const pooled = question.pooled?.(runs) ?? null;
    const worst = question.pooled ? pooled : ((question.more ? inOrder[0] : inOrder.at(-1)) ?? null);
    return [name, { typical: pooled ?? inOrder[inOrder.length >> 1] ?? null, worst }];
  });
  return Object.fromEntries(measured) as Measures;
}

/** The cap of every day over all runs: the tenth, the middle and the ninetieth of a hundred. */
export function capBand(runs: readonly Run[]): { low: number; middle: number; high: number }[] {
  return (runs[0]?.days ?? []).map((_, day) => {
    const caps = runs.map((run) => run.days[day]?.cap ?? 0).sort((a, b) => a - b);
    const at = (share: number) => caps[Math.floor((caps.length - 1) * share)] ?? 0;
    return { low: at(0.1), middle: at(0.5), high: at(0.9) };
  });
}

/** All mail of a kind over all runs, by how many bins it waited. */
export function pooledDelays(runs: readonly Run[], kind: MeasureKind): number[] {
  const pooled: number[] = [];
  for (const run of runs) add(pooled, run.delays[kind]);
  return pooled;
}

export function shareOver(delays: Delays, bins: number): number {
  let over = 0;
  let total = 0;
  for (let n = 0; n < delays.length; n++) {
    total += delays[n] as number;
    if (n > bins) over += delays[n] as number;
  }
  return total === 0 ? 0 : over / total;
}

function delay(kind: MeasureKind | "all", percentile: keyof typeof PERCENTILES): Question {
  const hours = (delays: Delays) => quantile(delays, PERCENTILES[percentile]) / HOUR_BINS;
  const pool = (runs: readonly Run[]) =>
    kind === "all" ? runs.map(allOf) : runs.map((run) => run.delays[kind]);
  return {
    says: `${percentile} of the wait of ${kind === "all" ? "all" : kind} mail, hours`,
    of: (run) => hours(pool([run])[0] ?? []),
  };
}

function allOf(run: Run): number[] {
  const both: number[] = [];
  add(both, run.delays.transactional);
  add(both, run.delays.automation);
  return both;
}

function add(total: number[], delays: Delays): void {
  while (total.length < delays.length) total.push(0);
  for (let n = 0; n < delays.length; n++) total[n] = (total[n] as number) + (delays[n] as number);
}

function quantile(delays: Delays, share: number): number {
  let total = 0;
  for (let n = 0; n < delays.length; n++) total += delays[n] as number;
  let seen = 0;
  for (let n = 0; n < delays.length; n++) {
    seen += delays[n] as number;
    if (seen >= share * total && total > 0) return n;
  }
  return 0;
}
