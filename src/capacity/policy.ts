/**
 * How sending caps grow and shrink: (policy, state, daily counts, now) -> next state, with the reason in
 * words. Pure, so that the keeper, the forecast, a replay and the simulator decide the same, and it does not
 * matter who runs it or how often.
 *
 * Once per UTC day, on the day that has ended:     on every run, on the evidence so far:
 *   clean days bring a workspace one step back       normal -> frozen   the cap stays
 *   a used, healthy day lets the cap grow            any    -> shrunk   the cap shrinks
 *   a long idle spell lets it decay                  any    -> paused   mail that is not transactional waits
 *
 * Days on which nobody ran are made up one by one, but the cap grows at most once in a run: the days after
 * the first were lived under the old cap and say nothing about a larger one. The same evidence never shrinks
 * twice: after a step, and on the way back to normal, all windows start anew.
 */

import { DAY_MS } from "../clock.ts";
import type { DayCounts } from "../record/workspaces/caps.ts";
import { CAP_MIN, type Plan, RESERVED_SHARE } from "../rules/plans.ts";
import {
  dayOf,
  dayPlus,
  deliveredWithin,
  findBulkHarm,
  findHarm,
  type Harm,
  type HourMark,
  illness,
  isClean,
  type JudgedEvidence,
  judgedOf,
  type Measure,
  markHour,
  markOf,
  percent,
  type Watch,
} from "./policy/evidence.ts";
import type { Policy } from "./policy/file.ts";
import {
  ALL_HEARD,
  ailments,
  type DecidingNumbers,
  type Heard,
  numbersOfHarm,
  numbersOfHealth,
  unknownOf,
  withPostmaster,
} from "./policy/health.ts";
import { weighed } from "./policy/sources.ts";

const HOUR_MS = 3_600_000;

export type { BulkCounts, DayCounts } from "../record/workspaces/caps.ts";
export { COUNTED_DAYS_MAX } from "./policy/evidence.ts";
export type { Policy } from "./policy/file.ts";
export { ALL_HEARD, type DecidingNumbers, type Heard } from "./policy/health.ts";
export { DEFAULT_POLICY, policyVersion } from "./policy/shipped.ts";

/**
 * Probing: after a pause, so much other than transactional mail goes that it shows what has become of the
 * list.
 */
export const LEVELS = ["normal", "frozen", "shrunk", "paused", "probing"] as const;
export type Level = (typeof LEVELS)[number];

/** Plain data, kept as JSON. */
export type CapState = {
  capDay: number;
  capHour: number;
  level: Level;
  /** Days in a row that were healthy enough to grow. */
  healthyDays: number;
  /** Days in a row without harm, since the level is not normal. */
  cleanDays: number;
  /** Days in a row without mail. */
  idleDays: number;
  /** The UTC date of the last daily evaluation. */
  evaluatedOn: string | null;
  /** When caps or level last changed. */
  changedAt: number | null;
  /** When the cap was shrunk, as long as that slows growth and the way back, or adds up to a pause. */
  shrunkAt: number[];
  /** When automation mail was paused, as long as that slows growth and the way back. */
  pausedAt: number[];
  /** Recipients a day of other than transactional mail, while the level is probing. */
  probe: number;
  /** The first day whose mail counts as evidence. */
  since: string | null;
  /** What has been judged of that day. */
  judged: JudgedEvidence | null;
  /** Where the windows of the last hours start. */
  hours: readonly HourMark[];
  /** Of parts of the mail that are judged by themselves (parts.ts). */
  parts?: Readonly<Record<string, CapState>>;
};

/** What a person set, until it runs out. */
export type Override = {
  minimum: number | null;
  maximum: number | null;
  /** Wins over everything, the ceiling of the plan and a pause too. */
  fixed: number | null;
  fixedHour: number | null;
  until: number | null;
  by: string;
  reason: string;
};

