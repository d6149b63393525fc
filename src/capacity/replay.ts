/**
 * Days gone by under another policy: the mail that really came flows through the caps that this policy would
 * have given, from the state and under the overrides of then. Pure. The rules are those of production: the
 * ledger's room, the policy's evaluation.
 *
 * What is not known is assumed, and the day is marked as censored: what would have become of mail that did
 * not go then is taken to be what became of the rest of that day; and whoever had to wait may have asked for
 * less than there was.
 *
 * A span may start and end within a day: what went, waited and was decided before it is where both sides
 * start, and counts for neither.
 */

import { DAY_MS } from "../clock.ts";
import { keysOf, recordOf } from "../names.ts";
import { type Allowance, advance, charge, emptyLedger, type Ledger, roomNow } from "../rules/ledger.ts";
import type { Plan } from "../rules/plans.ts";
import { BULK_STREAM, TRANSACTIONAL_STREAM } from "../rules/stream.ts";
import { dayOf, dayPlus } from "./policy/evidence.ts";
import {
  type BulkCounts,
  type CapState,
  COUNTED_DAYS_MAX,
  type DayCounts,
  effective,
  evaluate,
  type Heard,
  type Level,
  type Override,
  type Policy,
  reservedShareOf,
} from "./policy.ts";

const HOUR_MS = 3_600_000;
const HOURS = 24;
/** As often as the ledger's hour moves on. */
const RELEASE_MS = 300_000;
const MOMENTS_A_TURN = 100;

/** What was known of a day at a time, and what waited then. */
export type CapLook = { at: number; counts: DayCounts; waiting: number; waitingBulk: number };

export type ReplayInput = {
  policy: Policy;
  plan: Plan;
  /** As it was at `stateAt`, or at `from`, with every override since. */
  state: CapState;
  /** From then until `from`, if that is the same day, the policy of then judges what really was. */
  stateAt?: number;
  policyThen?: Policy;
  overrides: readonly { at: number; override: Override | null }[];
  /** As they ended; those without a look are lived through in hours. */
  days: readonly DayCounts[];
  /** In the order of time; those before `from` say what had gone by then. */
  looks: readonly CapLook[];
  from: number;
  to: number;
  heard: Heard;
  monthLeft?: number;
};

export type CapTotals = {
  sent: number;
  /** Bounced or complained about. */
  bad: number;
  delayed: number;
  /** Recipients times hours of waiting. */
  waiting_hours: number;
  waiting_most: number;
  freezes: number;
  pauses: number;
  shrinks: number;
};

export type ReplayedDay = {
  day: string;
  resolution: "5 minutes" | "1 hour";
  capDay: number;
  capHour: number;
  level: Level;
  bulkPaused: boolean;
  used: number;
  /** What was really sent. */
  actual: number;
  /** What waits when the day ends. */
  over: number;
  /** What was asked for, or became of it, is partly assumed. */
  censored: boolean;
  reasons: string[];
};

export type ReplayedStep = { at: string; level: Level; capDay: number; reason: string };
export type Replay = { days: ReplayedDay[]; steps: ReplayedStep[]; totals: CapTotals; actual: CapTotals };

const NO_TOTALS: CapTotals = {
  sent: 0,
  bad: 0,
  delayed: 0,
  waiting_hours: 0,
  waiting_most: 0,
  freezes: 0,
  pauses: 0,
  shrinks: 0,
};

export function replay(input: ReplayInput): Replay {
  const world = worldOf(input);
  for (const moment of momentsOf(input)) live(world, moment);
  return replayOf(world);
}

/** The same, for a process that has other things to do: a week takes some 100 ms. */
export async function replayInTurns(input: ReplayInput, turn: () => Promise<void>): Promise<Replay> {
  const world = worldOf(input);
  for (const [n, moment] of momentsOf(input).entries()) {
    if (n % MOMENTS_A_TURN === 0) await turn();
    live(world, moment);
  }
  return replayOf(world);
}

