/**
 * A study: one policy, or two, on many simulated workspaces of a scenario, and what came out. It is what the
 * table, the JSON file and the HTML report show. The same seeds meet each policy, so that they differ by
 * nothing else.
 */
import { messageOf } from "../caught.ts";
import {
  type Differences,
  dailyBand,
  differencesOf,
  type Measures,
  measure,
  pooledDelays,
  type RunValues,
  valuesOf,
} from "./measures.ts";
import { checkPolicy } from "./policy/check.ts";
import { type Measure, suspicion } from "./policy/evidence.ts";
import { PolicyFile } from "./policy/file.ts";
import { weighed } from "./policy/sources.ts";
import { type Policy, policyVersion, watchOf } from "./policy.ts";
import { DEFAULT_RECEIVERS, ReceiverFile } from "./receivers.ts";
import { simulateSeeds } from "./seeds.ts";
import { FIRST_MS, type Observe, type Run, simulate } from "./simulate.ts";
import { BINS_PER_DAY, BINS_PER_HOUR, type Scenario } from "./workload.ts";

const SWEEP_POINTS_MAX = 50;
const STRICTNESSES = [0.4, 0.55, 0.75, 1, 1.35, 1.8, 2.4];
const TRADE_OFF_RUNS_MAX = 10;
const RECEIVERS = "receivers.";
const HOUR_MS = 3_600_000;

export type Named<T> = { name: string; value: T };

export type Setup = {
  policies: Named<Policy>[];
  scenario: Named<Scenario>;
  days: number;
  seed: number;
  runs: number;
  threads: number;
};

/** Five minutes around a pause: what went in them and what of it bounced at once. */
export type CloseUp = { bin: number; bins: { bin: number; sent: number; bounced: number }[] };

/** How far the evidence of an hour has come towards a freeze, 1 being there. */
export type WatchedHour = Record<Measure, number> & { hour: number };

export type StudyResult = {
  name: string;
  version: string;
  policy: Policy;
  measures: Measures;
  /** From the first policy, seed by seed; null: it is the first. */
  difference: Differences | null;
  /** The run of the first seed, to look at, and what its evidence was. */
  shown: Run;
  watched: WatchedHour[];
  closeUps: CloseUp[];
  band: { low: number; middle: number; high: number }[];
  waitingBand: { low: number; middle: number; high: number }[];
  delays: { transactional: number[]; automation: number[] };
};

/** One parameter at several values: `growth=1.1..2.0/10`. */
export type Sweep = { parameter: string; values: number[] };
/** `difference`: from the first point, seed by seed. */
export type SweepPoint = { value: number; measures: Measures; difference: Differences | null };

/**
 * What a policy lets through against what it holds back, from strict to loose; `factor` 1 is the policy
 * itself.
 */
export type TradeOff = { name: string; points: { factor: number; badSent: number; delayedShare: number }[] };

export type Study = Setup & {
  outcomes: StudyResult[];
  sweep: { parameter: string; points: SweepPoint[] } | null;
  tradeOff: TradeOff[] | null;
};

/** Says how much of the work is done, between 0 and 1. */
export type StudyProgress = (share: number) => void;

