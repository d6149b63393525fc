/**
 * What an SRE asks of a policy, in numbers: from many simulated workspaces to one table. `typical` is the
 * median of the runs, `low` and `high` are its interval over seeds, with 95% confidence; `worst` is the worst
 * run, and what an assertion holds against.
 */
import { keysOf, recordOf } from "../names.ts";
import { type Sample, wilson } from "./policy/evidence.ts";
import { BIN_MINUTES, type Run } from "./simulate.ts";

/** null: the question does not arise, as the days to a target without one. */
export type Measured = {
  typical: number | null;
  low: number | null;
  high: number | null;
  worst: number | null;
};
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
  bad_waiting_end: { says: "bad mail that waits at the end", of: (run: Run) => run.badWaiting },
  reaction_minutes: { says: "minutes from proof to the first step", of: (run: Run) => run.reactionMinutes },
  false_freezes_per_1000: {
    says: "of 1,000 good workspaces, held back",
    of: held,
    pooled: heldBack,
  },
  false_freezes_low: {
    says: "at least so many, with 95% confidence",
    of: held,
    pooled: heldBack,
    bound: "lower",
  },
  false_freezes_high: {
    says: "at most so many, with 95% confidence",
    of: held,
    pooled: heldBack,
    bound: "upper",
  },
  over_limit_per_1000: {
    says: "of 1,000 workspaces, over a limit by their own mail",
    of: (run: Run) => (run.isOverLimit ? 1_000 : 0),
    pooled: overLimit,
  },
  oscillations: { says: "turns between growing and shrinking", of: (run: Run) => run.turns },
  elsewhere: {
    says: "recipients that stay with another sender meanwhile",
    of: (run: Run) => run.elsewhere,
  },
  sent: { says: "recipients sent to", of: (run: Run) => run.sent, more: "better" },
  inbox_share: {
    says: "good mail that reaches an inbox",
    of: (run: Run) => shareOf(run.goodInboxed, run),
    more: "better",
  },
  throttled_share: {
    says: "good mail told to come back later",
    of: (run: Run) => shareOf(run.goodThrottled, run),
  },
  blocked_share: {
    says: "good mail refused for the address",
    of: (run: Run) => shareOf(run.goodBlocked, run),
  },
  listed_days: { says: "days on a blocklist", of: (run: Run) => run.listedDays },
  reputation_least: {
    says: "reputation on the worst day, 1 being full",
    of: (run: Run) => Math.min(...run.days.map(({ reputation }) => reputation)),
    more: "better",
  },
  refused: { says: "recipients that the quota refused", of: (run: Run) => run.refused },
} satisfies Record<string, Question>;

type Question = {
  says: string;
  of: (run: Run) => number | null;
  /** Of 1,000 of these; `bound`: at least or at most. */
  pooled?: (runs: readonly Run[]) => Sample;
  bound?: "lower" | "upper";
  more?: "better";
};

export const MEASURE_NAMES = keysOf(MEASURES);

export function meaningOf(name: MeasureName): string {
  return MEASURES[name].says;
}

export function measure(runs: readonly Run[], hasTarget: boolean): Measures {
  return recordOf(MEASURE_NAMES, (name) => {
    const isAsked = name !== "days_to_target" || hasTarget;
    return isAsked ? answerTo(MEASURES[name], runs) : NOT_ASKED;
  });
}

const NOT_ASKED: Measured = { typical: null, low: null, high: null, worst: null };
const CONFIDENCE_EACH_SIDE = 0.975;
/** Standard deviations to either side. */
const Z = 1.96;

function answerTo(question: Question, runs: readonly Run[]): Measured {
  if (question.pooled) {
    const { events, of } = question.pooled(runs);
    if (of === 0) return NOT_ASKED;
    const bounds = wilson({ events, of }, CONFIDENCE_EACH_SIDE);
    const pooled = 1_000 * (question.bound ? bounds[question.bound] : events / of);
    return { typical: pooled, low: 1_000 * bounds.lower, high: 1_000 * bounds.upper, worst: pooled };
  }
  const values = runs
    .map(question.of)
    .filter((value): value is number => value !== null)
    .sort((a, b) => a - b);
  if (values.length === 0) return NOT_ASKED;
  const [low, high] = rangeOfMiddle(values);
  const worst = (question.more ? values[0] : values.at(-1)) ?? null;
  return { typical: values[values.length >> 1] ?? null, low, high, worst };
}

