/**
 * What an operator's own counts say about senders and receivers: the prior of rates from how much workspaces
 * differ, and the numbers of the receivers' model from days on which mail was deferred or refused. What too
 * few days speak of is left as it is, and said.
 */
import type { CountedDay } from "../record/workspaces/caps.ts";
import type { Measure } from "./policy/evidence.ts";
import { percent } from "./policy/evidence.ts";
import { DEFAULT_RECEIVERS, RECEIVERS_MAX, type ReceiverModel } from "./receivers.ts";

const WORKSPACES_MIN = 5;
const MAIL_MIN = 100;
const WEIGHT_MIN = 10;
const WEIGHT_MAX = 20_000;
const RAMP_DAYS_MIN = 20;
const STEADY_RATIO_MAX = 1.2;
/** A day is throttled when so much more than usual is deferred. */
const THROTTLED_SHARE = 0.1;
const LISTED_SHARE = 0.3;
const LISTINGS_MIN = 3;

export type FittedPrior = { rate: number; weight: number };
export type Fitted = {
  workspaces: number;
  days: number;
  prior: Record<Measure, FittedPrior | null>;
  /** Only what differs from the model because of these counts. */
  receivers: Partial<ReceiverModel>;
  notes: string[];
};

export function fitCounts(counted: readonly CountedDay[]): Fitted {
  const histories = historiesOf(counted);
  const bounce = priorOf(histories, ({ bounced, attempted }) => [bounced, attempted]);
  const complaint = priorOf(histories, ({ complained, fblDelivered }) => [complained, fblDelivered]);
  const ramp = rampOf(histories);
  const listing = listingOf(histories);
  const notes = [
    noteOf(
      "bounce prior",
      bounce,
      ({ rate, weight }) => `${percent(rate)}, as heavy as ${Math.round(weight)} e-mails`,
    ),
    noteOf(
      "complaint prior",
      complaint,
      ({ rate, weight }) => `${percent(rate)}, as heavy as ${Math.round(weight)} e-mails`,
    ),
    noteOf("comfortable_ramp", ramp, ({ limit, isReached }) =>
      isReached
        ? `${limit} times the usual volume`
        : `nothing was throttled up to ${limit} times the usual volume${limit > DEFAULT_RECEIVERS.comfortable_ramp ? "" : ", as shipped"}`,
    ),
    noteOf(
      "blocklist_days and blocklist_share",
      listing,
      ({ blocklist_days, blocklist_share }) => `${blocklist_days} days, ${percent(blocklist_share)} of mail`,
    ),
  ];
  return {
    workspaces: histories.length,
    days: counted.length,
    prior: { bounce, complaint },
    receivers: { ...rampOfModel(ramp), ...listing },
    notes,
  };
}

function noteOf<T>(name: string, found: T | null, says: (found: T) => string): string {
  return found === null ? `${name}: too little is known, as shipped` : `${name}: ${says(found)}`;
}

type History = readonly CountedDay[];

function historiesOf(counted: readonly CountedDay[]): History[] {
  const histories = new Map<string, CountedDay[]>();
  for (const one of counted) histories.set(one.workspaceId, [...(histories.get(one.workspaceId) ?? []), one]);
  return [...histories.values()];
}

/** A Beta prior by its moments: how much rates differ beyond what chance makes them differ. */
function priorOf(
  histories: readonly History[],
  of: (day: CountedDay) => readonly [events: number, mail: number],
): FittedPrior | null {
  const totals = histories
    .map((days) => days.map(of).reduce(([a, b], [events, mail]) => [a + events, b + mail], [0, 0]))
    // events of mail that was counted elsewhere: no rate is above 1
    .map(([events = 0, mail = 0]) => [Math.min(events, mail), mail])
    .filter(([, mail = 0]) => mail >= MAIL_MIN) as [number, number][];
  if (totals.length < WORKSPACES_MIN) return null;
  const rate = mean(totals.map(([events, mail]) => events / mail));
  if (rate === 0) return null;
  const seen = mean(totals.map(([events, mail]) => (events / mail - rate) ** 2));
  const byChance = mean(totals.map(([, mail]) => (rate * (1 - rate)) / mail));
  const real = seen - byChance;
  const weight = real > 0 ? (rate * (1 - rate)) / real - 1 : WEIGHT_MAX;
  return { rate, weight: Math.min(WEIGHT_MAX, Math.max(WEIGHT_MIN, weight)) };
}

type Ramp = { limit: number; isReached: boolean };

/** Whoever never goes so far hears nothing of a limit: that is no reason to think it lower. */
function rampOfModel(ramp: Ramp | null): Partial<ReceiverModel> {
  if (ramp === null || (!ramp.isReached && ramp.limit <= DEFAULT_RECEIVERS.comfortable_ramp)) return {};
  return { comfortable_ramp: Math.min(RECEIVERS_MAX.comfortable_ramp, ramp.limit) };
}

/**
 * The most that a day's volume could be over the usual one before receivers deferred more than they do
 * anyway; or, where they never did, the most that there was.
 */
function rampOf(histories: readonly History[]): Ramp | null {
  const days = histories.flatMap(rampDays).sort((a, b) => a.ratio - b.ratio);
  const steady = days.filter(({ ratio }) => ratio <= STEADY_RATIO_MAX);
  const ramped = days.filter(({ ratio }) => ratio > STEADY_RATIO_MAX);
  if (ramped.length < RAMP_DAYS_MIN || steady.length < RAMP_DAYS_MIN) return null;
  const usually = mean(steady.map(({ deferred }) => deferred));
  // where the next five days are throttled on the whole: one day alone may be an outage
  const at = ramped.findIndex(
    (_, n) => mean(ramped.slice(n, n + 5).map(({ deferred }) => deferred)) > usually + THROTTLED_SHARE,
  );
  const limit = at < 0 ? ramped.at(-1)?.ratio : ramped[at]?.ratio;
  return limit === undefined ? null : { limit: Number(limit.toPrecision(2)), isReached: at >= 0 };
}

function rampDays(days: History): { ratio: number; deferred: number }[] {
  let usual = days[0]?.attempted ?? 0;
  return days.slice(1).flatMap(({ attempted, deferred }) => {
    const ratio = usual > 0 ? attempted / usual : 0;
    usual += (attempted - usual) * DEFAULT_RECEIVERS.learning;
    if (attempted < DEFAULT_RECEIVERS.unnoticed_per_day) return [];
    return [{ ratio, deferred: Math.min(1, deferred / attempted) }];
  });
}

function listingOf(
  histories: readonly History[],
): Pick<ReceiverModel, "blocklist_days" | "blocklist_share"> | null {
  const listings: { days: number; share: number }[] = [];
  for (const days of histories) {
    let shares: number[] = [];
    for (const { attempted, blocked } of [...days, { attempted: 1, blocked: 0 }]) {
      const share = attempted > 0 ? Math.min(1, blocked / attempted) : 0;
      if (share >= LISTED_SHARE) shares.push(share);
      else if (shares.length > 0) {
        listings.push({ days: shares.length, share: mean(shares) });
        shares = [];
      }
    }
  }
  if (listings.length < LISTINGS_MIN) return null;
  return {
    blocklist_days: Math.min(
      RECEIVERS_MAX.blocklist_days,
      Math.round(mean(listings.map(({ days }) => days))),
    ),
    blocklist_share: Number(mean(listings.map(({ share }) => share)).toPrecision(2)),
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
