/**
 * What the daily counts of a workspace say about its mail: rates over the last days, how sure they are, and how bad.
 * Harm is read from Wilson lower bounds (what is surely so), health from posterior means (what is probably so): a
 * workspace of 200 e-mails a day could not prove itself free of complaints for two weeks, so growth cannot ask for proof.
 */
import type { Policy } from "./file.ts";

export const DAY_MS = 86_400_000;

/** Of one UTC day, in recipients; each counted on the day on which it happened. */
export type DayCounts = {
  /** `2026-11-21` */
  day: string;
  /** Tried for the first time. */
  attempted: number;
  delivered: number;
  /** For good, for reasons that lie with the address; in the session or later. */
  bounced: number;
  /** Refused for the sender's address or content: says nothing about the list. */
  blocked: number;
  complained: number;
  /** Delivered to domains that report complaints, the only mail a complaint can come from. */
  fblDelivered: number;
  /** Mail that waited for a cap. */
  delayed: number;
  /** Of the daily cap. */
  used: number;
};

/** Events among so many. */
export type Sample = { events: number; of: number };
export type Rates = { bounce: Sample; complaint: Sample };
export type Measure = keyof Rates;

/** How bad the evidence is: each includes the ones before it. */
export const SEVERITIES = ["none", "freeze", "shrink", "pause"] as const;
export type Severity = (typeof SEVERITIES)[number];
export type Finding = {
  severity: Severity;
  measure: Measure;
  days: number;
  sample: Sample;
  atLeast: number;
  over: number;
};

export function dayOf(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}

export function dayPlus(day: string, days: number): string {
  return dayOf(Date.parse(day) + days * DAY_MS);
}

/** The counts of the days `from` to `to`, without what `judged` already holds of them. */
export function rates(
  days: readonly DayCounts[],
  from: string,
  to: string,
  judged: readonly DayCounts[],
): Rates {
  let attempted = 0;
  let delivered = 0;
  let bounced = 0;
  let complained = 0;
  let fblDelivered = 0;
  for (let n = days.length - 1; n >= 0; n--) {
    const counts = days[n] as DayCounts;
    if (counts.day > to) continue;
    if (counts.day < from) break;
    const known = judged.length === 0 ? undefined : judged.find((one) => one.day === counts.day);
    attempted += fresh(counts.attempted - counts.blocked, known && known.attempted - known.blocked);
    delivered += fresh(counts.delivered, known?.delivered);
    bounced += fresh(counts.bounced, known?.bounced);
    complained += fresh(counts.complained, known?.complained);
    fblDelivered += fresh(counts.fblDelivered, known?.fblDelivered);
  }
  return {
    // mail still on its way dilutes nothing; mail that bounced after it was delivered is not counted twice
    bounce: { events: bounced, of: Math.max(bounced, Math.min(attempted, delivered + bounced)) },
    complaint: { events: complained, of: Math.max(complained, fblDelivered) },
  };
}

/** The worst that is proven by today, the last two days or the whole window; null: nothing is. */
export function findHarm(
  policy: Policy,
  days: readonly DayCounts[],
  today: string,
  judged: readonly DayCounts[],
): Finding | null {
  if (!mayProve(policy, days)) return null;
  let worst: Finding | null = null;
  let narrower = 0;
  for (const length of [1, 2, policy.window_days]) {
    if (length <= narrower || length > policy.window_days) continue;
    narrower = length;
    const sampled = rates(days, dayPlus(today, 1 - length), today, judged);
    for (const measure of ["bounce", "complaint"] as const) {
      const found = finding(policy, measure, sampled[measure], length);
      if (found && (worst === null || rank(found) > rank(worst))) worst = found;
    }
  }
  return worst;
}

/** A day that is no reason to hold a workspace back any longer: probably well below the freeze rates. */
export function isClean(policy: Policy, days: readonly DayCounts[], day: string): boolean {
  const sampled = rates(days, day, day, []);
  const { recovery, freeze, evidence } = policy;
  return (
    (sampled.bounce.events < evidence.bounces_min ||
      posterior(policy, "bounce", sampled.bounce) <= recovery.below * freeze.bounce) &&
    (sampled.complaint.events < evidence.complaints_min ||
      posterior(policy, "complaint", sampled.complaint) <= recovery.below * freeze.complaint)
  );
}

