/**
 * One simulated workspace: its mail arrives bin by bin, finds room in the quota, waits for the caps, goes,
 * bounces and is complained about; receivers react to the address it comes from; and the policy moves its
 * caps. Quota and caps are the ledger of production (rules/ledger.ts) and the policy is the policy of
 * production, on a clock of its own. Mail is counted, never held one by one, so that 60 days take
 * milliseconds.
 *
 * Each bin: evaluate what is known, let mail arrive, let transactional mail go and then automation mail,
 * oldest first, and count what became of it, with what is heard late of earlier mail. Senders that share the
 * address live in step.
 */

import { DAY_MS } from "../clock.ts";
import type { BulkCounts, SourceCounts } from "../record/workspaces/caps.ts";
import { type Allowance, advance, charge, emptyLedger, type Ledger, roomNow } from "../rules/ledger.ts";
import { limitsOf, RESERVED_SHARE } from "../rules/plans.ts";
import { BULK_STREAM, TRANSACTIONAL_STREAM } from "../rules/stream.ts";
import { Agenda } from "./agenda.ts";
import { LatestMail } from "./latest.ts";
import { SimulatedBacklog } from "./line.ts";
import { isOverLimit } from "./overlimit.ts";
import { dayOf, type Harm } from "./policy/evidence.ts";
import { type SuspiciousBurst, suspiciousBursts, weighed } from "./policy/sources.ts";
import {
  type CapState,
  COUNTED_DAYS_MAX,
  type DayCounts,
  effective,
  evaluate,
  harmIn,
  type Level,
  type Override,
  type Policy,
  reservedShareOf,
  startState,
  watchOf,
  watchOn,
} from "./policy.ts";
import { binomial, type Random, randomFor, randomOf } from "./random.ts";
import { DEFAULT_RECEIVERS, SimulatedReceivers } from "./receivers.ts";
import {
  BINS_PER_DAY,
  BINS_PER_HOUR,
  binsAfter,
  type Scenario,
  type ScenarioEvent,
  type SimulatedSender,
  type SourceShare,
  type Workload,
  workloadsOf,
} from "./workload.ts";

export const BIN_MINUTES = 1_440 / BINS_PER_DAY;
const HOUR_MS = 3_600_000;
const NOON = 12;
const BIN_MS = DAY_MS / BINS_PER_DAY;
/** A Monday. */
export const FIRST_MS = Date.UTC(2026, 0, 5);
const SEED_STRIDE = 0x9e3779b1;
/** Below these: the streams of a sender. */
const OUTCOMES = 1_000;
const REPORTS = 1_001;
const SEVERITY: Record<Level, number> = { normal: 0, frozen: 1, probing: 2, shrunk: 3, paused: 4 };
/** Of a workspace that has grown: what it used of its cap. */
const USED_SHARE = 0.5;
const RETRY_SPREAD = 0.7;
/** Complaints of an event are of no stream: the first one is this, the next is one less. */
const FIRST_EVENT = -1;
/** Whoever complains about everything does it from few accounts. */
const FORGED = "strangers";

export type SimulatedCapChange = {
  bin: number;
  capDay: number;
  capHour: number;
  level: Level;
  reason: string;
  harm: Harm | null;
};

/**
 * A day as a chart shows it: the largest cap in force, what arrived, what waited when it ended, and the
 * receivers.
 */
export type SimulatedDay = DayCounts & {
  cap: number;
  demand: number;
  waiting: number;
  throttled: number;
  reputation: number;
  bulk: BulkCounts;
  sources: SourceCounts[];
};