function replayOf(world: ReplayWorld): Replay {
  endDay(world, []);
  return { days: [...world.lived.values()], steps: world.steps, ...totalsOf(world) };
}

/** All looks of one time. */
type Moment = { at: number; looks: CapLook[]; resolution: ReplayedDay["resolution"] };

type ReplayWorld = {
  input: ReplayInput;
  state: CapState;
  ledger: Ledger;
  allowance: Allowance;
  /** What was known at `from` of its day: it counts for neither side. */
  begun: DayCounts;
  /** As they really were so far, by day. */
  real: Map<string, DayCounts>;
  /** What has gone of a day under this policy. */
  gone: Map<string, Gone>;
  lived: Map<string, ReplayedDay>;
  steps: ReplayedStep[];
  backlog: { transactional: number; bulk: number };
  before: { at: number; day: string; used: number; usedBulk: number; waiting: number; waitingBulk: number };
  totals: CapTotals;
  actual: CapTotals;
};

type Gone = { used: number; usedBulk: number; delayed: number };

function worldOf(input: ReplayInput): ReplayWorld {
  const { days, from, monthLeft = Number.MAX_SAFE_INTEGER } = input;
  const first = dayOf(from);
  const earlier = lookedOrSpread(input).filter(({ at }) => at <= from);
  const own = earlier.flatMap(({ looks }) => looks).filter(({ at, counts }) => counts.day === dayOf(at));
  const begun = own.findLast(({ counts }) => counts.day === first)?.counts ?? noCounts(first);
  const { waiting, waitingBulk } = own.at(-1) ?? firstLookWithin(input) ?? NOTHING_WAITS;
  const { used, usedBulk = 0, delayed } = begun;
  const waits = { ...NO_TOTALS, waiting_most: waiting + waitingBulk };
  const world: ReplayWorld = {
    input,
    state: stateAtStart(input, earlier),
    ledger: ledgerAfter(own, from),
    allowance: { dayLimit: null, monthLimit: monthLeft, capDay: 0, capHour: 0, reservedShare: 0 },
    begun,
    real: new Map(days.filter(({ day }) => day < first).map((counts) => [counts.day, counts])),
    gone: new Map([[first, { used, usedBulk, delayed }]]),
    lived: new Map(),
    steps: [],
    backlog: { transactional: waiting, bulk: waitingBulk },
    before: { at: from, day: first, used, usedBulk, waiting, waitingBulk },
    totals: { ...waits },
    actual: { ...waits },
  };
  if (used > 0) world.real.set(first, begun);
  follow(world, from);
  return world;
}

const NOTHING_WAITS = { waiting: 0, waitingBulk: 0 };

/** Of a workspace that nobody looked at before: what waits at the first look has waited since the start. */
function firstLookWithin({ looks, from }: ReplayInput): CapLook | null {
  const first = looks[0];
  return first !== undefined && dayOf(first.at) === dayOf(from) ? first : null;
}

/** The caps are used as far as they really were. */
function ledgerAfter(looks: readonly CapLook[], from: number): Ledger {
  const ledger = emptyLedger();
  const seen = { day: "", used: 0, usedBulk: 0 };
  for (const { at, counts } of looks) {
    const { day, used, usedBulk = 0 } = counts;
    if (day !== seen.day) seen.used = seen.usedBulk = 0;
    const bulk = Math.max(0, usedBulk - seen.usedBulk);
    advance(ledger, at);
    charge(ledger, BULK_STREAM, bulk);
    charge(ledger, TRANSACTIONAL_STREAM, Math.max(0, used - seen.used - bulk));
    Object.assign(seen, { day, used, usedBulk });
  }
  advance(ledger, from);
  return ledger;
}