export async function study(
  setup: Setup,
  sweep: Sweep | null,
  tradeOff: { good: Scenario; bad: Scenario } | null,
  progress: StudyProgress,
): Promise<Study> {
  const { policies, scenario, days, seed, runs, threads } = setup;
  const hasTarget = scenario.value.target !== undefined;
  const first = (policies[0] as Named<Policy>).value;
  const swept = sweep?.values.map((value) => ({
    value,
    ...withParameter(first, scenario.value, sweep.parameter, value),
  }));
  const tradeRuns = Math.min(runs, TRADE_OFF_RUNS_MAX);
  // one run of each policy is looked at again
  const total =
    policies.length * (runs + 1) * days +
    (sweep ? sweep.values.length * runs * days : 0) +
    (tradeOff
      ? policies.length * STRICTNESSES.length * tradeRuns * (tradeOff.good.days + tradeOff.bad.days)
      : 0);
  let done = 0;
  const onDays = (more: number) => {
    done += more;
    progress(done / total);
  };
  const many = (policy: Policy, of: Scenario, ofDays: number, count: number): Promise<Run[]> =>
    simulateSeeds({ policy, scenario: of, days: ofDays, seed, runs: count }, threads, onDays);

  const outcomes: StudyResult[] = [];
  let known: RunValues | null = null;
  for (const { name, value: policy } of policies) {
    const all = await many(policy, scenario.value, days, runs);
    const values = valuesOf(all);
    const difference: Differences | null = known && differencesOf(known, values);
    known ??= values;
    outcomes.push({
      name,
      version: policyVersion(policy),
      policy,
      measures: measure(all, hasTarget),
      difference,
      shown: all[0] as Run,
      ...watch(policy, scenario.value, all[0] as Run, () => onDays(1)),
      band: dailyBand(all, ({ cap }) => cap),
      waitingBand: dailyBand(all, ({ waiting }) => waiting),
      delays: {
        transactional: pooledDelays(all, "transactional"),
        automation: pooledDelays(all, "automation"),
      },
    });
  }
  const points: SweepPoint[] = [];
  known = null;
  for (const { value, policy, scenario: changed } of swept ?? []) {
    const all = await many(policy, changed, days, runs);
    const values = valuesOf(all);
    const difference: Differences | null = known && differencesOf(known, values);
    known ??= values;
    points.push({ value, measures: measure(all, hasTarget), difference });
  }
  const curves: TradeOff[] = [];
  for (const { name, value } of tradeOff ? policies : [])
    curves.push({ name, points: await tradeOffOf(value, tradeOff as Trade, tradeRuns, many) });
  return {
    ...setup,
    outcomes,
    sweep: sweep ? { ...sweep, points } : null,
    tradeOff: tradeOff ? curves : null,
  };
}

type Trade = { good: Scenario; bad: Scenario };

async function tradeOffOf(
  policy: Policy,
  { good, bad }: Trade,
  runs: number,
  many: (policy: Policy, of: Scenario, days: number, runs: number) => Promise<Run[]>,
): Promise<TradeOff["points"]> {
  const points: TradeOff["points"] = [];
  for (const factor of STRICTNESSES) {
    const changed = loosened(policy, factor);
    const { bad_sent } = measure(await many(changed, bad, bad.days, runs), false);
    const { delayed_share } = measure(await many(changed, good, good.days, runs), false);
    points.push({ factor, badSent: bad_sent.typical ?? 0, delayedShare: delayed_share.typical ?? 0 });
  }
  return points;
}

const CLOSE_UPS_MAX = 4;
const CLOSE_UP_BINS = 2 * BINS_PER_HOUR;

/** One run again, with its evidence hour by hour and its first pauses bin by bin. */
function watch(
  policy: Policy,
  scenario: Scenario,
  { seed, days, changes }: Run,
  onDay: () => void,
): Pick<StudyResult, "watched" | "closeUps"> {
  const watched: WatchedHour[] = [];
  const closeUps = changes
    .filter(({ level, harm }) => level === "paused" && harm !== null)
    .slice(0, CLOSE_UPS_MAX)
    .map(({ bin }): CloseUp => ({ bin, bins: [] }));
  let [sent, bounced] = [0, 0];
  const observe: Observe = (bin, state, counts) => {
    const today = counts.at(-1);
    const dayBefore = counts.at(-2);
    if (bin % BINS_PER_DAY === 0) {
      sent -= dayBefore?.used ?? 0;
      bounced -= dayBefore?.bounced ?? 0;
    }
    const [used, refused] = [today?.used ?? 0, today?.bounced ?? 0];
    for (const closeUp of closeUps)
      if (Math.abs(bin - 1 - closeUp.bin) <= CLOSE_UP_BINS)
        closeUp.bins.push({ bin: bin - 1, sent: used - sent, bounced: Math.max(0, refused - bounced) });
    [sent, bounced] = [used, refused];
    const hour = bin / BINS_PER_HOUR;
    if (!Number.isInteger(hour)) return;
    const [watch, now] = [watchOf(policy, state), FIRST_MS + hour * HOUR_MS];
    const days = weighed(policy, watch, counts, now);
    const [ofAll, ofBulk] = [false, true].map((ofBulk) => suspicion(policy, watch, days, now, ofBulk)) as [
      Record<Measure, number>,
      Record<Measure, number>,
    ];
    const most = (measure: Measure) => Math.max(ofAll[measure], ofBulk[measure]);
    watched.push({ hour, bounce: most("bounce"), complaint: most("complaint") });
  };
  simulate(policy, scenario, days.length, seed, observe, onDay);
  return { watched, closeUps };
}