export type Run = {
  seed: number;
  days: SimulatedDay[];
  changes: SimulatedCapChange[];
  bursts: SuspiciousBurst[];
  /** Good mail by how many bins it waited; mail that still waits at the end, by how long it has. */
  delays: { transactional: Float64Array; automation: Float64Array };
  sent: number;
  waitingMost: number;
  /** Days until the cap was the target; null: never. */
  daysToTarget: number | null;
  badSent: number;
  badBounced: number;
  /** At the end; null: the scenario has none. */
  badWaiting: number | null;
  /** Recipients that stayed with another sender until the cap had room; null: all mail comes here. */
  elsewhere: number | null;
  /**
   * Bad mail that had gone when the policy took its first step, and when it paused automation mail; or all of
   * it.
   */
  badBeforeFreeze: number;
  badBeforePause: number;
  /** From the counts that prove harm to the first step, in minutes; null: nothing bad was proven. */
  reactionMinutes: number | null;
  /** A step was taken against the workspace before anything bad was sent, and it is not over a limit. */
  falselyHeld: boolean;
  /** Its own mail is worse than its scenario says, and over a limit. */
  isOverLimit: boolean;
  /** How often the cap turned from rising to falling or back. */
  turns: number;
  /** Good mail: delivered, of that in the spam folder, told to come back later, refused for the address. */
  goodSent: number;
  goodInboxed: number;
  goodThrottled: number;
  goodBlocked: number;
  listedDays: number;
  /** Requests that the quota refused, in recipients. */
  refused: number;
};

type World = {
  policy: Policy;
  scenario: SimulatedSender;
  events: readonly ScenarioEvent[];
  workloads: Workload[];
  providers: readonly SourceShare[];
  /** What becomes of mail, and when it is heard late: apart from each other and from the demand. */
  random: Random;
  reports: Random;
  receivers: SimulatedReceivers | null;
  retryMedian: number;
  ledger: Ledger;
  allowance: Allowance;
  state: CapState;
  override: Override | null;
  /** Up to 30 days, today last. */
  recent: SimulatedDay[];
  today: SimulatedDay;
  /** What moved since the last evaluation: without a bounce or complaint no evidence has grown. */
  moved: { any: boolean; events: boolean };
  evaluatorDown: boolean;
  blockedShare: number;
  softShare: number;
  deferredShare: number;
  lines: { transactional: SimulatedBacklog; automation: SimulatedBacklog; month: SimulatedBacklog };
  /** In this bin. */
  arrived: { transactional: number; automation: number };
  /** In all, of each workload. */
  wanted: Float64Array;
  /** null: no stream of the scenario has a source. */
  latest: LatestMail | null;
  agenda: Agenda;
  /** What receivers saw of the day; complaints as they are to be expected, in inboxes. */
  seen: { volume: number; bounced: number; inboxed: number; complained: number };
  badBegins: number;
  provenAt: number | null;
  reactedAt: number | null;
  wasPaused: boolean;
  direction: number;
  run: Run;
};

/** What holds from this look on, and what arrived in the bin before and waited at its end. */
export type BinMail = {
  caps: Pick<Allowance, "capDay" | "capHour" | "reservedShare">;
  arrived: { transactional: number; automation: number };
  waiting: { transactional: number; automation: number };
};

/** Called after each look of the policy, with the counts that it saw. */
export type Observe = (bin: number, state: CapState, counts: readonly DayCounts[], mail: BinMail) => void;

export function simulate(
  policy: Policy,
  scenario: Scenario,
  days: number,
  seed: number,
  observe: Observe | null = null,
  onDay: () => void = () => {},
): Run {
  const worlds = worldsOf(policy, scenario, days, seed);
  const [main] = worlds as [World];
  for (let day = 0; day < days; day++) {
    if (day > 0) endDay(worlds);
    for (const world of worlds) beginDay(world, day);
    for (let bin = day * BINS_PER_DAY; bin < (day + 1) * BINS_PER_DAY; bin++) {
      for (const world of worlds) liveBin(world, bin, world === main ? observe : null);
    }
    onDay();
  }
  return finish(main, days * BINS_PER_DAY);
}

function liveBin(world: World, bin: number, observe: Observe | null): void {
  evaluateNow(world, bin);
  observe?.(bin, world.state, world.recent, mailOf(world));
  if (bin % BINS_PER_DAY === 0) beginDemand(world, bin / BINS_PER_DAY);
  arrive(world, bin);
  release(world, bin);
  hear(world, bin);
  noticeProof(world, bin);
}

function mailOf({ allowance, arrived, lines }: World): BinMail {
  const { capDay, capHour, reservedShare } = allowance;
  return {
    caps: { capDay, capHour, reservedShare },
    arrived: { ...arrived },
    waiting: { transactional: lines.transactional.waiting, automation: lines.automation.waiting },
  };
}