export type Evaluation = {
  /** The very object that was given when there is nothing to store. */
  state: CapState;
  /** Caps or level are others than before: a row of history. */
  changed: boolean;
  reason: string;
  /** What a step was taken on. */
  harm: Harm | null;
  /** The numbers that decided; null: nothing changed, or the policy itself did. */
  numbers: DecidingNumbers | null;
};

export type Effective = { day: number; hour: number; bulkPaused: boolean };

export function startState(policy: Policy, plan: Plan): CapState {
  const capDay = Math.min(policy.start.day, policy.ceiling[plan]);
  return {
    capDay,
    capHour: hourOf(policy, capDay),
    level: "normal",
    healthyDays: 0,
    cleanDays: 0,
    idleDays: 0,
    evaluatedOn: null,
    changedAt: null,
    shrunkAt: [],
    pausedAt: [],
    probe: 0,
    since: null,
    judged: null,
    hours: [],
  };
}

export function evaluate(
  policy: Policy,
  plan: Plan,
  state: CapState,
  counted: readonly DayCounts[],
  override: Override | null,
  now: number,
  heard: Heard = ALL_HEARD,
): Evaluation {
  const days = weighed(policy, watchOf(policy, state), withPostmaster(counted), now);
  const today = dayOf(now);
  // a clock that steps back does not live a day twice
  const latest = state.evaluatedOn !== null && state.evaluatedOn > today ? state.evaluatedOn : today;
  const at = latest === today ? now : Date.parse(latest);
  const turned = turnDays({ policy, plan, days, override, now, heard }, state, latest);
  const watched = watchOn(turned.state, days, at);
  const { harm, ...judged } = judgeHarm(policy, watched, days, at);
  let next = judged.state;
  const reasons = [...turned.reasons, ...judged.reasons];

  const capHour = hourOf(policy, next.capDay);
  if (capHour !== next.capHour) {
    if (next.capDay === state.capDay) reasons.push(`The policy now gives ${capHour} an hour.`);
    next = { ...next, capHour };
  }
  const changed =
    next.capDay !== state.capDay || next.capHour !== state.capHour || next.level !== state.level;
  if (changed) next = { ...next, changedAt: now };
  const reason = reasons.length > 0 ? reasons.join(" ") : "Nothing changed.";
  const numbers = harm
    ? numbersOfHarm(limitOf(policy, harm, judged.state.capDay < watched.capDay), harm)
    : turned.reasons.length > 0
      ? numbersOfHealth(policy, days, dayPlus(latest, -1))
      : null;
  return { state: next, changed, reason, harm, numbers };
}

/** Of the step that was taken: harm over the limit of a cut pauses first. */
function limitOf({ freeze, pause, shrink }: Policy, harm: Harm, isCut: boolean): number {
  const limit = isCut ? shrink : harm.pauses || harm.shrinks ? pause : freeze;
  return limit[harm.measure];
}

/** What counts as evidence, and how much error the windows over it may make. */
export function watchOf({ evidence }: Policy, { since, judged, hours, level }: CapState): Watch {
  const error = level === "normal" ? evidence.errors_per_month : evidence.errors_after_step;
  return { since, judged, hours, error };
}

/**
 * A new workspace is watched from its first mail on; each hour opens a window. Without a new event, a look
 * does no more.
 */
export function watchOn(state: CapState, days: readonly DayCounts[], now: number): CapState {
  const since = state.since ?? days[0]?.day ?? null;
  const hours = markHour(state.hours, days, now);
  return since === state.since && hours === state.hours ? state : { ...state, since, hours };
}

/** All windows start anew. */
export function watchAnew(state: CapState, days: readonly DayCounts[], now: number): CapState {
  const today = dayOf(now);
  const counts = days.find(({ day }) => day === today);
  return {
    ...state,
    since: today,
    judged: counts ? judgedOf(counts) : null,
    hours: counts ? [markOf(counts, Math.floor(now / HOUR_MS))] : [],
  };
}