/** `growth=1.1..2.0/10`, or an Error that says what is wrong with it. */
export function readSweep(text: string): Sweep {
  const [, parameter = "", from, to, count] =
    /^([a-z_.]+)=(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)\/(\d+)$/.exec(text) ?? [];
  const points = Number(count);
  if (parameter === "" || points < 2 || points > SWEEP_POINTS_MAX)
    throw new Error(`It must read like \`growth=1.1..2.0/10\`, with 2 to ${SWEEP_POINTS_MAX} points.`);
  const step = (Number(to) - Number(from)) / (points - 1);
  const whole = schemaOf(parameter)?.type === "integer";
  const values = Array.from({ length: points }, (_, n) => {
    const value = Number(from) + n * step;
    return whole ? Math.round(value) : Number(value.toPrecision(6));
  });
  return { parameter, values: [...new Set(values)] };
}

/**
 * The policy with one number changed, by its path in the file; or the scenario, with one of its receivers.
 */
export function withParameter(
  policy: Policy,
  scenario: Scenario,
  parameter: string,
  value: number,
): { policy: Policy; scenario: Scenario } {
  if (!["number", "integer"].includes(schemaOf(parameter)?.type ?? ""))
    throw new Error(
      `The policy has no number \`${parameter}\`. Write the path of one, such as growth or freeze.bounce, or ${RECEIVERS}NAME with one of ${Object.keys(DEFAULT_RECEIVERS).join(", ")}.`,
    );
  if (!parameter.startsWith(RECEIVERS))
    return { policy: checkPolicy(changed(policy, parameter, value)), scenario };
  const known = scenario.receivers === "indifferent" ? {} : scenario.receivers;
  const receivers = { ...known, [parameter.slice(RECEIVERS.length)]: value };
  return { policy, scenario: { ...scenario, receivers } };
}

function changed(policy: Policy, parameter: string, value: number): unknown {
  const copy: unknown = structuredClone(policy);
  const path = parameter.split(".");
  const last = path.pop() as string;
  let part = copy as Record<string, unknown>;
  for (const name of path) part = part[name] as Record<string, unknown>;
  part[last] = value;
  try {
    checkPolicy(copy);
  } catch (error) {
    throw new Error(`With ${parameter}=${value}: ${messageOf(error)}`);
  }
  return copy;
}

type ParameterSchema = { type?: string; properties?: Record<string, ParameterSchema> };

function schemaOf(parameter: string): ParameterSchema | undefined {
  const isOfReceivers = parameter.startsWith(RECEIVERS);
  let schema: ParameterSchema | undefined = isOfReceivers ? ReceiverFile : PolicyFile;
  const path = isOfReceivers ? parameter.slice(RECEIVERS.length) : parameter;
  for (const name of path.split(".")) schema = schema?.properties?.[name];
  return schema;
}

/**
 * The same policy with every rate of harm and the growth moved by a factor: under 1 stricter, over 1 looser.
 */
function loosened(policy: Policy, factor: number): Policy {
  const rate = (value: number) => Math.min(1, value * factor);
  const both = <T extends { bounce: number; complaint: number }>(rates: T): T => ({
    ...rates,
    bounce: rate(rates.bounce),
    complaint: rate(rates.complaint),
  });
  return {
    ...policy,
    growth: 1 + (policy.growth - 1) * factor,
    freeze: both(policy.freeze),
    pause: both(policy.pause),
    shrink: both(policy.shrink),
  };
}