/** The workspace that is asked about, and those that share its address. */
function worldsOf(policy: Policy, scenario: Scenario, days: number, seed: number): World[] {
  const neighbours = (scenario.neighbours ?? []).flatMap(({ count, ...sender }) =>
    Array.from({ length: count }, () => sender),
  );
  const isIndifferent = scenario.receivers === "indifferent";
  const model = { ...DEFAULT_RECEIVERS, ...(scenario.receivers === "indifferent" ? {} : scenario.receivers) };
  const known = [scenario, ...neighbours].reduce((sum, { start_cap = 0 }) => sum + start_cap * USED_SHARE, 0);
  const receivers = isIndifferent
    ? null
    : new SimulatedReceivers(model, known, randomOf(Math.imul(seed, SEED_STRIDE) ^ 0x5bd1e995));
  const main = worldOf(policy, scenario, scenario.events ?? [], receivers, days, seed, 0);
  main.providers = Object.entries(scenario.providers ?? {});
  main.retryMedian = model.throttle_hours;
  return [main, ...neighbours.map((sender, n) => worldOf(policy, sender, [], receivers, days, seed, n + 1))];
}

function worldOf(
  policy: Policy,
  scenario: SimulatedSender,
  events: readonly ScenarioEvent[],
  receivers: SimulatedReceivers | null,
  days: number,
  seed: number,
  sender: number,
): World {
  const own = Math.imul(seed, SEED_STRIDE) + sender;
  const bins = days * BINS_PER_DAY;
  const state = startState(policy, scenario.plan);
  if (scenario.start_cap !== undefined) {
    state.capDay = scenario.start_cap;
    state.capHour = effective(policy, scenario.plan, state, null, FIRST_MS).hour;
  }
  const limits = limitsOf(scenario.plan, scenario.limits ?? {});
  const workloads = workloadsOf(scenario, own);
  return {
    policy,
    scenario,
    events,
    workloads,
    wanted: new Float64Array(scenario.streams.length),
    providers: [],
    random: randomFor(own, OUTCOMES),
    reports: randomFor(own, REPORTS),
    receivers,
    retryMedian: DEFAULT_RECEIVERS.throttle_hours,
    ledger: emptyLedger(),
    allowance: {
      dayLimit: limits.emails_per_day,
      monthLimit: limits.emails_per_month,
      capDay: 0,
      capHour: 0,
      reservedShare: RESERVED_SHARE,
    },
    state,
    override: null,
    recent: [],
    today: dayBegun(""),
    moved: { any: true, events: true },
    evaluatorDown: false,
    blockedShare: 0,
    softShare: 0,
    deferredShare: 0,
    lines: {
      transactional: new SimulatedBacklog(),
      automation: new SimulatedBacklog(),
      month: new SimulatedBacklog(),
    },
    arrived: { transactional: 0, automation: 0 },
    latest: scenario.streams.some(({ source, sources }) => source !== undefined || sources)
      ? new LatestMail(workloads.map(({ sources }) => sources))
      : null,
    agenda: new Agenda(bins),
    seen: { volume: 0, bounced: 0, inboxed: 0, complained: 0 },
    badBegins: firstBadBin(scenario),
    provenAt: null,
    reactedAt: null,
    wasPaused: false,
    direction: 0,
    run: runBefore(
      seed,
      bins,
      scenario.streams.some(({ bad }) => bad),
    ),
  };
}

/** Before its first day. */
function runBefore(seed: number, bins: number, hasBadMail: boolean): Run {
  return {
    seed,
    days: [],
    changes: [],
    bursts: [],
    delays: { transactional: new Float64Array(bins + 1), automation: new Float64Array(bins + 1) },
    sent: 0,
    waitingMost: 0,
    daysToTarget: null,
    badSent: 0,
    badBounced: 0,
    badWaiting: hasBadMail ? 0 : null,
    elsewhere: null,
    badBeforeFreeze: 0,
    badBeforePause: 0,
    reactionMinutes: null,
    falselyHeld: false,
    isOverLimit: false,
    turns: 0,
    goodSent: 0,
    goodInboxed: 0,
    goodThrottled: 0,
    goodBlocked: 0,
    listedDays: 0,
    refused: 0,
  };
}

/** Receivers learn from the day of all who share the address. */
function endDay(worlds: readonly World[]): void {
  const receivers = worlds[0]?.receivers;
  if (!receivers) return;
  const total = { volume: 0, bounced: 0, inboxed: 0, complained: 0 };
  for (const { seen } of worlds)
    for (const name of ["volume", "bounced", "inboxed", "complained"] as const) {
      total[name] += seen[name];
      seen[name] = 0;
    }
  receivers.endDay(total);
}

