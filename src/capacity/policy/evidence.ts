/**
 * What the daily counts of a workspace say about its mail: rates over the last days, how sure they are, and how bad.
 * Harm is read from Wilson lower bounds (what is surely so), health from posterior means (what is probably so): a
 * workspace of 200 e-mails a day could not prove itself free of complaints for two weeks, so growth cannot ask for proof.
 */

import { DAY_MS } from "../../clock.ts";
import type { DayCounts } from "../../record/workspaces/caps.ts";
import type { Policy } from "./file.ts";

const LATE_SHARE_MIN = 1e-4;

/** Events among so many. */
export type Sample = { events: number; of: number };
export type Rates = { bounce: Sample; complaint: Sample };
export type Measure = keyof Rates;

/** What is proven, and what follows from it: a freeze always, a pause and a shrink each at its own rate. */
export type Harm = {
  measure: Measure;
  days: number;
  sample: Sample;
  atLeast: number;
  pauses: boolean;
  shrinks: boolean;
};

/** What a step has been taken on: of these days, only what comes on top counts as new. */
export type JudgedEvidence = { day: string; bounced: number; complained: number };

export function dayOf(now: number): string {
  return dayText(Math.floor(now / DAY_MS));
}

export function dayPlus(day: string, days: number): string {
  return dayText(dayNumber(day) + days);
}

/** The days around now, read and written once: a simulation asks for them a hundred million times. */
const numbers = new Map<string, number>();
const texts = new Map<number, string>();
const DAYS_KEPT_MAX = 100;

function dayNumber(day: string): number {
  return kept(numbers, day, () => Date.parse(day) / DAY_MS);
}

function dayText(number: number): string {
  return kept(texts, number, () => new Date(number * DAY_MS).toISOString().slice(0, 10));
}

function kept<K, V>(known: Map<K, V>, key: K, make: () => V): V {
  const found = known.get(key);
  if (found !== undefined) return found;
  if (known.size >= DAYS_KEPT_MAX) known.clear();
  const made = make();
  known.set(key, made);
  return made;
}

/**
 * What was new in the days `from` to `to`, against the mail of these days. Complaints come late, so that the mail of the
 * day before counts as well: after midnight the new day has hardly sent anything to hold them against. Bounces come at
 * once for the most part, and a sudden bad list must show: what may still come in of earlier mail is allowed for
 * instead. Mail of the day before on which a step was taken goes on bouncing, and counts too.
 */
export function rates(
  policy: Policy,
  days: readonly DayCounts[],
  from: string,
  to: string,
  judged: readonly JudgedEvidence[] = [],
): Rates {
  const dayBefore = dayPlus(from, -1);
  let mail = 0;
  let answered = 0;
  let bounced = 0;
  let complained = 0;
  let fblDelivered = 0;
  let stillToCome = 0;
  let share = policy.evidence.late_bounces;
  for (let n = days.length - 1; n >= 0; n--) {
    const counts = days[n] as DayCounts;
    if (counts.day > to) continue;
    const known = judged.length > 0 ? judged.find((one) => one.day === counts.day) : undefined;
    if (counts.day >= from) {
      bounced += known ? Math.max(0, counts.bounced - known.bounced) : counts.bounced;
      complained += known ? Math.max(0, counts.complained - known.complained) : counts.complained;
    } else {
      stillToCome += share * counts.delivered;
      share /= 2;
      if (share < LATE_SHARE_MIN) break;
    }
    if (counts.day >= from || (counts.day === dayBefore && known)) {
      mail += counts.attempted - counts.blocked;
      answered += counts.delivered + counts.bounced;
    }
    if (counts.day >= dayBefore) fblDelivered += counts.fblDelivered;
  }
  bounced = Math.max(0, bounced - Math.round(stillToCome));
  return {
    // mail still on its way dilutes nothing; mail that bounced after it was delivered is not counted twice
    bounce: { events: bounced, of: Math.max(bounced, Math.min(mail, answered)) },
    complaint: { events: complained, of: Math.max(complained, fblDelivered) },
  };
}

/** What is proven by today, the last two days or the whole window, and goes furthest; null: nothing is. */
export function findHarm(
  policy: Policy,
  days: readonly DayCounts[],
  today: string,
  judged: readonly JudgedEvidence[],
): Harm | null {
  if (!mayProve(policy, days)) return null;
  let worst: Harm | null = null;
  for (const length of new Set([1, Math.min(2, policy.window_days), policy.window_days])) {
    const sampled = rates(policy, days, dayPlus(today, 1 - length), today, judged);
    for (const measure of ["bounce", "complaint"] as const) {
      const found = prove(policy, measure, sampled[measure], length);
      if (found && (worst === null || reach(found) > reach(worst))) worst = found;
    }
  }
  return worst;
}

/** A day that is no reason to hold a workspace back any longer: probably well below the freeze rates. */
export function isClean(policy: Policy, days: readonly DayCounts[], day: string): boolean {
  const sampled = rates(policy, days, day, day);
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
  const sampled = rates(policy, days, from, to);
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
  if (value === 0) return "0%";
  return `${value >= 10 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toFixed(3)}%`;
}

/**
 * Spares the common case the arithmetic of three windows: where no single day is over a freeze rate, no sum of days is,
 * and too few events prove nothing however they fall.
 */
function mayProve({ window_days, freeze, evidence }: Policy, days: readonly DayCounts[]): boolean {
  let bounced = 0;
  let complained = 0;
  let manyBounce = false;
  let manyComplain = false;
  for (let n = Math.max(0, days.length - window_days); n < days.length; n++) {
    const counts = days[n] as DayCounts;
    const answered = Math.min(counts.attempted - counts.blocked, counts.delivered + counts.bounced);
    bounced += counts.bounced;
    complained += counts.complained;
    manyBounce ||= counts.bounced > freeze.bounce * answered;
    manyComplain ||= counts.complained > freeze.complaint * counts.fblDelivered;
  }
  return (
    (manyBounce && bounced >= evidence.bounces_min) || (manyComplain && complained >= evidence.complaints_min)
  );
}

function prove(policy: Policy, measure: Measure, sample: Sample, days: number): Harm | null {
  const { evidence, freeze, shrink, pause } = policy;
  const eventsMin = measure === "bounce" ? evidence.bounces_min : evidence.complaints_min;
  if (sample.events < eventsMin || sample.of < evidence.attempted_min) return null;
  if (sample.events <= sample.of * freeze[measure]) return null;
  const atLeast = wilson(sample, evidence.confidence).lower;
  if (atLeast <= freeze[measure]) return null;
  const pauses = atLeast > pause[measure];
  return { measure, days, sample, atLeast, pauses, shrinks: atLeast > shrink[measure] };
}

function reach({ pauses, shrinks }: Harm): number {
  return (shrinks ? 2 : 0) + (pauses ? 1 : 0);
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