/** The caps that hold right now. */
export function effective(
  policy: Policy,
  plan: Plan,
  state: CapState,
  override: Override | null,
  now: number,
): Effective {
  const active = activeOverride(override, now);
  let day = Math.min(state.capDay, policy.ceiling[plan]);
  if (active?.minimum) day = Math.max(day, active.minimum);
  if (active?.maximum) day = Math.min(day, active.maximum);
  if (active?.fixed) day = active.fixed;
  day = Math.max(CAP_MIN, day);
  const hour = Math.max(CAP_MIN, active?.fixedHour ?? hourOf(policy, day));
  return { day, hour, bulkPaused: state.level === "paused" && !active?.fixed };
}

/** The part of the caps that other than transactional mail must leave alone. */
export function reservedShareOf({ level, probe }: CapState, caps: Effective): number {
  if (caps.bulkPaused) return 1;
  return level === "probing" ? Math.max(RESERVED_SHARE, 1 - probe / caps.day) : RESERVED_SHARE;
}

type Circumstances = {
  policy: Policy;
  plan: Plan;
  days: readonly DayCounts[];
  override: Override | null;
  now: number;
  heard: Heard;
};
type PolicyStep = { state: CapState; reasons: string[] };

/** Lives through every UTC day that has ended since the last daily evaluation. */
function turnDays(about: Circumstances, state: CapState, today: string): PolicyStep {
  if (state.evaluatedOn === today) return { state, reasons: [] };
  const { policy, plan, days, override, now } = about;
  const used = effective(policy, plan, state, override, now).day;
  const reasons: string[] = [];
  let next = state;
  let grown = false;
  let day = firstTurn(state, days, today);
  for (; day <= today; day = dayPlus(day, 1)) {
    const ended = dayPlus(day, -1);
    const wasNormal = next.level === "normal";
    next = countDay(policy, next, days, ended);
    next = followProbe(policy, next, days, ended, reasons);
    next = recover(policy, next, days, ended, reasons);
    if (wasNormal && !grown) {
      const before = next.capDay;
      next = grow(about, next, ended, used, reasons);
      grown = next.capDay > before;
    }
    next = decay(policy, next, reasons);
  }
  return { state: { ...next, evaluatedOn: today }, reasons };
}

/**
 * The first day turn that has not been evaluated: after the first day of mail, for a workspace never
 * evaluated.
 */
function firstTurn(state: CapState, days: readonly DayCounts[], today: string): string {
  if (state.evaluatedOn !== null) return dayPlus(state.evaluatedOn, 1);
  const first = days[0];
  return first && first.day < today ? dayPlus(first.day, 1) : dayPlus(today, 1);
}

function countDay(policy: Policy, state: CapState, days: readonly DayCounts[], ended: string): CapState {
  const counts = days.find((one) => one.day === ended);
  const idle = !counts || (counts.attempted === 0 && counts.used === 0);
  const clean = isClean(policy, days, ended);
  const healthy = ailments(policy, days, ended).length === 0;
  return {
    ...state,
    idleDays: idle ? state.idleDays + 1 : 0,
    // a day without mail is clean too: what is paused could never earn its way back otherwise
    cleanDays: state.level === "normal" || !clean ? 0 : state.cleanDays + 1,
    healthyDays: !healthy ? 0 : idle ? state.healthyDays : state.healthyDays + 1,
  };
}

function recover(
  policy: Policy,
  state: CapState,
  days: readonly DayCounts[],
  ended: string,
  reasons: string[],
): CapState {
  const { level, cleanDays } = state;
  const isOnItsWay = level === "normal" || level === "probing";
  if (isOnItsWay || cleanDays < cleanDaysNeeded(policy, state, ended)) return state;
  const anew = watchAnew(state, days, Date.parse(ended) + DAY_MS);
  if (level !== "paused") return normalAgain(anew, `${cleanDays} clean days in a row`, reasons);
  const { probe } = policy.recovery;
  reasons.push(
    `Probing: ${probe} a day of other than transactional mail go, after ${cleanDays} clean days in a row.`,
  );
  return { ...anew, level: "probing", probe, cleanDays: 0 };
}

