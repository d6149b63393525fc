/**
 * The evidence of a part of a workspace's mail: a bulk stream with a name of its own, or the mail of a stream
 * to one provider. Each is judged by the same policy on its own counts, before the workspace is on all of
 * them: trouble in one part holds that part back. A stream that is in trouble is paused; mail to a provider
 * is slowed down to the size of a probe, which shows whether the trouble is over. Both come back as a paused
 * workspace does.
 *
 * Transactional streams are never paused; to a provider their mail is slowed down as other mail is.
 */

import { DAY_MS } from "../clock.ts";
import type { Plan } from "../rules/plans.ts";
import { isDefined, type StreamDefinitions, type StreamShares } from "../rules/stream.ts";
import { dayOf, dayPlus, findHarm, type Harm, percent } from "./policy/evidence.ts";
import {
  type CapState,
  COUNTED_DAYS_MAX,
  cleanDaysNeeded,
  type DayCounts,
  type DecidingNumbers,
  effective,
  evaluate,
  type Override,
  type Policy,
  startState,
} from "./policy.ts";

/** `provider` of `''`: all mail of the stream. */
export type StreamPart = { stream: string; provider: string };
export type PartDays = StreamPart & { days: DayCounts[] };
/** By stream, or by stream and provider with a space between. */
type PartStates = NonNullable<CapState["parts"]>;

/** `numbers`: which part it is, and what the step was taken on. */
type PartStep = { reason: string; numbers: DecidingNumbers };

export type JudgedParts = {
  /** The very object that was given when there is nothing to store. */
  states: PartStates;
  /** For the history of the caps. */
  steps: PartStep[];
  /** A step was taken: the evidence for it is used up for the workspace too. */
  hasStepped: boolean;
};

type PartContext = {
  policy: Policy;
  plan: Plan;
  /** Of the workspace. */
  capDay: number;
  now: number;
};

export function judgeParts(
  context: PartContext,
  known: PartStates,
  counted: readonly PartDays[],
): JudgedParts {
  const policy = withoutCap(context.policy);
  const daysOf = new Map(counted.map((one) => [nameOf(one), one.days]));
  const states: Record<string, CapState> = {};
  const steps: PartStep[] = [];
  let hasStepped = false;
  for (const name of new Set([...Object.keys(known), ...daysOf.keys()])) {
    const days = daysOf.get(name) ?? [];
    const held = known[name];
    if (!held && !isSuspect(policy, days, context.now)) continue;
    const before = atCap(policy, context, held ?? startState(policy, context.plan));
    const { state, harm, numbers } = evaluate(policy, context.plan, before, days, null, context.now);
    if (isRemembered(state, context.now)) states[name] = state;
    const isHeld = state.level === "paused";
    const isNew = isHeld && state.pausedAt.at(-1) !== before.pausedAt.at(-1);
    if (isNew) hasStepped = true;
    if (isNew || isHeld !== (before.level === "paused") || state.probe !== before.probe)
      steps.push({
        reason: wording(partOf(name), state, policy, harm),
        numbers: { part: inWords(partOf(name)), ...numbers },
      });
  }
  const names = Object.keys(states);
  const isSame =
    names.length === Object.keys(known).length && names.every((name) => states[name] === known[name]);
  return { states: isSame ? known : states, steps, hasStepped };
}

/** A part of which nothing is known but counts: most are healthy, and their states need not be kept. */
function isSuspect(policy: Policy, days: readonly DayCounts[], now: number): boolean {
  const since = days[0]?.day ?? null;
  const watch = { since, judged: null, hours: [], error: policy.evidence.errors_per_month };
  return findHarm(policy, watch, days, now) !== null;
}

/** As long as it is held back, or counts that it was held back for would speak against it again. */
function isRemembered({ level, pausedAt }: CapState, now: number): boolean {
  const since = now - COUNTED_DAYS_MAX * DAY_MS;
  return (level !== "normal" && level !== "frozen") || pausedAt.some((at) => at > since);
}

/** Which parts there are to judge: named bulk streams, and each stream at each provider. */
export function partsIn(
  rows: readonly (DayCounts & StreamPart)[],
  definitions: StreamDefinitions,
): PartDays[] {
  const found = new Map<string, PartDays>();
  const add = (part: StreamPart, counts: DayCounts): void => {
    const name = nameOf(part);
    const known = found.get(name);
    if (!known) found.set(name, { ...part, days: [counts] });
    else addTo(known.days, counts);
  };
  for (const { stream, provider, ...counts } of rows) {
    const isNamedBulk = isDefined(stream, definitions) && definitions[stream]?.bulk === true;
    if (isNamedBulk) add({ stream, provider: "" }, counts);
    if (provider !== "") add({ stream, provider }, counts);
  }
  for (const { days } of found.values()) days.sort((a, b) => (a.day < b.day ? -1 : 1));
  return [...found.values()];
}

