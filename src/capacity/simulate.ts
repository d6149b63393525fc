/**
 * One simulated workspace: its mail arrives bin by bin, waits for the caps, goes, bounces and is complained about, and
 * the policy moves its caps. The windows are the ledger of production (rules/ledger.ts) and the policy is the policy of
 * production, on a clock of its own. Mail is counted, never held one by one, so that 60 days take milliseconds.
 *
 * Each bin: evaluate what is known, let mail arrive, let transactional mail go and then automation mail, oldest first,
 * and count what became of it, with what comes late of earlier mail.
 */

import { DAY_MS } from "../clock.ts";
import { type Allowance, advance, charge, emptyLedger, type Ledger, roomNow } from "../rules/ledger.ts";
import { RESERVED_SHARE } from "../rules/plans.ts";
import { SimulatedBacklog } from "./line.ts";
import { dayOf, findHarm } from "./policy/evidence.ts";
import {
  type CapState,
  COUNTED_DAYS_MAX,
  type DayCounts,
  effective,
  evaluate,
  type Level,
  type Policy,
  startState,
} from "./policy.ts";
import { binomial, type Random, randomOf } from "./random.ts";
import { BINS_PER_DAY, binsAfter, type Scenario, type Workload, workloadsOf } from "./workload.ts";

export const BIN_MINUTES = 1_440 / BINS_PER_DAY;
const BIN_MS = DAY_MS / BINS_PER_DAY;
/** A Monday. */
const FIRST_MS = Date.UTC(2026, 0, 5);
const SEED_STRIDE = 0x9e3779b1;
const SEVERITY: Record<Level, number> = { normal: 0, frozen: 1, shrunk: 2, paused: 3 };

export type SimulatedCapChange = {
  bin: number;
  capDay: number;
  capHour: number;
  level: Level;
  reason: string;
};

/** A day as a chart shows it: the largest cap in force, what arrived, and what waited when it ended. */
export type SimulatedDay = DayCounts & { cap: number; demand: number; waiting: number };

export type Run = {
  seed: number;
  days: SimulatedDay[];
  changes: SimulatedCapChange[];
  /** Good mail by how many bins it waited; mail that still waits at the end, by how long it has. */
  delays: { transactional: Float64Array; automation: Float64Array };
  sent: number;
  waitingMost: number;
  /** Days until the cap was the target; null: never. */
  daysToTarget: number | null;
  badSent: number;
  badBounced: number;
  /** Bad mail that had gone when the policy took its first step, and when it paused automation mail; or all of it. */
  badBeforeFreeze: number;
  badBeforePause: number;
  /** From the counts that prove harm to the first step, in minutes; null: nothing bad was proven. */
  reactionMinutes: number | null;
  /** A step was taken against the workspace before anything bad was sent. */
  falselyHeld: boolean;
  /** How often the cap turned from rising to falling or back. */
  turns: number;
};

type World = {
  policy: Policy;
  scenario: Scenario;
  workloads: Workload[];
  random: Random;
  ledger: Ledger;
  allowance: Allowance;
  state: CapState;
  bulkPaused: boolean;
  /** Up to 30 days, today last. */
  recent: DayCounts[];
  today: SimulatedDay;
  /** Counts moved since the last evaluation; without that it would find the same. */
  news: boolean;
  evaluatorDown: boolean;
  blockedShare: number;
  lines: { transactional: SimulatedBacklog; automation: SimulatedBacklog };
  /** In this bin. */
  arrived: { transactional: number; automation: number };
  late: { bounces: Uint32Array; complaints: Uint32Array };
  badBegins: number;
  provenAt: number | null;
  reactedAt: number | null;
  wasPaused: boolean;
  direction: number;
  run: Run;
};

export function simulate(policy: Policy, scenario: Scenario, days: number, seed: number): Run {
  const world = worldOf(policy, scenario, days, seed);
  for (let day = 0; day < days; day++) {
    beginDay(world, day);
    for (let bin = day * BINS_PER_DAY; bin < (day + 1) * BINS_PER_DAY; bin++) {
      evaluateNow(world, bin);
      arrive(world, bin);
      release(world, bin);
      countLate(world, bin);
      noticeProof(world, bin);
    }
  }
  return finish(world, days * BINS_PER_DAY);
}