function beginDay(world: World, day: number): void {
  const { recent, run, agenda, receivers } = world;
  world.today = dayBegun(dayOf(FIRST_MS + day * DAY_MS));
  world.today.reputation = receivers?.reputation ?? 1;
  if (receivers?.isListed) run.listedDays++;
  run.days.push(world.today);
  recent.push(world.today);
  if (recent.length > COUNTED_DAYS_MAX) recent.shift();
  world.moved.any = world.moved.events = true;
  world.evaluatorDown = false;
  world.blockedShare = receivers?.blockedShare ?? 0;
  world.softShare = 0;
  world.deferredShare = 0;
  world.override = null;
  world.latest?.beginDay(world.today);
  for (const [n, event] of world.events.entries()) {
    if (event.kind === "complaints") {
      const at = day * BINS_PER_DAY + Math.floor((event.at_hour ?? NOON) * BINS_PER_HOUR);
      if (day === event.day) agenda.add(at, "complaint", at, FIRST_EVENT - n, at, event.count);
    } else if (day >= event.from_day && day < event.to_day) {
      if (event.kind === "evaluator_down") world.evaluatorDown = true;
      else if (event.kind === "blocked") world.blockedShare = Math.max(world.blockedShare, event.share);
      else if (event.kind === "soft") world.softShare = event.share;
      else if (event.kind === "deferred") world.deferredShare = event.share;
      else world.override = overrideOf(event);
    }
  }
}

/** After the turn of the day: who moves here sends what today's cap has room for. */
function beginDemand({ workloads, allowance, run }: World, day: number): void {
  for (const workload of workloads) {
    workload.begin(day, day % 7, allowance.capDay);
    const elsewhere = workload.elsewhere();
    if (elsewhere !== null) run.elsewhere = (run.elsewhere ?? 0) + elsewhere;
  }
}

function overrideOf(event: Extract<ScenarioEvent, { kind: "override" }>): Override {
  return {
    minimum: event.minimum ?? null,
    maximum: event.maximum ?? null,
    fixed: event.fixed ?? null,
    fixedHour: event.fixed_hour ?? null,
    until: FIRST_MS + event.to_day * DAY_MS,
    by: "scenario",
    reason: "scenario",
  };
}

function evaluateNow(world: World, bin: number): void {
  const { policy, scenario, state, allowance, run, today, override } = world;
  const now = timeOf(bin);
  if (!world.evaluatorDown && isWorthALook(world, now)) {
    // a look within an hour opens no window: the mail before it opens the one of the next
    if (opensAWindow(world, now)) world.moved.any = false;
    world.moved.events = false;
    world.latest?.shareOut();
    const done = evaluate(policy, scenario.plan, state, world.recent, override, now);
    world.state = done.state;
    if (done.changed) noteChange(world, bin, state, done.reason, done.harm);
  } else if (!world.evaluatorDown && opensAWindow(world, now)) {
    world.moved.any = false;
    world.state = watchOn(state, world.recent, now);
  }
  if (bin % BINS_PER_DAY === 0 || world.state !== state) {
    const caps = effective(policy, scenario.plan, world.state, override, now);
    allowance.capDay = caps.day;
    allowance.capHour = caps.hour;
    allowance.reservedShare = reservedShareOf(world.state, caps);
    const { target } = scenario;
    if (target !== undefined && run.daysToTarget === null && caps.day >= target)
      run.daysToTarget = bin / BINS_PER_DAY;
  }
  today.cap = Math.max(today.cap, allowance.capDay);
}

/**
 * No more looks than may find something: mail alone finds nothing but what the shares of sources make of it.
 */
function isWorthALook(world: World, now: number): boolean {
  return world.moved.events || (opensAWindow(world, now) && world.recent.some(hasSources));
}

function hasSources({ sources }: SimulatedDay): boolean {
  return sources.length > 0;
}

/** The first look of an hour after some mail. */
function opensAWindow({ moved, state }: World, now: number): boolean {
  return moved.any && state.hours.at(-1)?.hour !== Math.floor(now / HOUR_MS);
}