/** The shares that streams are held back to; under a fixed cap nothing is. */
export function sharesOf(
  states: PartStates,
  { policy, plan, capDay, now }: PartContext,
  override: Override | null,
): StreamShares {
  const shares: Record<string, number> = {};
  for (const [name, state] of Object.entries(states)) {
    if (partOf(name).provider !== "" || state.level === "normal" || state.level === "frozen") continue;
    const isPaused = effective(policy, plan, { ...state, level: "paused" }, override, now).bulkPaused;
    if (!isPaused) continue;
    shares[name] = state.level === "probing" ? Math.min(1, state.probe / capDay) : 0;
  }
  return shares;
}

export type PartLimit = StreamPart & { perDay: number; reason: string };

/** What may go to a provider, in recipients a day, after trouble there. */
export function limitsOf(states: PartStates, { policy }: Pick<PartContext, "policy">): PartLimit[] {
  return Object.entries(states).flatMap(([name, state]) => {
    const part = partOf(name);
    const isHeld = state.level === "paused" || state.level === "shrunk" || state.level === "probing";
    if (part.provider === "" || !isHeld) return [];
    const perDay = state.level === "probing" ? state.probe : policy.recovery.probe;
    return [{ ...part, perDay, reason: wording(part, state, policy) }];
  });
}

export type HeldPart = StreamPart & {
  says: string;
  /** When it was held back. */
  since: number | null;
  /** What ends that. */
  next: string;
};

/** What is held back, for people. */
export function heldParts(states: PartStates, context: PartContext, override: Override | null): HeldPart[] {
  const { policy, now } = context;
  const shares = sharesOf(states, context, override);
  const limited = new Set(limitsOf(states, context).map(nameOf));
  return Object.entries(states).flatMap(([name, state]) => {
    if (!Object.hasOwn(shares, name) && !limited.has(name)) return [];
    const part = partOf(name);
    const since = state.pausedAt.at(-1) ?? null;
    return [
      { ...part, says: wording(part, state, policy), since, next: nextStep(policy, state, dayOf(now)) },
    ];
  });
}

function nextStep(policy: Policy, state: CapState, today: string): string {
  const { probe, probe_growth } = policy.recovery;
  if (state.level === "probing")
    return `After each healthy day with mail its probe is ${probe_growth} times as wide.`;
  const missing = Math.max(1, cleanDaysNeeded(policy, state, today) - state.cleanDays);
  return `After ${missing} more clean ${missing === 1 ? "day" : "days"}, at the earliest on ${dayPlus(today, missing)}, it is probed with ${probe} a day.`;
}

/** Of a part only the level matters: its cap is that of the workspace. */
function withoutCap(policy: Policy): Policy {
  return { ...policy, growth: 1, growth_after_shrink: 1, shrink: { ...policy.shrink, factor: 1 } };
}

function atCap(policy: Policy, { plan, capDay, now }: PartContext, state: CapState): CapState {
  const { day, hour } = effective(policy, plan, { ...state, capDay }, null, now);
  return day === state.capDay && hour === state.capHour ? state : { ...state, capDay: day, capHour: hour };
}

function wording(
  { stream, provider }: StreamPart,
  { level, probe }: CapState,
  policy: Policy,
  harm: Harm | null = null,
): string {
  const what = `${provider === "" ? "The stream" : "Mail of"} ${inWords({ stream, provider })}`;
  if (level === "probing") return `${what} is probed with ${probe} recipients a day.`;
  if (level !== "paused") return `${what} goes as before.`;
  const held = provider === "" ? "is paused" : `is slowed down to ${policy.recovery.probe} recipients a day`;
  if (!harm) return `${what} ${held}.`;
  const { measure, sample } = harm;
  return `${what} ${held}: ${sample.events} ${measure}s of ${sample.of} are surely over the limit of ${percent(policy.pause[measure])}.`;
}

function inWords({ stream, provider }: StreamPart): string {
  return provider === "" ? stream : `${stream} to ${provider}`;
}

function nameOf({ stream, provider }: StreamPart): string {
  return provider === "" ? stream : `${stream} ${provider}`;
}

function partOf(name: string): StreamPart {
  const [stream = "", provider = ""] = name.split(" ");
  return { stream, provider };
}

function addTo(days: DayCounts[], counts: DayCounts): void {
  const known = days.find(({ day }) => day === counts.day);
  if (!known) {
    days.push({ ...counts });
    return;
  }
  known.attempted += counts.attempted;
  known.delivered += counts.delivered;
  known.bounced += counts.bounced;
  known.lateBounced = (known.lateBounced ?? 0) + (counts.lateBounced ?? 0);
  known.blocked += counts.blocked;
  known.complained += counts.complained;
  known.fblDelivered += counts.fblDelivered;
  known.used += counts.used;
}