function worldOf(policy: Policy, scenario: Scenario, days: number, seed: number): World {
  const random = randomOf(Math.imul(seed, SEED_STRIDE));
  const bins = days * BINS_PER_DAY;
  const state = startState(policy, scenario.plan);
  if (scenario.start_cap !== undefined) {
    state.capDay = scenario.start_cap;
    state.capHour = effective(policy, scenario.plan, state, null, FIRST_MS).hour;
  }
  const workloads = workloadsOf(scenario, random);
  const run: Run = {
    seed,
    days: [],
    changes: [],
    delays: { transactional: new Float64Array(bins + 1), automation: new Float64Array(bins + 1) },
    sent: 0,
    waitingMost: 0,
    daysToTarget: null,
    badSent: 0,
    badBounced: 0,
    badBeforeFreeze: 0,
    badBeforePause: 0,
    reactionMinutes: null,
    falselyHeld: false,
    turns: 0,
  };
  return {
    policy,
    scenario,
    workloads,
    random,
    ledger: emptyLedger(),
    allowance: {
      dayLimit: null,
      monthLimit: Number.POSITIVE_INFINITY,
      capDay: 0,
      capHour: 0,
      reservedShare: RESERVED_SHARE,
    },
    state,
    bulkPaused: false,
    recent: [],
    today: dayBegun(""),
    news: true,
    evaluatorDown: false,
    blockedShare: 0,
    lines: { transactional: new SimulatedBacklog(), automation: new SimulatedBacklog() },
    arrived: { transactional: 0, automation: 0 },
    late: { bounces: new Uint32Array(bins), complaints: new Uint32Array(bins) },
    badBegins: firstBadBin(scenario),
    provenAt: null,
    reactedAt: null,
    wasPaused: false,
    direction: 0,
    run,
  };
}

function beginDay(world: World, day: number): void {
  const { scenario, recent, run, late } = world;
  world.today = dayBegun(dayOf(FIRST_MS + day * DAY_MS));
  run.days.push(world.today);
  recent.push(world.today);
  if (recent.length > COUNTED_DAYS_MAX) recent.shift();
  world.news = true;
  for (const workload of world.workloads) workload.begin(day, day % 7);

  world.evaluatorDown = false;
  world.blockedShare = 0;
  for (const event of scenario.events ?? []) {
    if (event.kind === "complaints") {
      const noon = day * BINS_PER_DAY + BINS_PER_DAY / 2;
      if (day === event.day) late.complaints[noon] = (late.complaints[noon] as number) + event.count;
    } else if (day >= event.from_day && day < event.to_day) {
      if (event.kind === "evaluator_down") world.evaluatorDown = true;
      else world.blockedShare = event.share;
    }
  }
}

function evaluateNow(world: World, bin: number): void {
  const { policy, scenario, state, allowance, run, today } = world;
  const now = timeOf(bin);
  if (world.news && !world.evaluatorDown) {
    world.news = false;
    const { state: next, changed, reason } = evaluate(policy, scenario.plan, state, world.recent, null, now);
    world.state = next;
    if (changed) noteChange(world, bin, state, reason);
  }
  if (bin === 0 || world.state !== state) {
    const caps = effective(policy, scenario.plan, world.state, null, now);
    allowance.capDay = caps.day;
    allowance.capHour = caps.hour;
    world.bulkPaused = caps.bulkPaused;
    const { target } = scenario;
    if (target !== undefined && run.daysToTarget === null && caps.day >= target)
      run.daysToTarget = bin / BINS_PER_DAY;
  }
  today.cap = Math.max(today.cap, allowance.capDay);
}

function noteChange(world: World, bin: number, before: CapState, reason: string): void {
  const { run, state, badBegins } = world;
  const { capDay, capHour, level } = state;
  run.changes.push({ bin, capDay, capHour, level, reason });
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
  const { workloads, lines, arrived, today } = world;
  const binOfDay = bin % BINS_PER_DAY;
  arrived.transactional = arrived.automation = 0;
  for (let stream = 0; stream < workloads.length; stream++) {
    const workload = workloads[stream] as Workload;
    const count = workload.arrivals(binOfDay);
    if (count === 0) continue;
    const kind = workload.bulk ? "automation" : "transactional";
    today.demand += count;
    arrived[kind] += count;
    lines[kind].join(bin, stream, count);
  }
}