/** What was decided between the state that somebody wrote down and the start of the span. */
function stateAtStart(input: ReplayInput, earlier: readonly Moment[]): CapState {
  const { stateAt, policyThen = input.policy, plan, heard, days, from } = input;
  if (stateAt === undefined) return input.state;
  const since = Math.max(stateAt, Date.parse(dayOf(from)));
  const known = new Map(days.filter(({ day }) => day < dayOf(from)).map((counts) => [counts.day, counts]));
  let { state } = input;
  for (const { at, looks } of earlier) {
    if (at < since || at === from) continue;
    for (const { counts } of looks) known.set(counts.day, counts);
    const counted = [...known.values()].sort((a, b) => (a.day < b.day ? -1 : 1)).slice(-COUNTED_DAYS_MAX);
    state = evaluate(policyThen, plan, state, counted, overrideAt(input, at), at, heard).state;
  }
  return state;
}

function momentsOf(input: ReplayInput): Moment[] {
  const { from, to } = input;
  const looked = lookedOrSpread(input).filter(({ at }) => at >= from && at <= to);
  return withReleases(looked, from, to);
}

/** A look at which nothing is new is not written down; what waits under this policy may go then, too. */
function withReleases(looked: readonly Moment[], from: number, to: number): Moment[] {
  const moments: Moment[] = [];
  let since = from;
  const release = (until: number): void => {
    for (let at = since + RELEASE_MS; at < until; at += RELEASE_MS)
      moments.push({ at, looks: [], resolution: "1 hour" });
  };
  for (const one of looked) {
    release(one.at);
    moments.push(one);
    since = one.at;
  }
  release(to);
  if (since < to) moments.push({ at: to, looks: [], resolution: "1 hour" });
  return moments;
}

/** Days without looks are lived in hours, their counts spread evenly. */
function lookedOrSpread({ days, looks, from, to }: ReplayInput): Moment[] {
  const byTime = new Map<number, CapLook[]>();
  for (const look of looks) byTime.set(look.at, [...(byTime.get(look.at) ?? []), look]);
  const looked = new Set(looks.map(({ at }) => dayOf(at)));
  const moments: Moment[] = [...byTime].map(([at, found]) => ({ at, looks: found, resolution: "5 minutes" }));
  for (const counts of days) {
    const midnight = Date.parse(counts.day);
    if (looked.has(counts.day) || counts.day < dayOf(from) || midnight > to) continue;
    const hours = Array.from({ length: HOURS }, (_, n) => midnight + (n + 1) * HOUR_MS - 1);
    const within = [from, to].filter((at) => at > midnight && dayOf(at) === counts.day);
    for (const at of new Set([...hours, ...within])) {
      const partial = scaled(counts, Math.min(1, (at + 1 - midnight) / DAY_MS));
      const look = { at, counts: partial, ...NOTHING_WAITS };
      moments.push({ at, looks: [look], resolution: "1 hour" });
    }
  }
  return moments.sort((a, b) => a.at - b.at);
}

/** Mail flows under the caps and the override of now; then the policy looks, as the keeper does. */
function live(world: ReplayWorld, { at, looks, resolution }: Moment): void {
  if (looks.length === 0 && !isWaiting(world)) return;
  const today = dayOf(at);
  for (const { counts } of looks) world.real.set(counts.day, counts);
  if (today !== world.before.day) {
    endDay(world, looks.length > 0 ? looks : nextLooks(world, at));
    turnDay(world, today);
  }
  const lived = dayIn(world, today, resolution);
  follow(world, at);
  const present = looks.find(({ counts }) => counts.day === today);
  if (present) flow(world, present, at, lived);
  else if (looks.length === 0 && !release(world, at, lived)) return;
  look(world, at, lived);
  lived.level = world.state.level;
  lived.over = world.backlog.transactional + world.backlog.bulk;
}

function isWaiting({ backlog, before }: ReplayWorld): boolean {
  return backlog.transactional + backlog.bulk + before.waiting + before.waitingBulk > 0;
}

/** What tells of the day that is over comes with the next look. */
function nextLooks({ input }: ReplayWorld, at: number): CapLook[] {
  const next = input.looks.find((one) => one.at > at);
  return next === undefined ? [] : input.looks.filter((one) => one.at === next.at);
}