/** What each run answers: kept where the runs themselves are too large to be. */
export type RunValues = Record<MeasureName, readonly (number | null)[]>;

export function valuesOf(runs: readonly Run[]): RunValues {
  return recordOf(MEASURE_NAMES, (name) => runs.map((run) => MEASURES[name].of(run)));
}

/**
 * By how much one of two differs from the other, seed by seed; `low` and `high` are null where the seeds are
 * too few.
 */
export type Difference = Omit<Measured, "worst">;
export type Differences = Record<MeasureName, Difference>;

/** Fewer pairs show nothing with 95% confidence, even if all of them point the same way. */
export const PAIRS_MIN = 6;

/** The same seeds meet the same demand: what differs between the two of a pair is what was changed. */
export function differencesOf(one: RunValues, other: RunValues): Differences {
  return recordOf(MEASURE_NAMES, (name): Difference => {
    const pairs = one[name].flatMap((before, n) => {
      const after = other[name][n] ?? null;
      return before === null || after === null ? [] : [after === before ? 0 : after - before];
    });
    const isPooled = "pooled" in MEASURES[name];
    return isPooled ? shareThatChanged(pairs) : middleOf(pairs);
  });
}

export function isSure({ low, high }: Difference): boolean {
  return low !== null && high !== null && (low > 0 || high < 0);
}

function middleOf(pairs: readonly number[]): Difference {
  const sorted = [...pairs].sort((a, b) => a - b);
  if (sorted.length === 0) return { typical: null, low: null, high: null };
  const typical = sorted[sorted.length >> 1] ?? null;
  if (sorted.length < PAIRS_MIN) return { typical, low: null, high: null };
  const [low, high] = rangeOfMiddle(sorted);
  return { typical, low, high };
}

/**
 * Of what happens to a few of a thousand the middle says nothing: only the pairs in which it happened to one
 * count.
 */
function shareThatChanged(pairs: readonly number[]): Difference {
  const changed = pairs.filter((by) => by !== 0);
  const typical = pairs.length === 0 ? null : pairs.reduce((sum, by) => sum + by, 0) / pairs.length;
  if (changed.length < PAIRS_MIN) return { typical, low: null, high: null };
  const up = { events: changed.filter((by) => by > 0).length, of: changed.length };
  const { lower, upper } = wilson(up, CONFIDENCE_EACH_SIDE);
  const scale = (1_000 * changed.length) / pairs.length;
  return { typical, low: scale * (2 * lower - 1), high: scale * (2 * upper - 1) };
}

/** The interval of the median, by its ranks. */
function rangeOfMiddle(sorted: readonly number[]): [number | null, number | null] {
  const at = (rank: number) => sorted[Math.min(sorted.length - 1, Math.max(0, rank))] ?? null;
  const reach = (Z / 2) * Math.sqrt(sorted.length);
  return [at(Math.floor(sorted.length / 2 - reach)), at(Math.ceil(sorted.length / 2 + reach))];
}

/** Nobody asks it of who is over a limit. */
function held(run: Run): number | null {
  return run.isOverLimit ? null : run.falselyHeld ? 1_000 : 0;
}

function heldBack(runs: readonly Run[]): Sample {
  const good = runs.filter(({ isOverLimit }) => !isOverLimit);
  return { events: good.filter(({ falselyHeld }) => falselyHeld).length, of: good.length };
}

function overLimit(runs: readonly Run[]): Sample {
  return { events: runs.filter(({ isOverLimit }) => isOverLimit).length, of: runs.length };
}

/** null: nothing good was sent. */
function shareOf(count: number, { goodSent }: Run): number | null {
  return goodSent === 0 ? null : count / goodSent;
}

/** A number of every day over all runs: the tenth, the middle and the ninetieth of a hundred. */
export function dailyBand(
  runs: readonly Run[],
  of: (day: Run["days"][number]) => number,
): { low: number; middle: number; high: number }[] {
  return (runs[0]?.days ?? []).map((_, day) => {
    const values = runs.map((run) => of(run.days[day] as Run["days"][number])).sort((a, b) => a - b);
    const at = (share: number) => values[Math.floor((values.length - 1) * share)] ?? 0;
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
