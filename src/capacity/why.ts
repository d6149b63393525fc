/** What the cap of a workspace is, why, what would change it and when: as sentences. Pure. */

import { DAY_MS } from "../clock.ts";
import type { Plan } from "../rules/plans.ts";
import { type HeldPart, heldParts } from "./parts.ts";
import { dayOf, dayPlus, percent, suspicion } from "./policy/evidence.ts";
import { unknownOf, withPostmaster } from "./policy/health.ts";
import { suspiciousBursts, weighed } from "./policy/sources.ts";
import {
  type CapState,
  cleanDaysNeeded,
  type DayCounts,
  effective,
  growthAfter,
  type Heard,
  type Override,
  type Policy,
  watchOf,
  watchOn,
} from "./policy.ts";

export type CapFacts = {
  policy: Policy;
  policyVersion: number;
  plan: Plan;
  state: CapState;
  override: Override | null;
  days: readonly DayCounts[];
  heard: Heard;
  now: number;
  used: { day: number; hour: number };
  waiting: { transactional: number; automation: number };
  /** By stream, of those with a name of their own. */
  waitingIn: Readonly<Record<string, number>>;
  quota: { monthLeft: number; dayLeft: number | null };
  /** The newest change on record. */
  lastChange: RecordedChange | null;
  /** The change since which the level is what it is; null: there is none on record. */
  levelChange: RecordedChange | null;
};
type RecordedChange = { at: Date; reason: string; by: string };

export type CapAnswer = {
  cap: { day: number; hour: number; level: string };
  /** What the cap is. */
  is: string[];
  why: string[];
  /** What would change it, and when. */
  changes: string[];
};

export function whyCap(facts: CapFacts): CapAnswer {
  const { policy, plan, state, override, now } = facts;
  const caps = effective(policy, plan, state, override, now);
  const held = heldParts(state.parts ?? {}, { policy, plan, capDay: caps.day, now }, override);
  return {
    cap: { day: caps.day, hour: caps.hour, level: state.level },
    is: [...whatIs(facts, caps), ...held.map((part) => heldWords(part, facts))],
    why: reasons(facts),
    changes: [
      ...levelChanges(facts),
      ...held.map(({ says, next }) => `${says} ${next}`),
      ...growthChanges(facts, caps.day),
      ...harmChanges(facts),
    ],
  };
}

function whatIs(
  { used, waiting, quota, state }: CapFacts,
  caps: { day: number; hour: number; bulkPaused: boolean },
): string[] {
  const waits = waiting.transactional + waiting.automation;
  return [
    `The cap is ${caps.day} recipients a day and ${caps.hour} an hour; ${used.day} of the day and ${used.hour} of the hour are used.`,
    waits === 0
      ? "Nothing waits."
      : `${waits} e-mails wait: ${waiting.transactional} transactional, ${waiting.automation} others.`,
    ...(caps.bulkPaused ? ["Only transactional mail goes."] : []),
    ...(state.level === "probing" ? [`Of other than transactional mail ${state.probe} a day go.`] : []),
    ...(quota.monthLeft < caps.day ? [`The quota has room for ${quota.monthLeft} more this month.`] : []),
    ...(quota.dayLeft !== null && quota.dayLeft < caps.day
      ? [`The quota has room for ${quota.dayLeft} more today.`]
      : []),
  ];
}

function heldWords({ stream, provider, says, since }: HeldPart, { waitingIn }: CapFacts): string {
  const waits = provider === "" ? (waitingIn[stream] ?? 0) : 0;
  const about = `${says}${since === null ? "" : ` Held back at ${timeOf(since)}.`}`;
  return waits === 0 ? about : `${about} ${waits} e-mails wait in it.`;
}

function reasons({
  state,
  override,
  policy,
  policyVersion,
  plan,
  lastChange,
  levelChange,
  days,
  heard,
  now,
}: CapFacts): string[] {
  const version = policyVersion === 0 ? "the built-in policy" : `version ${policyVersion} of the policy`;
  const unknown = unknownOf(policy, days, dayOf(now), heard);
  return [
    `It is decided by ${version}; the level is ${state.level}.`,
    ...(state.level === "normal" || levelChange === null || isSame(levelChange, lastChange)
      ? []
      : [`The level is ${state.level} since ${timeOf(levelChange.at.getTime())}: ${levelChange.reason}`]),
    ...(lastChange === null
      ? [`It has not changed since the start, which is ${policy.start.day} a day.`]
      : [
          `The last change was made by ${lastChange.by} at ${timeOf(lastChange.at.getTime())}: ${lastChange.reason}`,
        ]),
    ...(override === null || (override.until !== null && override.until <= now)
      ? []
      : [overrideWords(override)]),
    ...(state.capDay > policy.ceiling[plan]
      ? [`It has grown to ${state.capDay}, and the plan ${plan} allows ${policy.ceiling[plan]}.`]
      : []),
    ...unknown.map(
      (measure) => `${measure === "bounce" ? "Bounces" : "Complaints"} are unknown: ${UNKNOWN[measure]}.`,
    ),
    ...suspiciousBursts(policy, days).map(
      ({ day, source, measure, events, counted }) =>
        `Suspicious: ${events} ${measure}s from ${source} on ${day}, of which ${counted} count.`,
    ),
  ];
}