/** Nothing new came; whether something of what waited has gone. */
function release(world: ReplayWorld, at: number, lived: ReplayedDay): boolean {
  const { day, waiting, waitingBulk } = world.before;
  const waited = world.backlog.transactional + world.backlog.bulk;
  const counts = world.real.get(day) ?? noCounts(day);
  const { used, usedBulk } = world.before;
  flow(world, { at, counts: { ...counts, used, usedBulk }, waiting, waitingBulk }, at, lived);
  const waits = world.backlog.transactional + world.backlog.bulk;
  lived.over = waits;
  return waits < waited;
}

/**
 * The first look of a day is the last that tells of the day before; without one it is as it ended, if that is
 * within the span.
 */
function endDay(world: ReplayWorld, looks: readonly CapLook[]): void {
  const { day, used, waiting, waitingBulk } = world.before;
  const told = looks.find(({ counts }) => counts.day === day)?.counts;
  const last = told ?? endOf(world, day, used);
  if (last === null) return;
  world.real.set(day, last);
  const midnight = Date.parse(day) + DAY_MS;
  const lived = dayIn(world, day, told ? "5 minutes" : "1 hour");
  flow(world, { at: midnight - 1, counts: last, waiting, waitingBulk }, midnight - 1, lived);
  lived.over = world.backlog.transactional + world.backlog.bulk;
}

/** null: nothing came after what is known. */
function endOf(world: ReplayWorld, day: string, used: number): DayCounts | null {
  const counts = world.input.days.find((one) => one.day === day);
  return counts && isOver(world, day) && counts.used > used ? counts : null;
}

function isOver({ input }: ReplayWorld, day: string): boolean {
  return Date.parse(day) + DAY_MS <= input.to + 1;
}

/** The policy turns its day first: what flows after midnight flows under the caps of the new one. */
function turnDay(world: ReplayWorld, today: string): void {
  const midnight = Date.parse(today);
  world.before = { ...world.before, day: today, used: 0, usedBulk: 0 };
  look(world, midnight, dayIn(world, today, "1 hour"));
}

function flow(
  world: ReplayWorld,
  { counts, waiting, waitingBulk }: CapLook,
  at: number,
  lived: ReplayedDay,
): void {
  const { before, backlog, ledger, allowance, totals, actual } = world;
  const { used, usedBulk = 0 } = counts;
  const asked = {
    transactional: Math.max(0, used - usedBulk - (before.used - before.usedBulk) + waiting - before.waiting),
    bulk: Math.max(0, usedBulk - before.usedBulk + waitingBulk - before.waitingBulk),
  };
  const hours = (at - before.at) / HOUR_MS;
  totals.waiting_hours += hours * (backlog.transactional + backlog.bulk);
  actual.waiting_hours += hours * (before.waiting + before.waitingBulk);
  backlog.transactional += asked.transactional;
  backlog.bulk += asked.bulk;
  advance(ledger, at);
  const gone = goneOf(world, counts.day);
  for (const kind of ["transactional", "bulk"] as const) {
    const stream = kind === "bulk" ? BULK_STREAM : TRANSACTIONAL_STREAM;
    const served = Math.min(backlog[kind], Math.max(0, roomNow(ledger, allowance, stream)));
    charge(ledger, stream, served);
    backlog[kind] -= served;
    gone.used += served;
    if (kind === "bulk") gone.usedBulk += served;
    gone.delayed += Math.min(asked[kind], backlog[kind]);
  }
  const waits = backlog.transactional + backlog.bulk;
  totals.waiting_most = Math.max(totals.waiting_most, waits);
  actual.waiting_most = Math.max(actual.waiting_most, waiting + waitingBulk);
  const begun = begunOf(world, counts.day);
  lived.used = gone.used - begun.used;
  lived.actual = used - begun.used;
  // at the cap, or with mail that waited, nobody knows what would have been asked for
  lived.censored ||= counts.delayed > begun.delayed || waiting + waitingBulk > 0 || gone.used > used;
  world.before = { at, day: counts.day, used, usedBulk, waiting, waitingBulk };
}

