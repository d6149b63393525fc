/** The policy run over days to come, as they follow from the last ones. Pure, like the policy itself. */

import { DAY_MS } from "../clock.ts";
import { keysOf, recordOf } from "../names.ts";
import type { Plan } from "../rules/plans.ts";
import { dayOf, dayPlus } from "./policy/evidence.ts";
import { weighed } from "./policy/sources.ts";
import {
  ALL_HEARD,
  type CapState,
  COUNTED_DAYS_MAX,
  type DayCounts,
  type Effective,
  effective,
  evaluate,
  type Heard,
  type Level,
  type Override,
  type Policy,
  reservedShareOf,
  watchOf,
} from "./policy.ts";

const RECENT_DAYS = 7;
const MORNING_MS = 600_000;

export type ForecastDay = {
  day: string;
  /** If demand stays as it was. */
  likely: Ahead;
  /** If everything the cap lets through is asked for: the fastest that it can grow, or be cut. */
  most: Ahead;
};
export type Ahead = {
  capDay: number;
  capHour: number;
  level: Level;
  used: number;
  /** What keeps mail back that is asked for; null: nothing. */
  heldBy: "cap" | "level" | "quota" | null;
  reason: string | null;
};

/** What is left of the quota, and what there is of it. */
export type QuotaAhead = { monthLeft: number; monthLimit: number; dayLimit: number | null };
const NO_QUOTA: QuotaAhead = { monthLeft: Infinity, monthLimit: Infinity, dayLimit: null };

/**
 * The days after today: what the caps will be if the mail goes on as healthy, or ill, as in the last week.
 */
export function forecast(
  policy: Policy,
  plan: Plan,
  state: CapState,
  days: readonly DayCounts[],
  override: Override | null,
  now: number,
  horizonDays: number,
  { quota = NO_QUOTA, heard = ALL_HEARD }: { quota?: QuotaAhead; heard?: Heard } = {},
): ForecastDay[] {
  const from = {
    quota,
    heard,
    policy,
    plan,
    state,
    days,
    override,
    now,
    horizonDays,
    pattern: patternOf(weighed(policy, watchOf(policy, state), days, now), dayOf(now)),
  };
  const likely = ahead(from, from.pattern.demand);
  const most = ahead(from, Number.POSITIVE_INFINITY);
  return likely.map((one, n) => ({
    day: dayPlus(dayOf(now), n + 1),
    likely: one,
    most: most[n] as Ahead,
  }));
}

/** Nothing is known of a workspace that has sent nothing. */
const FINE = {
  delivered: 1,
  bounced: 0,
  blocked: 0,
  soft: 0,
  throttled: 0,
  complained: 0,
  fblDelivered: 0,
};

/**
 * Of the last days that had mail: how much was asked for, and the shares of what became of it, without what
 * strangers did.
 */
type DemandPattern = {
  demand: number;
  /** Of the demand, mail that is not transactional. */
  bulkShare: number;
  shares: Record<keyof typeof FINE, number>;
};

function patternOf(days: readonly DayCounts[], today: string): DemandPattern {
  const recent = days.filter(({ day }) => day < today && day >= dayPlus(today, -RECENT_DAYS));
  const known = recent.length > 0 ? recent : days.slice(-1);
  const total = (name: keyof typeof FINE | "attempted" | "used") =>
    known.reduce((sum, one) => sum + (one[name] ?? 0), 0);
  const attempted = total("attempted");
  if (attempted === 0) return { demand: 0, bulkShare: 0, shares: FINE };
  // a day without a row is a day without mail, but for those before the first
  const span = known[0] ? Math.max(1, Math.min(RECENT_DAYS, daysBetween(known[0].day, today))) : 1;
  const waited = known.at(-1)?.delayed ?? 0;
  const shares = recordOf(keysOf(FINE), (name) => total(name) / attempted);
  return { demand: (total("used") + waited) / span, bulkShare: bulkShareOf(days), shares };
}