function release(world: World, bin: number): void {
  const { lines, arrived, ledger, today, run } = world;
  const { transactional, automation } = lines;
  if (transactional.waiting + automation.waiting > 0) {
    advance(ledger, timeOf(bin));
    serve(world, bin, transactional, false);
    if (!world.bulkPaused) serve(world, bin, automation, true);
  }
  today.delayed +=
    Math.min(arrived.transactional, transactional.waiting) + Math.min(arrived.automation, automation.waiting);
  today.waiting = transactional.waiting + automation.waiting;
  run.waitingMost = Math.max(run.waitingMost, today.waiting);
}

function serve(world: World, bin: number, line: SimulatedBacklog, bulk: boolean): void {
  if (line.waiting === 0) return;
  const room = roomNow(world.ledger, world.allowance, bulk);
  if (room === 0) return;
  const delays = bulk ? world.run.delays.automation : world.run.delays.transactional;
  const served = line.serve(room, (count, stream, arrived) => {
    const workload = world.workloads[stream] as Workload;
    if (!workload.bad) delays[bin - arrived] = (delays[bin - arrived] as number) + count;
    send(world, bin, workload, count);
  });
  charge(world.ledger, bulk, served);
}

function send(world: World, bin: number, workload: Workload, count: number): void {
  const { today, random, run, late } = world;
  const { bounceAfter, complaintAfter } = workload;
  const blocked = binomial(random, count, world.blockedShare);
  const bounced = binomial(random, count - blocked, workload.bounce);
  const delivered = count - blocked - (bounceAfter === null ? bounced : 0);
  const fblDelivered = binomial(random, delivered, workload.fblShare);
  const complained = binomial(random, fblDelivered, workload.complaint);
  today.used += count;
  today.attempted += count;
  today.blocked += blocked;
  today.delivered += delivered;
  today.fblDelivered += fblDelivered;
  if (bounceAfter === null) today.bounced += bounced;
  else for (let n = 0; n < bounced; n++) mark(late.bounces, bin + binsAfter(bounceAfter, random));
  for (let n = 0; n < complained; n++) mark(late.complaints, bin + binsAfter(complaintAfter, random));
  run.sent += count;
  world.news = true;
  if (!workload.bad) return;
  run.badSent += count;
  run.badBounced += bounced;
  if (world.reactedAt === null) run.badBeforeFreeze += count;
  if (!world.wasPaused) run.badBeforePause += count;
}

/** Outcomes later than the simulated time are never known. */
function mark(late: Uint32Array, bin: number): void {
  if (bin < late.length) late[bin] = (late[bin] as number) + 1;
}

function countLate(world: World, bin: number): void {
  const bounces = world.late.bounces[bin] as number;
  const complaints = world.late.complaints[bin] as number;
  if (bounces + complaints === 0) return;
  world.today.bounced += bounces;
  world.today.complained += complaints;
  world.news = true;
}

/** When the counts alone prove harm, whether or not anyone evaluates them. */
function noticeProof(world: World, bin: number): void {
  if (world.provenAt !== null || !world.news || bin < world.badBegins) return;
  if (findHarm(world.policy, world.recent, world.today.day, world.state.judged)) world.provenAt = bin;
}

function finish(world: World, end: number): Run {
  const { run, lines, workloads, provenAt, reactedAt } = world;
  for (const kind of ["transactional", "automation"] as const) {
    const delays = run.delays[kind];
    lines[kind].serve(lines[kind].waiting, (count, stream, arrived) => {
      if (!workloads[stream]?.bad) delays[end - arrived] = (delays[end - arrived] as number) + count;
    });
    run.delays[kind] = delays.slice(0, delays.findLastIndex((count) => count > 0) + 1);
  }
  if (provenAt !== null && reactedAt !== null) run.reactionMinutes = (reactedAt - provenAt) * BIN_MINUTES;
  return run;
}

/** The first bin in which anything bad may be sent or said; infinite for a workspace that is good throughout. */
function firstBadBin({ streams, events = [] }: Scenario): number {
  const first = [
    ...streams.filter(({ bad }) => bad).map(({ from_day = 0 }) => from_day),
    ...events.flatMap((event) => (event.kind === "complaints" ? [event.day] : [])),
  ];
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
    blocked: 0,
    complained: 0,
    fblDelivered: 0,
    delayed: 0,
    used: 0,
    cap: 0,
    demand: 0,
    waiting: 0,
  };
}