function look(world: ReplayWorld, at: number, lived: ReplayedDay): void {
  const { input, state } = world;
  const { policy, plan, heard } = input;
  const done = evaluate(policy, plan, state, knownOf(world, dayOf(at)), overrideAt(input, at), at, heard);
  world.state = done.state;
  if (done.changed) {
    const { level, capDay } = done.state;
    world.steps.push({ at: new Date(at).toISOString(), level, capDay, reason: done.reason });
    lived.reasons.push(done.reason);
    if (capDay < state.capDay && done.harm) world.totals.shrinks++;
    if (level !== state.level) countStep(world.totals, level);
  }
  follow(world, at);
  lived.capDay = Math.max(lived.capDay, world.allowance.capDay);
  lived.capHour = Math.max(lived.capHour, world.allowance.capHour);
  lived.bulkPaused ||= world.allowance.reservedShare >= 1;
}

function countStep(totals: CapTotals, level: string): void {
  if (level === "frozen") totals.freezes++;
  if (level === "paused") totals.pauses++;
}

/** The caps that hold from now on. */
function follow({ input, state, allowance }: ReplayWorld, at: number): void {
  const caps = effective(input.policy, input.plan, state, overrideAt(input, at), at);
  allowance.capDay = caps.day;
  allowance.capHour = caps.hour;
  allowance.reservedShare = reservedShareOf(state, caps);
}

function overrideAt({ overrides }: ReplayInput, at: number): Override | null {
  return overrides.findLast((one) => one.at <= at)?.override ?? null;
}

/** The days as this policy would know them: of each as much as would have gone. */
function knownOf(world: ReplayWorld, today: string): DayCounts[] {
  const { real, gone, input } = world;
  const since = dayPlus(today, 1 - COUNTED_DAYS_MAX);
  const known: DayCounts[] = [];
  for (const [day, counts] of real) {
    if (day < since || day > today) continue;
    known.push(day < dayOf(input.from) ? counts : asGone(counts, gone.get(day), known, begunOf(world, day)));
  }
  return known.sort((a, b) => (a.day < b.day ? -1 : 1));
}

/** What had become known of the day by the start of the span stays as it was. */
function asGone(
  counts: DayCounts,
  gone: Gone | undefined,
  earlier: readonly DayCounts[],
  begun: DayCounts,
): DayCounts {
  const { used = 0, usedBulk = 0, delayed = 0 } = gone ?? {};
  if (used === counts.used) return { ...counts, usedBulk, delayed: Math.min(delayed, counts.delayed) };
  const since = {
    used: used - begun.used,
    usedBulk: usedBulk - (begun.usedBulk ?? 0),
    delayed: delayed - begun.delayed,
  };
  return together(begun, shareOf(together(counts, begun, -1), since, earlier), 1);
}

function shareOf(counts: DayCounts, { used, usedBulk, delayed }: Gone, earlier: readonly DayCounts[]) {
  // of a time in which nothing really went, what became of it is that of the day before
  const like = counts.used > 0 ? counts : earlier.findLast((one) => one.used > 0);
  if (!like) return { ...counts, used, usedBulk, delayed };
  const share = used / like.used;
  const { bulk, ...found } = scaled(like, share, like.usedBulk ? usedBulk / like.usedBulk : share);
  return { ...found, day: counts.day, used, usedBulk, delayed, ...(bulk && usedBulk > 0 && { bulk }) };
}

function begunOf({ begun }: ReplayWorld, day: string): DayCounts {
  return begun.day === day ? begun : noCounts(day);
}

const MAIL = [
  ...(["attempted", "delivered", "bounced", "lateBounced"] as const),
  ...(["blocked", "complained", "fblDelivered"] as const),
];
const COUNTS = [...MAIL, ...(["soft", "throttled", "delayed", "used", "usedBulk"] as const)];

function together(one: DayCounts, other: DayCounts, sign: 1 | -1): DayCounts {
  const bulk = one.bulk || other.bulk ? addedUp(MAIL, one.bulk ?? {}, other.bulk ?? {}, sign) : undefined;
  const { bulk: _, ...rest } = sign > 0 ? other : one;
  return {
    ...rest,
    ...addedUp(COUNTS, one, other, sign),
    ...(bulk && { bulk: bulk as BulkCounts }),
  } as DayCounts;
}