function noteChange(world: World, bin: number, before: CapState, reason: string, harm: Harm | null): void {
  const { run, state, badBegins } = world;
  const { capDay, capHour, level } = state;
  run.changes.push({ bin, capDay, capHour, level, reason, harm });
  if (SEVERITY[level] > SEVERITY[before.level]) {
    if (bin < badBegins) run.falselyHeld = true;
    else world.reactedAt ??= bin;
  }
  if (level === "paused") world.wasPaused = true;
  const direction = Math.sign(capDay - before.capDay);
  if (direction === 0) return;
  if (world.direction !== 0 && direction !== world.direction) run.turns++;
  world.direction = direction;
}

function arrive(world: World, bin: number): void {
  const { workloads, arrived, today, ledger } = world;
  const binOfDay = bin % BINS_PER_DAY;
  arrived.transactional = arrived.automation = 0;
  let isAdvanced = false;
  for (let stream = 0; stream < workloads.length; stream++) {
    const workload = workloads[stream] as Workload;
    const count = workload.arrivals(binOfDay);
    if (count === 0) continue;
    today.demand += count;
    world.wanted[stream] = (world.wanted[stream] as number) + count;
    if (!isAdvanced) advance(ledger, timeOf(bin));
    isAdvanced = true;
    if (workload.bulk) arriveBulk(world, bin, stream, count);
    else arriveTransactional(world, bin, stream, count);
  }
  if (world.lines.month.waiting > 0) leaveMonth(world, bin);
}

/** What the quota has no room for is refused: the caller is told, and the mail never exists. */
function arriveTransactional(world: World, bin: number, stream: number, count: number): void {
  const { ledger } = world;
  const { dayLimit, monthLimit } = world.allowance;
  const left = Math.min(monthLimit - ledger.monthUsed, (dayLimit ?? Infinity) - ledger.dayUsed);
  const taken = Math.max(0, Math.min(count, left));
  ledger.monthUsed += taken;
  ledger.dayUsed += taken;
  world.run.refused += count - taken;
  world.latest?.note(stream, taken);
  world.arrived.transactional += taken;
  world.lines.transactional.join(bin, stream, taken);
}

/** The engine's own mail waits for the month to turn. */
function arriveBulk(world: World, bin: number, stream: number, count: number): void {
  const { ledger, allowance, lines, arrived, latest } = world;
  latest?.note(stream, count);
  const taken =
    lines.month.waiting > 0 ? 0 : Math.min(count, Math.max(0, allowance.monthLimit - ledger.monthUsed));
  ledger.monthUsed += taken;
  arrived.automation += taken;
  lines.automation.join(bin, stream, taken);
  lines.month.join(bin, stream, count - taken);
}

function leaveMonth({ ledger, allowance, lines }: World, bin: number): void {
  advance(ledger, timeOf(bin));
  const room = allowance.monthLimit - ledger.monthUsed;
  if (room <= 0) return;
  ledger.monthUsed += lines.month.serve(room, (count, stream, arrived) =>
    lines.automation.join(arrived, stream, count),
  );
}

function release(world: World, bin: number): void {
  const { lines, arrived, ledger, today, run } = world;
  const { transactional, automation, month } = lines;
  if (transactional.waiting + automation.waiting > 0) {
    advance(ledger, timeOf(bin));
    serve(world, bin, transactional, false);
    if (world.allowance.reservedShare < 1) serve(world, bin, automation, true);
  }
  today.delayed +=
    Math.min(arrived.transactional, transactional.waiting) + Math.min(arrived.automation, automation.waiting);
  today.waiting = transactional.waiting + automation.waiting + month.waiting;
  if (today.waiting > run.waitingMost) run.waitingMost = today.waiting;
}

function serve(world: World, bin: number, line: SimulatedBacklog, bulk: boolean): void {
  if (line.waiting === 0) return;
  const stream = bulk ? BULK_STREAM : TRANSACTIONAL_STREAM;
  const room = roomNow(world.ledger, world.allowance, stream);
  if (room === 0) return;
  const served = line.serve(room, (count, stream, arrived) => send(world, bin, stream, arrived, count));
  charge(world.ledger, stream, served);
}