/** Of the days on which such mail could go: while it is paused its share says nothing. */
function bulkShareOf(days: readonly DayCounts[]): number {
  const open = days.filter(({ usedBulk = 0 }) => usedBulk > 0);
  const used = open.reduce((sum, one) => sum + one.used, 0);
  return used === 0 ? 0 : open.reduce((sum, { usedBulk = 0 }) => sum + usedBulk, 0) / used;
}

type Outset = {
  policy: Policy;
  plan: Plan;
  state: CapState;
  days: readonly DayCounts[];
  override: Override | null;
  now: number;
  horizonDays: number;
  pattern: DemandPattern;
  quota: QuotaAhead;
  heard: Heard;
};

function ahead(
  { policy, plan, days, override, now, horizonDays, pattern, heard, quota, ...from }: Outset,
  demand: number,
): Ahead[] {
  const today = dayOf(now);
  const known = days.slice(-COUNTED_DAYS_MAX);
  let { state } = from;
  let { monthLeft } = quota;
  if (demand === Number.POSITIVE_INFINITY) {
    // whoever would use everything uses the rest of today as well
    const whole = dayOfMail(today, effective(policy, plan, state, override, now).day, 0, pattern);
    const counted = known.at(-1);
    if (counted?.day !== today) known.push(whole);
    else if (counted.used < whole.used) known[known.length - 1] = whole;
  }
  const path: Ahead[] = [];
  for (let n = 1; n <= horizonDays; n++) {
    const at = Date.parse(today) + n * DAY_MS + MORNING_MS;
    const done = evaluate(policy, plan, state, known, override, at, heard);
    state = done.state;
    const caps = effective(policy, plan, state, override, at);
    if (isFirstOfMonth(at)) monthLeft = quota.monthLimit;
    const allowed = Math.min(monthLeft, quota.dayLimit ?? Infinity);
    const goes = goingOf(demand, pattern.bulkShare, state, caps);
    const used = Math.max(0, Math.min(goes.used, allowed));
    monthLeft -= used;
    const waits = Number.isFinite(demand) ? Math.max(0, Math.round(demand) - used) : 0;
    path.push({
      capDay: caps.day,
      capHour: caps.hour,
      level: state.level,
      used,
      heldBy: used < goes.used ? "quota" : goes.heldBy,
      reason: done.changed ? done.reason : null,
    });
    known.push(dayOfMail(dayOf(at), used, waits, pattern));
    if (known.length > COUNTED_DAYS_MAX) known.shift();
  }
  return path;
}

/** Of a day's demand: a pause leaves transactional mail, a probe a little more. */
function goingOf(
  demand: number,
  bulkShare: number,
  state: CapState,
  caps: Effective,
): { used: number; heldBy: "cap" | "level" | null } {
  // what would ask for everything would be transactional
  if (!Number.isFinite(demand)) return { used: caps.day, heldBy: null };
  const asked = Math.round(demand);
  const bulk = Math.round(demand * bulkShare);
  const room = Math.floor(caps.day * (1 - reservedShareOf(state, caps)));
  const isHeld = caps.bulkPaused || state.level === "probing";
  const used = Math.min(caps.day, isHeld ? asked - bulk + Math.min(bulk, room) : asked);
  if (used >= asked) return { used, heldBy: null };
  return { used, heldBy: used === caps.day ? "cap" : "level" };
}

function isFirstOfMonth(at: number): boolean {
  return new Date(at).getUTCDate() === 1;
}

function dayOfMail(day: string, used: number, delayed: number, { shares }: DemandPattern): DayCounts {
  const of = (share: number) => Math.round(used * share);
  return {
    day,
    attempted: used,
    used,
    delayed,
    delivered: of(shares.delivered),
    bounced: of(shares.bounced),
    blocked: of(shares.blocked),
    soft: of(shares.soft),
    throttled: of(shares.throttled),
    complained: of(shares.complained),
    fblDelivered: of(shares.fblDelivered),
  };
}

function daysBetween(from: string, to: string): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS);
}