type Counted<Name extends string> = { [name in Name]?: number | undefined };

function addedUp<Name extends string>(
  names: readonly Name[],
  one: Counted<Name>,
  other: Counted<Name>,
  sign: 1 | -1,
): Record<Name, number> {
  return recordOf(names, (name) => Math.max(0, (one[name] ?? 0) + sign * (other[name] ?? 0)));
}

function noCounts(day: string): DayCounts {
  return { ...(addedUp(COUNTS, {}, {}, 1) as Record<(typeof COUNTS)[number], number>), day };
}

function scaled(counts: DayCounts, share: number, bulkShare = share): DayCounts {
  const of = (count: number | undefined) => Math.round((count ?? 0) * share);
  return {
    day: counts.day,
    ...scaledMail(counts, share),
    ...(counts.bulk && { bulk: scaledMail(counts.bulk, bulkShare) }),
    soft: of(counts.soft),
    throttled: of(counts.throttled),
    delayed: of(counts.delayed),
    used: of(counts.used),
    usedBulk: of(counts.usedBulk),
    ...(counts.postmaster && { postmaster: counts.postmaster }),
  };
}

function scaledMail(counts: BulkCounts, share: number): BulkCounts {
  const of = (count: number | undefined) => Math.round((count ?? 0) * share);
  return {
    attempted: of(counts.attempted),
    delivered: of(counts.delivered),
    bounced: of(counts.bounced),
    lateBounced: of(counts.lateBounced),
    blocked: of(counts.blocked),
    complained: of(counts.complained),
    fblDelivered: of(counts.fblDelivered),
  };
}

function goneOf({ gone }: ReplayWorld, day: string) {
  const known = gone.get(day);
  if (known) return known;
  const made = { used: 0, usedBulk: 0, delayed: 0 };
  gone.set(day, made);
  return made;
}

function dayIn(world: ReplayWorld, day: string, resolution: ReplayedDay["resolution"]): ReplayedDay {
  const known = world.lived.get(day);
  if (known) {
    if (resolution === "5 minutes") known.resolution = resolution;
    return known;
  }
  const made: ReplayedDay = {
    ...{ day, resolution, capDay: 0, capHour: 0, level: world.state.level, bulkPaused: false },
    ...{ used: 0, actual: 0, over: 0, censored: false, reasons: [] },
  };
  world.lived.set(day, made);
  return made;
}

/** With what became known until now of days that are over, and until the end of the span of its last. */
function totalsOf(world: ReplayWorld): Pick<Replay, "totals" | "actual"> {
  const { input, gone, real, totals, actual } = world;
  const ended = new Map(input.days.map((counts) => [counts.day, counts]));
  for (const [day, seen] of real) {
    if (day < dayOf(input.from)) continue;
    const counts = (isOver(world, day) && ended.get(day)) || seen;
    const begun = begunOf(world, day);
    addDay(totals, asGone(counts, gone.get(day), [...real.values()], begun), begun);
    totals.delayed += (gone.get(day)?.delayed ?? 0) - begun.delayed;
    addDay(actual, counts, begun);
    actual.delayed += counts.delayed - begun.delayed;
  }
  return { totals, actual };
}

function addDay(totals: CapTotals, counts: DayCounts, begun: DayCounts): void {
  totals.sent += counts.used - begun.used;
  totals.bad += counts.bounced + counts.complained - begun.bounced - begun.complained;
}

export function addTotals(all: readonly CapTotals[]): CapTotals {
  const sum = { ...NO_TOTALS };
  for (const one of all)
    for (const name of keysOf(sum))
      sum[name] = name === "waiting_most" ? Math.max(sum[name], one[name]) : sum[name] + one[name];
  return sum;
}

/** Days in a span, the first and the last with it. */
export function daysBetween(from: number, to: number): number {
  return Math.floor(to / DAY_MS) - Math.floor(from / DAY_MS) + 1;
}