/** Why a workspace is not healthy enough to grow; null: it is. */
export function ailment(policy: Policy, days: readonly DayCounts[], to: string): string | null {
  const from = dayPlus(to, 1 - policy.window_days);
  const sampled = rates(days, from, to, []);
  for (const measure of ["bounce", "complaint"] as const) {
    const mean = posterior(policy, measure, sampled[measure]);
    if (mean >= policy.healthy[measure])
      return `${measure}s probably ${percent(mean)}, growth needs less than ${percent(policy.healthy[measure])}`;
  }
  const last = days.find((counts) => counts.day === to);
  const blocked = last && last.attempted > 0 ? last.blocked / last.attempted : 0;
  if (blocked >= policy.healthy.blocked)
    return `${percent(blocked)} blocked, growth needs less than ${percent(policy.healthy.blocked)}`;
  return null;
}

export function deliveredWithin(days: readonly DayCounts[], from: string, to: string): number {
  let total = 0;
  for (const counts of days) if (counts.day >= from && counts.day <= to) total += counts.delivered;
  return total;
}

export function posterior(policy: Policy, measure: Measure, { events, of }: Sample): number {
  const { rate, weight } = policy.prior[measure];
  return (events + rate * weight) / (of + weight);
}

/** One-sided Wilson bounds of a rate. */
export function wilson({ events, of }: Sample, confidence: number): { lower: number; upper: number } {
  if (of === 0) return { lower: 0, upper: 1 };
  const z = normalQuantile(confidence);
  const rate = events / of;
  const middle = rate + (z * z) / (2 * of);
  const reach = z * Math.sqrt((rate * (1 - rate)) / of + (z * z) / (4 * of * of));
  const scale = 1 + (z * z) / of;
  return { lower: Math.max(0, (middle - reach) / scale), upper: Math.min(1, (middle + reach) / scale) };
}

export function percent(rate: number): string {
  const value = rate * 100;
  return `${value >= 10 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toFixed(3)}%`;
}

/** Spares the common case, a quiet list, the arithmetic of three windows. */
function mayProve(policy: Policy, days: readonly DayCounts[]): boolean {
  const { bounces_min, complaints_min } = policy.evidence;
  let bounced = 0;
  let complained = 0;
  for (let n = Math.max(0, days.length - policy.window_days); n < days.length; n++) {
    const counts = days[n] as DayCounts;
    bounced += counts.bounced;
    complained += counts.complained;
  }
  return bounced >= bounces_min || complained >= complaints_min;
}

function finding(policy: Policy, measure: Measure, sample: Sample, days: number): Finding | null {
  const { evidence, freeze, shrink, pause } = policy;
  const eventsMin = measure === "bounce" ? evidence.bounces_min : evidence.complaints_min;
  if (sample.events < eventsMin || sample.of < evidence.attempted_min) return null;
  if (sample.events <= sample.of * freeze[measure]) return null;
  const atLeast = wilson(sample, evidence.confidence).lower;
  const proven = (severity: Severity, over: number) => ({ severity, measure, days, sample, atLeast, over });
  if (atLeast > pause[measure]) return proven("pause", pause[measure]);
  if (atLeast > shrink[measure]) return proven("shrink", shrink[measure]);
  if (atLeast > freeze[measure]) return proven("freeze", freeze[measure]);
  return null;
}

function rank({ severity }: Finding): number {
  return SEVERITIES.indexOf(severity);
}

function fresh(counted: number, known: number | undefined): number {
  return known === undefined ? counted : Math.max(0, counted - known);
}

/** Abramowitz and Stegun 26.2.23: within 0.00045 for the upper half, which is all that is asked. */
function normalQuantile(confidence: number): number {
  const t = Math.sqrt(-2 * Math.log(1 - confidence));
  return (
    t -
    (2.515517 + 0.802853 * t + 0.010328 * t * t) /
      (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t)
  );
}