function normalAgain(state: CapState, why: string, reasons: string[]): CapState {
  reasons.push(`The cap may grow again: ${why}.`);
  return { ...state, level: "normal", probe: 0, cleanDays: 0 };
}

/**
 * Only days with mail show anything. While all of them together are as healthy as growth asks, more goes each
 * day; a probe that is not ends in another pause, since the list is the one of before.
 */
function followProbe(
  policy: Policy,
  state: CapState,
  days: readonly DayCounts[],
  ended: string,
  reasons: string[],
): CapState {
  if (state.level !== "probing" || state.idleDays > 0 || state.since === null) return state;
  const now = Date.parse(ended) + DAY_MS;
  // beside much transactional mail that is fine, a probe that is not would not show
  const ill = illness(policy, days, state.since, ended) ?? illness(policy, days, state.since, ended, true);
  if (ill) {
    reasons.push(`Paused: the probe was not healthy, ${ill}.`);
    const pausedAt = [...recent(policy, state.pausedAt, now), now];
    return { ...watchAnew(state, days, now), level: "paused", probe: 0, cleanDays: 0, pausedAt };
  }
  const probe = Math.ceil(state.probe * policy.recovery.probe_growth);
  if (probe < state.capDay * (1 - RESERVED_SHARE)) {
    reasons.push(`The probe widens from ${state.probe} to ${probe} a day: it is healthy.`);
    return { ...state, probe };
  }
  return normalAgain(watchAnew(state, days, now), `the probe of ${state.probe} a day was healthy`, reasons);
}

/**
 * Twice as long for each relapse: a list that waits while it is paused is the same list when it goes again.
 */
export function cleanDaysNeeded(
  { recovery, ...policy }: Policy,
  { pausedAt }: CapState,
  ended: string,
): number {
  const since = remembersSince(policy.growth_after_shrink_days, ended);
  const relapses = Math.max(0, pausedAt.filter((at) => at > since).length - 1);
  return Math.min(recovery.clean_days_max, recovery.clean_days * 2 ** relapses);
}

/**
 * Counted from the day that has ended, not from now: a day made up for later is lived as it would have been.
 */
function remembersSince(days: number, ended: string): number {
  return Date.parse(ended) + DAY_MS - days * DAY_MS;
}

/**
 * What the day that has ended makes of the cap, if the level is normal; `why`: what stands in the way, or
 * speaks for it.
 */
export type Growth = { capDay: number; grows: boolean; why: string[]; unknown: readonly Measure[] };

