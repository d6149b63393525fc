/**
 * What the counts of a workspace say about its mail: rates over windows, how sure they are, and how bad. Harm
 * is read from e-values (what is surely so, however often one looks), health from posterior means (what is
 * probably so): a workspace of 200 e-mails a day could not prove itself free of complaints for two weeks, so
 * growth cannot ask for proof.
 *
 * A window is all mail since some moment, and what has become of it, whenever that is heard. Windows are
 * never emptied at midnight: one starts with the workspace, one with each day, one with each hour.
 */

import { DAY_MS } from "../../clock.ts";
import type { BulkCounts, DayCounts } from "../../record/workspaces/caps.ts";
import { alternativesTo, logEvidence, lowerBound, mayReach, type Sample } from "./evalue.ts";
import type { Policy } from "./file.ts";

/** Counts of so many days, the current one last, are all that the policy ever looks at. */
export const COUNTED_DAYS_MAX = 30;
export type { Sample } from "./evalue.ts";

const HOUR_MS = 3_600_000;
/** So many hours ago a window of an hour starts at most; the windows of days go on from there. */
const HOURS_MAX = 24;
const DAYS_OF_BUDGET = 30;
const NO_HOURS: readonly HourMark[] = [];
const LONG_WINDOW_SHARE = 0.8;
const WINDOWS_OF_DAYS_SHARE = 0.35;
const WINDOWS_OF_HOURS_SHARE = 0.25;

export type Rates = { bounce: Sample; complaint: Sample };
export type Measure = keyof Rates;

/** What is proven, and what follows from it: a freeze always, a pause and a shrink each at its own rate. */
export type Harm = {
  measure: Measure;
  /** The window that proves it: since when, and how many UTC days it touches. */
  since: number;
  days: number;
  sample: Sample;
  atLeast: number;
  pauses: boolean;
  shrinks: boolean;
  /** It is about the mail of the stream `bulk` alone. */
  isBulk: boolean;
};

/** Bounces and complaints of a day that do not count, see sources.ts. */
export type LeftOut = { bounced: number; complained: number };
export type WeighedCounts = DayCounts & { leftOut?: LeftOut; bulk?: WeighedBulk };
type WeighedBulk = BulkCounts & { leftOut?: LeftOut };

/**
 * Of the mail of a day, in recipients: tried for the first time, answered, and bounced at once; `left`
 * bounces do not count.
 */
type Progress = { tried: number; answered: number; bounced: number; left?: number };

/** How far a day was at the first look in an hour: where a window starts. `hour` counts from 1970. */
export type HourMark = Progress & { hour: number };

/**
 * What has been used for a step, or was before the workspace came back: of that day only what comes on top
 * counts.
 */
export type JudgedEvidence = JudgedProgress & { day: string; bulk?: JudgedProgress };
type JudgedProgress = Progress & { complained: number; leftComplained?: number };

/** From where on evidence counts. */
export type Watch = {
  /** The first day; null: nothing was sent yet. */
  since: string | null;
  judged: JudgedEvidence | null;
  hours: readonly HourMark[];
  /** The error that is allowed in a month; the windows share it. */
  error: number;
};

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

/** Of the days of one look after another: nearly always the same ones in the same places. */
const daysAt: string[] = [];
const numbersAt: number[] = [];

