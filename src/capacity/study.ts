/**
 * A study: one policy, or two, on many simulated workspaces of a scenario, and what came out. It is what the table, the
 * JSON file and the HTML report show. The same seeds meet each policy, so that they differ by nothing else.
 */
import { capBand, type Measures, measure, pooledDelays } from "./measures.ts";
import { checkPolicy, type Policy, PolicyFile, policyVersion } from "./policy.ts";
import { type Run, simulate } from "./simulate.ts";
import type { Scenario } from "./workload.ts";

const SWEEP_POINTS_MAX = 50;
const STRICTNESSES = [0.4, 0.55, 0.75, 1, 1.35, 1.8, 2.4];
const TRADE_OFF_RUNS_MAX = 10;

export type Named<T> = { name: string; value: T };

export type Setup = {
  policies: Named<Policy>[];
  scenario: Named<Scenario>;
  days: number;
  seed: number;
  runs: number;
};

export type StudyResult = {
  name: string;
  version: string;
  policy: Policy;
  measures: Measures;
  /** The run of the first seed, to look at. */
  shown: Run;
  band: { low: number; middle: number; high: number }[];
  delays: { transactional: number[]; automation: number[] };
};

/** One parameter at several values: `growth=1.1..2.0/10`. */
export type Sweep = { parameter: string; values: number[] };
export type SweepPoint = { value: number; measures: Measures };

/** What a policy lets through against what it holds back, from strict to loose; `factor` 1 is the policy itself. */
export type TradeOff = { name: string; points: { factor: number; badSent: number; delayedShare: number }[] };

export type Study = Setup & {
  outcomes: StudyResult[];
  sweep: { parameter: string; points: SweepPoint[] } | null;
  tradeOff: TradeOff[] | null;
};

/** Says how much of the work is done, between 0 and 1. */
export type StudyProgress = (share: number) => void;

export function study(
  setup: Setup,
  sweep: Sweep | null,
  tradeOff: { good: Scenario; bad: Scenario } | null,
  progress: StudyProgress,
): Study {
  const { policies, scenario, days, seed, runs } = setup;
  const hasTarget = scenario.value.target !== undefined;
  const first = (policies[0] as Named<Policy>).value;
  const swept = sweep?.values.map((value) => ({
    value,
    policy: withParameter(first, sweep.parameter, value),
  }));
  const tradeRuns = Math.min(runs, TRADE_OFF_RUNS_MAX);
  const total =
    policies.length * runs +
    (sweep ? sweep.values.length * runs : 0) +
    (tradeOff ? policies.length * STRICTNESSES.length * tradeRuns * 2 : 0);
  let done = 0;
  const many = (policy: Policy, of: Scenario, ofDays: number, count: number): Run[] =>
    Array.from({ length: count }, (_, n) => {
      const run = simulate(policy, of, ofDays, seed + n);
      progress(++done / total);
      return run;
    });

  const outcomes = policies.map(({ name, value: policy }): StudyResult => {
    const all = many(policy, scenario.value, days, runs);
    return {
      name,
      version: policyVersion(policy),
      policy,
      measures: measure(all, hasTarget),
      shown: all[0] as Run,
      band: capBand(all),
      delays: {
        transactional: pooledDelays(all, "transactional"),
        automation: pooledDelays(all, "automation"),
      },
    };
  });
  const points = swept?.map(({ value, policy }): SweepPoint => {
    return { value, measures: measure(many(policy, scenario.value, days, runs), hasTarget) };
  });
  const curves = tradeOff
    ? policies.map(({ name, value }): TradeOff => {
        const points = STRICTNESSES.map((factor) => {
          const policy = loosened(value, factor);
          const bad = measure(many(policy, tradeOff.bad, tradeOff.bad.days, tradeRuns), false);
          const good = measure(many(policy, tradeOff.good, tradeOff.good.days, tradeRuns), false);
          return {
            factor,
            badSent: bad.bad_sent.typical ?? 0,
            delayedShare: good.delayed_share.typical ?? 0,
          };
        });
        return { name, points };
      })
    : null;
  return { ...setup, outcomes, sweep: sweep && points ? { ...sweep, points } : null, tradeOff: curves };
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

/** The policy with one number changed, by its path in the file. */
export function withParameter(policy: Policy, parameter: string, value: number): Policy {
  if (!["number", "integer"].includes(schemaOf(parameter)?.type ?? ""))
    throw new Error(
      `The policy has no number \`${parameter}\`. Write the path of one, such as growth or freeze.bounce.`,
    );
  const changed: unknown = structuredClone(policy);
  const path = parameter.split(".");
  const last = path.pop() as string;
  let part = changed as Record<string, unknown>;
  for (const name of path) part = part[name] as Record<string, unknown>;
  part[last] = value;
  try {
    return checkPolicy(changed);
  } catch (error) {
    throw new Error(`With ${parameter}=${value}: ${error instanceof Error ? error.message : error}`);
  }
}

type ParameterSchema = { type?: string; properties?: Record<string, ParameterSchema> };

function schemaOf(parameter: string): ParameterSchema | undefined {
  let schema: ParameterSchema | undefined = PolicyFile;
  for (const name of parameter.split(".")) schema = schema?.properties?.[name];
  return schema;
}

/** The same policy with every rate of harm and the growth moved by a factor: under 1 stricter, over 1 looser. */
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