export function growthAfter(
  { policy, plan, days, override, now, heard }: Circumstances,
  state: CapState,
  ended: string,
  inForce: number,
): Growth {
  const stays = (why: string[]): Growth => ({ capDay: state.capDay, grows: false, why, unknown });
  const unknown = unknownOf(policy, days, ended, heard);
  const counts = days.find((one) => one.day === ended);
  const needed = Math.ceil(policy.utilisation * inForce);
  const why: string[] = [];
  const active = activeOverride(override, now);
  // for a fixed cap of the hour mail waits however large that of the day becomes
  const waits = active?.fixedHour == null;
  if (!counts || (counts.used < needed && !(waits && counts.delayed > 0)))
    why.push(
      `${ended} used ${counts?.used ?? 0} of ${inForce}${waits ? " and nothing waited" : ""}, growth needs ${needed}`,
    );
  const delivered = deliveredWithin(days, dayPlus(ended, 1 - policy.window_days), ended);
  if (delivered < policy.delivered_min)
    why.push(
      `${delivered} of the ${policy.delivered_min} e-mails that growth needs were delivered in ${policy.window_days} days`,
    );
  why.push(...ailments(policy, days, ended));
  if (why.length > 0 || !counts) return stays(why);

  const slowSince = remembersSince(policy.growth_after_shrink_days, ended);
  const isAfterHarm = [...state.shrunkAt, ...state.pausedAt].some((at) => at > slowSince);
  const factor = Math.min(
    policy.growth,
    isAfterHarm ? policy.growth_after_shrink : Infinity,
    unknown.length > 0 ? policy.growth_unknown : Infinity,
  );
  const limit = Math.min(
    policy.ceiling[plan],
    active?.maximum ?? Number.POSITIVE_INFINITY,
    active?.fixed ?? Number.POSITIVE_INFINITY,
  );
  const capDay = Math.min(limit, Math.ceil(state.capDay * factor));
  if (capDay <= state.capDay)
    return stays([`${limit} a day is the most that ${limitedBy(policy, plan, active, limit)} allows`]);
  const waited = counts.delayed > 0 ? `, ${counts.delayed} waited` : "";
  const slowly = [
    ...(isAfterHarm ? ["slowly, after what was"] : []),
    ...(unknown.length > 0
      ? [`slowly, since ${unknown.map((one) => `${one}s`).join(" and ")} are unknown`]
      : []),
  ];
  return {
    capDay,
    grows: true,
    why: [
      `${ended} used ${counts.used} of ${inForce}${waited}, and the last ${policy.window_days} days were healthy${unknown.length > 0 ? " as far as is known" : ""}`,
      ...slowly,
    ],
    unknown,
  };
}

function limitedBy({ ceiling }: Policy, plan: Plan, active: Override | null, limit: number): string {
  return active !== null && limit < ceiling[plan] ? "the override" : `the plan ${plan}`;
}

function grow(
  about: Circumstances,
  state: CapState,
  ended: string,
  inForce: number,
  reasons: string[],
): CapState {
  const { capDay, grows, why } = growthAfter(about, state, ended, inForce);
  if (!grows) return state;
  reasons.push(`Grew from ${state.capDay} to ${capDay} a day: ${why.join("; ")}.`);
  return { ...state, capDay };
}

function decay(policy: Policy, state: CapState, reasons: string[]): CapState {
  const { idle, start } = policy;
  const over = state.idleDays - idle.after_days;
  if (over < 0 || over % idle.every_days !== 0 || state.capDay <= start.day) return state;
  const capDay = Math.max(start.day, Math.floor(state.capDay * idle.factor));
  if (capDay === state.capDay) return state;
  reasons.push(`Decayed from ${state.capDay} to ${capDay} a day: no mail for ${state.idleDays} days.`);
  return { ...state, capDay };
}

/**
 * A freeze makes less error suffice for the next step: what that proves is done at once, not at the next
 * look.
 */
function judgeHarm(
  policy: Policy,
  state: CapState,
  days: readonly DayCounts[],
  now: number,
): PolicyStep & { harm: Harm | null } {
  const found = harmIn(policy, state, days, now);
  const step = found && applyHarm(policy, state, days, found, now);
  if (!step) return { state, reasons: [], harm: null };
  if (step.state.level !== "frozen" || state.level === "frozen") return { ...step, harm: found };
  const next = judgeHarm(policy, step.state, days, now);
  return next.harm === null ? { ...step, harm: found } : next;
}

/**
 * The stream `bulk` is what a pause holds back first of all, so that it is judged by itself too: beside much
 * transactional mail a bad list would be found late. That pauses, and does nothing less or more.
 */
export function harmIn(
  policy: Policy,
  state: CapState,
  days: readonly DayCounts[],
  now: number,
): Harm | null {
  const watch = watchOf(policy, state);
  const ofAll = findHarm(policy, watch, days, now);
  if (state.level === "paused" || ofAll?.pauses || ofAll?.shrinks) return ofAll;
  return findBulkHarm(policy, watch, days, now) ?? ofAll;
}