function isSame(one: RecordedChange, other: RecordedChange | null): boolean {
  return one.at.getTime() === other?.at.getTime() && one.reason === other.reason;
}

const UNKNOWN = {
  bounce: "the smarthost accepts everything, and bounces after delivery reach nobody (BOUNCE_DOMAIN)",
  complaint:
    "no feedback loop reports them to us, or too little mail goes to domains that have one (`caps evidence import`)",
} as const;

function overrideWords({ minimum, maximum, fixed, fixedHour, until, by, reason }: Override): string {
  const limits = [
    minimum !== null && `at least ${minimum} a day`,
    maximum !== null && `at most ${maximum} a day`,
    fixed !== null && `${fixed} a day`,
    fixedHour !== null && `${fixedHour} an hour`,
  ].filter(Boolean);
  const end = until === null ? "without an end" : `until ${timeOf(until)}`;
  return `${by} set it to ${limits.join(", ")} ${end}: ${reason}.`;
}

function levelChanges({ policy, state, override, now }: CapFacts): string[] {
  const found: string[] = [];
  if (override?.until && override.until > now) found.push(`The override ends at ${timeOf(override.until)}.`);
  const { level, cleanDays } = state;
  if (level === "frozen" || level === "shrunk" || level === "paused") {
    const missing = Math.max(1, cleanDaysNeeded(policy, state, dayOf(now)) - cleanDays);
    const then =
      level === "paused"
        ? `a probe of ${policy.recovery.probe} a day of other than transactional mail goes`
        : "the level is normal again";
    found.push(
      `After ${missing} more clean ${missing === 1 ? "day" : "days"}, at the earliest on ${dayPlus(dayOf(now), missing)}, ${then}.`,
    );
  }
  if (level === "probing")
    found.push(
      `After each healthy day with mail the probe is ${policy.recovery.probe_growth} times as wide, until it is as wide as the cap.`,
    );
  return found;
}

/** As if the day ended now: what today still lacks. */
function growthChanges(
  { policy, plan, state, override, days, heard, now }: CapFacts,
  capDay: number,
): string[] {
  if (state.level !== "normal") return ["The cap does not grow before the level is normal."];
  const today = dayOf(now);
  const about = {
    policy,
    plan,
    days: weighed(policy, watchOf(policy, state), withPostmaster(days), now),
    override,
    now,
    heard,
  };
  const growth = growthAfter(about, state, today, capDay);
  const turn = timeOf(Date.parse(today) + DAY_MS);
  return growth.grows
    ? [`As today is so far, the cap grows to ${growth.capDay} a day at ${turn}: ${growth.why.join("; ")}.`]
    : [`As today is so far, the cap does not grow at ${turn}: ${growth.why.join("; ")}.`];
}

/** As the next look will find it: that opens the windows of a workspace which had no look yet. */
function harmChanges({ policy, state, days, now }: CapFacts): string[] {
  const known = weighed(policy, watchOf(policy, state), withPostmaster(days), now);
  const watch = watchOf(policy, watchOn(state, known, now));
  const evidence = suspicion(policy, watch, known, now);
  const ofBulk = suspicion(policy, watch, known, now, true);
  const measures = ["bounce", "complaint"] as const;
  const aboutAll = measures.map((measure) => {
    const share = evidence[measure];
    const step = state.level === "normal" ? "freezes the cap" : "counts against the way back";
    return `A ${measure} rate that is surely over ${percent(policy.freeze[measure])} ${step}: ${distanceOf(share)}.`;
  });
  const aboutBulk = measures
    .filter((measure) => ofBulk[measure] > 0)
    .map(
      (measure) =>
        `A ${measure} rate of the stream bulk that is surely over ${percent(policy.pause[measure])} pauses bulk mail: ${distanceOf(ofBulk[measure])}.`,
    );
  return [...aboutAll, ...aboutBulk];
}

function distanceOf(share: number): string {
  if (share === 0) return "there is no evidence of that";
  return share < 1 ? `the evidence has come ${percent(share)} of the way` : "that is proven";
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