/** Handed to the receivers, who answer now or tell it to come back. */
function send(world: World, bin: number, stream: number, arrived: number, count: number): void {
  const { today, random, run, receivers, seen } = world;
  const workload = world.workloads[stream] as Workload;
  const throttled = receivers?.throttle(count) ?? 0;
  const deferred = Math.max(throttled, binomial(random, count, world.deferredShare));
  today.used += count;
  today.attempted += count;
  if (workload.bulk) today.bulk.attempted += count;
  today.throttled += deferred;
  seen.volume += count;
  run.sent += count;
  world.moved.any = true;
  if (workload.bad) {
    run.badSent += count;
    if (world.reactedAt === null) run.badBeforeFreeze += count;
    if (!world.wasPaused) run.badBeforePause += count;
  } else {
    run.goodSent += count;
    run.goodThrottled += deferred;
  }
  if (deferred > 0) {
    const retryAt = bin + 1 + binsAfter({ median_hours: world.retryMedian, spread: RETRY_SPREAD }, random);
    world.agenda.add(retryAt, "answer", bin, stream, arrived, deferred);
  }
  answer(world, bin, stream, arrived, count - deferred);
}

/** What becomes of mail that receivers have an answer for. */
function answer(world: World, bin: number, stream: number, arrived: number, count: number): void {
  const { today, random, reports, run, seen, agenda } = world;
  const workload = world.workloads[stream] as Workload;
  const { bounceAfter, complaintAfter, sources, bulk } = workload;
  const blocked = binomial(random, count, world.blockedShare);
  const soft = world.softShare > 0 ? binomial(random, count - blocked, world.softShare) : 0;
  const bounced = binomial(random, count - blocked - soft, workload.bounce);
  const delivered = count - blocked - soft - (bounceAfter === null ? bounced : 0);
  const spamShare = world.receivers?.spamShare ?? 0;
  const inboxed = delivered - binomial(random, delivered, spamShare);
  const fblDelivered = binomial(random, delivered, workload.fblShare);
  // nobody complains about what the spam folder holds
  const complained = binomial(random, fblDelivered, workload.complaint * (1 - spamShare));
  const atOnce = bounceAfter === null ? bounced : 0;
  countAnswers(today, blocked, delivered, fblDelivered, atOnce);
  if (bulk) countAnswers(today.bulk, blocked, delivered, fblDelivered, atOnce);
  if (soft > 0) today.soft = (today.soft ?? 0) + soft;
  for (const [name, share] of complainingOf(world, workload))
    sourceIn(today, name).fblDelivered += fblDelivered * share;
  seen.bounced += bounced;
  seen.inboxed += inboxed;
  seen.complained += inboxed * workload.complaint;
  if (bounceAfter === null) {
    spread(reports, bounced, sources, (name, many) => {
      sourceIn(today, name).bounced += many;
    });
  } else
    for (let n = 0; n < bounced; n++)
      agenda.add(bin + binsAfter(bounceAfter, reports), "bounce", bin, stream, arrived, 1);
  for (let n = 0; n < complained; n++)
    agenda.add(bin + binsAfter(complaintAfter, reports), "complaint", bin, stream, arrived, 1);
  world.moved.any = true;
  if (bounceAfter === null && bounced > 0) world.moved.events = true;
  if (workload.bad) {
    run.badBounced += bounced;
    return;
  }
  run.goodInboxed += inboxed;
  run.goodBlocked += blocked;
  const delays = bulk ? run.delays.automation : run.delays.transactional;
  delays[bin - arrived] = (delays[bin - arrived] as number) + count;
}

function countAnswers(
  counts: BulkCounts,
  blocked: number,
  delivered: number,
  fblDelivered: number,
  bounced: number,
): void {
  counts.blocked += blocked;
  counts.delivered += delivered;
  counts.fblDelivered += fblDelivered;
  counts.bounced += bounced;
}

/** What is heard now of earlier mail counts on the day of its send. */
function hear(world: World, bin: number): void {
  if (!world.agenda.has(bin)) return;
  world.agenda.each(bin, (kind, sent, stream, arrived, count) => {
    if (kind === "answer") return answer(world, bin, stream, arrived, count);
    const day = world.run.days[Math.floor(sent / BINS_PER_DAY)] as SimulatedDay;
    const isBulk = world.workloads[stream]?.bulk ?? false;
    world.moved.any = world.moved.events = true;
    if (kind === "complaint") {
      day.complained += count;
      if (isBulk) day.bulk.complained += count;
      const shares = complainingOf(world, world.workloads[stream] ?? null, stream);
      spread(world.reports, count, shares, (name, many) => {
        sourceIn(day, name).complained += many;
      });
      return;
    }
    for (const counts of isBulk ? [day, day.bulk] : [day]) {
      counts.bounced += count;
      counts.lateBounced = (counts.lateBounced ?? 0) + count;
    }
    spread(world.reports, count, (world.workloads[stream] as Workload).sources, (name, many) => {
      sourceIn(day, name).bounced += many;
    });
  });
}