function applyHarm(
  policy: Policy,
  state: CapState,
  days: readonly DayCounts[],
  harm: Harm,
  now: number,
): PolicyStep | null {
  if (!harm.pauses && !harm.shrinks) return freeze(policy, state, harm);
  const wasPaused = state.level === "paused";
  // a pause spares the mail that people wait for: the cap of all mail shrinks if harm goes on all the same
  const pauseFirst = policy.pause[harm.measure] < policy.shrink[harm.measure];
  const capDay = harm.shrinks && (wasPaused || !pauseFirst) ? shrunken(policy, state.capDay) : state.capDay;
  const shrinks = capDay < state.capDay;
  if (!shrinks && wasPaused) return freeze(policy, state, harm);
  const shrunkAt = [...recent(policy, state.shrunkAt, now), ...(shrinks ? [now] : [])];
  const together = shrunkAt.filter((at) => at > now - policy.pause.within_days * DAY_MS).length;
  const pauses =
    harm.pauses ||
    wasPaused ||
    !shrinks || // there is nothing else left to take
    together >= policy.pause.shrinks;
  const pausedAt = [...recent(policy, state.pausedAt, now), ...(pauses && !wasPaused ? [now] : [])];
  const steps = [
    ...(shrinks ? [`Shrunk from ${state.capDay} to ${capDay} a day`] : []),
    ...(pauses && !wasPaused ? ["Paused: only transactional mail goes"] : []),
  ];
  return {
    state: {
      ...watchAnew(state, days, now),
      capDay,
      level: pauses ? "paused" : "shrunk",
      cleanDays: 0,
      healthyDays: 0,
      probe: 0,
      shrunkAt,
      pausedAt,
    },
    reasons: [`${steps.join(". ")}. ${wording(harm, shrinks ? policy.shrink : policy.pause)}.`],
  };
}

/** Nothing is taken away, and the way back begins anew. */
function freeze(policy: Policy, state: CapState, harm: Harm): PolicyStep | null {
  if (state.level !== "normal")
    return state.cleanDays === 0 ? null : { state: { ...state, cleanDays: 0 }, reasons: [] };
  return {
    state: { ...state, level: "frozen", cleanDays: 0, healthyDays: 0 },
    reasons: [`Frozen. ${wording(harm, policy.freeze)}.`],
  };
}

/** Steps taken long ago are forgotten. */
function recent(policy: Policy, steps: readonly number[], now: number): number[] {
  const kept = Math.max(policy.growth_after_shrink_days, policy.pause.within_days) * DAY_MS;
  return steps.filter((at) => at > now - kept);
}

function shrunken({ shrink }: Policy, capDay: number): number {
  return Math.min(capDay, Math.max(CAP_MIN, Math.floor(capDay * shrink.factor)));
}

function wording(
  { measure, since, days, sample, atLeast, isBulk }: Harm,
  limit: Record<Measure, number>,
): string {
  const start = new Date(since).toISOString();
  const isHour = !start.endsWith("T00:00:00.000Z");
  const period = isHour ? `since ${start.slice(11, 16)}` : days === 1 ? "today" : `in ${days} days`;
  const of = `${measure === "bounce" ? "tried" : "delivered where complaints are reported"}${isBulk ? " in the stream bulk" : ""}`;
  return `${sample.events} ${measure}s ${period} against ${sample.of} ${of} are surely over ${percent(atLeast)}, the limit is ${percent(limit[measure])}`;
}

function activeOverride(override: Override | null, now: number): Override | null {
  return override !== null && (override.until === null || now < override.until) ? override : null;
}

/** A small daily cap keeps the proportion of the start: a burst of 50 must always be able to go. */
function hourOf(policy: Policy, capDay: number): number {
  const { start } = policy;
  const least = capDay >= start.day ? start.hour : Math.ceil((start.hour * capDay) / start.day);
  return Math.max(CAP_MIN, Math.min(capDay, Math.max(least, Math.ceil(capDay * policy.hour_share))));
}