function dayNumberAt(place: number, day: string): number {
  if (daysAt[place] === day) return numbersAt[place] as number;
  const number = dayNumber(day);
  if (place < COUNTED_DAYS_MAX) {
    daysAt[place] = day;
    numbersAt[place] = number;
  }
  return number;
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
 * Whether it matters of which sources the bounces are: only where they stand in the way of a workspace. So
 * production asks for them only then, and an ordinary workspace costs nothing.
 */
export function isDoubted(policy: Policy, watch: Watch, days: readonly DayCounts[], now: number): boolean {
  const { evidence, healthy } = policy;
  return (
    days.some(
      ({ attempted, bounced }) => bounced >= evidence.bounces_min && bounced > healthy.bounce * attempted,
    ) || findHarm(policy, watch, days, now) !== null
  );
}

/** None that was refused for the sender's sake. */
function triedOf({ attempted, blocked }: BulkCounts): number {
  return attempted - blocked;
}

/** With the bounces that came while we were connected, not those of mail that had been taken. */
function answeredOf(counts: BulkCounts): number {
  return counts.delivered + atOnceOf(counts);
}

function atOnceOf({ bounced, lateBounced = 0 }: BulkCounts): number {
  return bounced - lateBounced;
}

function progressOf(counts: WeighedBulk): Progress {
  const left = counts.leftOut?.bounced ?? 0;
  const progress = { tried: triedOf(counts), answered: answeredOf(counts), bounced: atOnceOf(counts) };
  return left === 0 ? progress : { ...progress, left };
}

/** What did not count at a moment and does now: it came before. */
function returned(leftThen = 0, leftNow = 0): number {
  return Math.max(0, leftThen - leftNow);
}

/** What is known of the mail of the days `from` to `to`: of all of it, or of the stream `bulk`. */
export function rates(days: readonly DayCounts[], from: string, to: string, ofBulk = false): Rates {
  let [tried, answered, bounced, complained, fblDelivered] = [0, 0, 0, 0, 0];
  for (const day of days) {
    if (day.day < from || day.day > to) continue;
    const counts = ofBulk ? (day.bulk ?? NO_MAIL) : day;
    tried += triedOf(counts);
    answered += answeredOf(counts);
    bounced += counts.bounced;
    complained += counts.complained;
    fblDelivered += counts.fblDelivered;
  }
  return {
    bounce: sampleOf(bounced, trials(tried, answered)),
    complaint: sampleOf(complained, fblDelivered),
  };
}

/**
 * Mail on its way counts with what was tried: where receivers defer what they take and refuse the rest at
 * once, the answers alone would be mostly bounces. What was tried the day before and is answered now counts
 * with the answers.
 */
function trials(tried: number, answered: number): number {
  return Math.max(tried, answered);
}

const NO_MAIL: BulkCounts = {
  attempted: 0,
  delivered: 0,
  bounced: 0,
  blocked: 0,
  complained: 0,
  fblDelivered: 0,
};

function sampleOf(events: number, of: number): Sample {
  const known = Math.max(0, events);
  return { events: known, of: Math.max(known, of) };
}

/**
 * Called for each window over its limit; with numbers alone, since a simulation looks at a hundred million.
 */
type VisitWindow = (measure: Measure, events: number, of: number, error: number, since: number) => void;

/**
 * The windows over which harm is looked for, with the error that each may make. The long one has most of a
 * month's error at once, since a new workspace is the likeliest to be bad; those of days and hours share 60%
 * of it every month. Those of hours count only what is known at once: of a late bounce or a complaint nobody
 * says in which hour its mail was sent. The stream `bulk` has none of these. Windows with no more events than
 * their limit allows are passed over.
 */
function eachWindow(
  policy: Policy,
  watch: Watch,
  days: readonly DayCounts[],
  now: number,
  ofBulk: boolean,
  limits: Record<Measure, number>,
  visit: VisitWindow,
): void {
  const { since } = watch;
  if (since === null) return;
  const hours = ofBulk ? NO_HOURS : watch.hours;
  const judged = ofBulk ? watch.judged?.bulk : watch.judged;
  const judgedOn = watch.judged?.day;
  const today = Math.floor(now / DAY_MS);
  const first = dayNumber(since);
  const isYoung = today - first < COUNTED_DAYS_MAX;
  const heardADay = usuallyHeard(policy, days, today, ofBulk);
  const errorOfDay = (watch.error * WINDOWS_OF_DAYS_SHARE) / DAYS_OF_BUDGET;
  const errorOfHour = (watch.error * WINDOWS_OF_HOURS_SHARE) / (DAYS_OF_BUDGET * 24);
  let mark = hours.length - 1;
  let tried = 0;
  let answered = 0;
  let atOnce = 0;
  let bounced = 0;
  let complained = 0;
  let fblDelivered = 0;
  for (let n = days.length - 1; n >= 0; n--) {
    const { day, bulk } = days[n] as DayCounts;
    const number = dayNumberAt(n, day);
    if (number > today) continue;
    if (number < first) break;
    const counts: WeighedBulk = ofBulk ? (bulk ?? NO_MAIL) : (days[n] as WeighedCounts);
    const { leftOut } = counts;
    tried += triedOf(counts);
    answered += answeredOf(counts);
    atOnce += atOnceOf(counts);
    for (; mark >= 0; mark--) {
      const start = hours[mark] as HourMark;
      if (start.hour < number * 24) break;
      if (start.hour >= number * 24 + 24) continue;
      const before = returned(start.left, leftOut?.bounced);
      const of = trials(tried - start.tried, answered - start.answered - before);
      const events = atOnce - start.bounced - before;
      if (events > of * limits.bounce) visit("bounce", events, of, errorOfHour, start.hour * HOUR_MS);
    }
    complained += counts.complained;
    fblDelivered += counts.fblDelivered;
    if (judged && judgedOn === day) {
      const before = judged.bounced + returned(judged.left, leftOut?.bounced);
      tried -= judged.tried;
      answered -= judged.answered - judged.bounced + before;
      atOnce -= before;
      complained -= judged.complained + returned(judged.leftComplained, leftOut?.complained);
      // late bounces of that day prove nothing new: the step was taken on their mail
      bounced += atOnceOf(counts) - before;
    } else bounced += counts.bounced;
    const isLong = isYoung && (n === 0 || dayNumberAt(n - 1, (days[n - 1] as DayCounts).day) < first);
    if (!isLong && today - number >= policy.window_days) continue;
    const error = isLong ? watch.error * LONG_WINDOW_SHARE : errorOfDay;
    const of = trials(tried, answered);
    if (bounced > of * limits.bounce) visit("bounce", bounced, of, error, number * DAY_MS);
    const heard = Math.max(fblDelivered, heardADay);
    if (complained > heard * limits.complaint) visit("complaint", complained, heard, error, number * DAY_MS);
  }
}

/**
 * What a day brings to domains that report complaints. Complaints are about mail of the hours before, so that
 * those of a night are not judged against the little that has gone since midnight.
 */
function usuallyHeard(
  { window_days }: Policy,
  days: readonly DayCounts[],
  today: number,
  ofBulk: boolean,
): number {
  let [heard, daysWithMail] = [0, 0];
  for (let n = days.length - 1; n >= 0; n--) {
    const counts = days[n] as DayCounts;
    const ago = today - dayNumberAt(n, counts.day);
    if (ago > window_days) break;
    const { fblDelivered } = ofBulk ? (counts.bulk ?? NO_MAIL) : counts;
    if (ago < 1 || fblDelivered === 0) continue;
    heard += fblDelivered;
    daysWithMail++;
  }
  return daysWithMail === 0 ? 0 : Math.round(heard / daysWithMail);
}

/** Of the stream `bulk` only what pauses; nothing less or more follows from it. */
export function findBulkHarm(
  policy: Policy,
  watch: Watch,
  days: readonly DayCounts[],
  now: number,
): Harm | null {
  // no window is over a limit that each of its days keeps: as good as always, and three times as quick as to
  // look
  if (!watch.judged && days.every(({ bulk }) => bulk === undefined || keepsTo(policy.pause, bulk)))
    return null;
  const found = findHarm(policy, watch, days, now, true);
  return found?.pauses ? { ...found, shrinks: false } : null;
}

function keepsTo(limit: Record<Measure, number>, counts: BulkCounts): boolean {
  return (
    counts.bounced <= limit.bounce * triedOf(counts) &&
    counts.complained <= limit.complaint * counts.fblDelivered
  );
}

/**
 * What is surely so by any window, and goes furthest; null: nothing is. Of all mail, or of the stream `bulk`.
 */
export function findHarm(
  policy: Policy,
  watch: Watch,
  days: readonly DayCounts[],
  now: number,
  ofBulk = false,
): Harm | null {
  const { freeze, pause, shrink } = policy;
  let worst: (HarmProof & { reach: number; surplus: number }) | null = null;
  eachWindow(policy, watch, days, now, ofBulk, freeze, (measure, known, tried, error, since) => {
    const { counted, sample } = toJudge(policy, measure, known, tried);
    const { events, of } = sample;
    if (counted < 1 || events <= tried * freeze[measure]) return;
    const alternatives = alternativesTo(freeze[measure]);
    const needed = -Math.log(error);
    if (!mayReach(sample, freeze[measure], alternatives, needed)) return;
    const surplus = logEvidence(sample, freeze[measure], alternatives) - needed;
    if (surplus < 0) return;
    const isOver = (limit: number) =>
      events > of * limit && logEvidence(sample, limit, alternatives) >= needed;
    const pauses = isOver(pause[measure]);
    const shrinks = isOver(shrink[measure]);
    const reach = (shrinks ? 2 : 0) + (pauses ? 1 : 0);
    if (worst && (reach < worst.reach || (reach === worst.reach && surplus <= worst.surplus))) return;
    worst = { measure, sample, error, since, pauses, shrinks, reach, surplus };
  });
  return worst && harmOf(policy, worst, ofBulk, now);
}

/** A window as it is judged; `counted`: of the events that a step needs, at 1 or more there are as many. */
function toJudge(
  { evidence }: Policy,
  measure: Measure,
  known: number,
  tried: number,
): { counted: number; sample: Sample } {
  // what goes beyond the mail is of mail that was counted elsewhere
  const events = Math.min(known, tried);
  const eventsMin = measure === "bounce" ? evidence.bounces_min : evidence.complaints_min;
  return { counted: events / eventsMin, sample: sampleOf(events, Math.max(tried, evidence.attempted_min)) };
}

type HarmProof = Pick<Harm, "measure" | "sample" | "since" | "pauses" | "shrinks"> & { error: number };

function harmOf(policy: Policy, { error, ...proof }: HarmProof, isBulk: boolean, now: number): Harm {
  const { measure, sample, since, pauses, shrinks } = proof;
  const atLeast = lowerBound(sample, error, alternativesTo(policy.freeze[measure]));
  const days = Math.floor(now / DAY_MS) - Math.floor(since / DAY_MS) + 1;
  return { measure, since, days, sample, atLeast, pauses, shrinks, isBulk };
}

/**
 * How far the evidence of the strongest window has come towards a freeze, or of the stream `bulk` towards a
 * pause: at 1 there is one.
 */
export function suspicion(
  policy: Policy,
  watch: Watch,
  days: readonly DayCounts[],
  now: number,
  ofBulk = false,
): Record<Measure, number> {
  const limits = ofBulk ? policy.pause : policy.freeze;
  const found = { bounce: 0, complaint: 0 };
  eachWindow(policy, watch, days, now, ofBulk, limits, (measure, events, of, error) => {
    const alternatives = alternativesTo(policy.freeze[measure]);
    const { counted, sample } = toJudge(policy, measure, events, of);
    const reached = logEvidence(sample, limits[measure], alternatives) / -Math.log(error);
    found[measure] = Math.max(found[measure], Math.min(1, reached, counted));
  });
  return found;
}

/**
 * Where a window starts, for the first look of each hour in which mail has gone; the same list if there is
 * none.
 */
export function markHour(
  hours: readonly HourMark[],
  days: readonly DayCounts[],
  now: number,
): readonly HourMark[] {
  const hour = Math.floor(now / HOUR_MS);
  const last = hours.at(-1);
  if (last && last.hour >= hour) return hours;
  const counts = days.at(-1);
  if (counts?.day !== dayOf(now)) return hours;
  const mark = markOf(counts, hour);
  const isOfToday = last && last.hour >= hour - (hour % 24);
  const isSame = isOfToday && last.tried === mark.tried && last.answered === mark.answered;
  // the window of the day starts where nothing has gone yet
  if (isSame || (mark.tried === 0 && mark.answered === 0)) return hours;
  let stale = 0;
  while (stale < hours.length && (hours[stale] as HourMark).hour <= hour - HOURS_MAX) stale++;
  return [...hours.slice(stale), mark];
}

export function markOf(counts: DayCounts, hour: number): HourMark {
  return { hour, ...progressOf(counts) };
}

export function judgedOf(counts: DayCounts): JudgedEvidence {
  const { day, bulk } = counts;
  const hasBulk = bulk !== undefined && bulk.attempted > 0;
  return { day, ...judgedPart(counts), ...(hasBulk && { bulk: judgedPart(bulk) }) };
}

function judgedPart(counts: WeighedBulk): JudgedProgress {
  const leftComplained = counts.leftOut?.complained ?? 0;
  const judged = { ...progressOf(counts), complained: counts.complained };
  return leftComplained === 0 ? judged : { ...judged, leftComplained };
}

/** A day that is no reason to hold a workspace back any longer: probably well below the freeze rates. */
export function isClean(policy: Policy, days: readonly DayCounts[], day: string): boolean {
  const sampled = rates(days, day, day);
  const { recovery, freeze, evidence } = policy;
  return (
    (sampled.bounce.events < evidence.bounces_min ||
      posterior(policy, "bounce", sampled.bounce) <= recovery.below * freeze.bounce) &&
    (sampled.complaint.events < evidence.complaints_min ||
      posterior(policy, "complaint", sampled.complaint) <= recovery.below * freeze.complaint)
  );
}

/**
 * The rate that is probably not healthy in the days `from` to `to`, of all mail or of the stream `bulk`;
 * null: none.
 */
export function illness(
  policy: Policy,
  days: readonly DayCounts[],
  from: string,
  to: string,
  ofBulk = false,
): string | null {
  const sampled = rates(days, from, to, ofBulk);
  for (const measure of ["bounce", "complaint"] as const) {
    const mean = posterior(policy, measure, sampled[measure]);
    if (mean >= policy.healthy[measure])
      return `${measure}s${ofBulk ? " of bulk mail" : ""} are probably ${percent(mean)}, the limit is ${percent(policy.healthy[measure])}`;
  }
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

/** Abramowitz and Stegun 26.2.23: within 0.00045 for the upper half, which is all that is asked. */
function normalQuantile(confidence: number): number {
  const t = Math.sqrt(-2 * Math.log(1 - confidence));
  return (
    t -
    (2.515517 + 0.802853 * t + 0.010328 * t * t) /
      (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t)
  );
}