/**
 * Where complaints come from: of an event its own source, of mail with sources those, of other mail the
 * providers.
 */
function complainingOf(
  { events, providers }: World,
  workload: Workload | null,
  stream = 0,
): readonly SourceShare[] {
  if (workload) return workload.sources.length > 0 ? workload.sources : providers;
  const event = events[FIRST_EVENT - stream];
  return [[event?.kind === "complaints" ? (event.source ?? FORGED) : FORGED, 1]];
}

/** So many among the sources, each by its share; what is left has no known one. */
function spread(
  random: Random,
  count: number,
  sources: readonly SourceShare[],
  visit: (name: string, many: number) => void,
): void {
  let [left, open] = [count, 1];
  for (const [name, share] of sources) {
    if (left === 0) return;
    const many = share >= open ? left : binomial(random, left, share / open);
    left -= many;
    open -= share;
    if (many > 0) visit(name, many);
  }
}

function sourceIn(day: SimulatedDay, name: string): SourceCounts {
  const known = day.sources.find((one) => one.name === name);
  if (known) return known;
  const made = { name, attempted: 0, bounced: 0, complained: 0, fblDelivered: 0 };
  day.sources.push(made);
  return made;
}

/** When the counts alone prove harm, whether or not anyone evaluates them. */
function noticeProof(world: World, bin: number): void {
  if (world.provenAt !== null || !world.moved.events || bin < world.badBegins) return;
  const { policy, state, recent } = world;
  const now = timeOf(bin);
  const days = weighed(policy, watchOf(policy, state), recent, now);
  if (harmIn(policy, state, days, now)) world.provenAt = bin;
}

function finish(world: World, end: number): Run {
  const { policy, run, lines, workloads, wanted, provenAt, reactedAt } = world;
  for (const kind of ["transactional", "automation", "month"] as const) {
    const delays = run.delays[kind === "month" ? "automation" : kind];
    lines[kind].serve(lines[kind].waiting, (count, stream, arrived) => {
      if (workloads[stream]?.bad) run.badWaiting = (run.badWaiting ?? 0) + count;
      else delays[end - arrived] = (delays[end - arrived] as number) + count;
    });
  }
  for (const kind of ["transactional", "automation"] as const) {
    const delays = run.delays[kind];
    run.delays[kind] = delays.slice(0, delays.findLastIndex((count) => count > 0) + 1);
  }
  if (provenAt !== null && reactedAt !== null) run.reactionMinutes = (reactedAt - provenAt) * BIN_MINUTES;
  run.bursts = suspiciousBursts(policy, run.days);
  run.isOverLimit = isOverLimit(policy, workloads, wanted);
  run.falselyHeld &&= !run.isOverLimit;
  return run;
}

/** The first bin in which anything bad may be sent; infinite for a workspace that is good throughout. */
function firstBadBin({ streams }: SimulatedSender): number {
  const first = streams.filter(({ bad }) => bad).map(({ from_day = 0 }) => from_day);
  return Math.min(...first) * BINS_PER_DAY;
}

function timeOf(bin: number): number {
  return FIRST_MS + bin * BIN_MS;
}

function dayBegun(day: string): SimulatedDay {
  return {
    day,
    attempted: 0,
    delivered: 0,
    bounced: 0,
    lateBounced: 0,
    blocked: 0,
    complained: 0,
    fblDelivered: 0,
    delayed: 0,
    used: 0,
    bulk: {
      ...{ attempted: 0, delivered: 0, bounced: 0, lateBounced: 0 },
      ...{ blocked: 0, complained: 0, fblDelivered: 0 },
    },
    sources: [],
    cap: 0,
    demand: 0,
    waiting: 0,
    throttled: 0,
    reputation: 1,
  };
}
