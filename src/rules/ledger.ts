/**
 * The ledger of a workspace: what it has used of its quota (day, month) and of its sending caps (day, hour),
 * and how much waits. Pure: `advance` moves the windows to a time, `judge` decides one request and counts it.
 * The commit calls them on the locked row and so has the last word; lua/reserve.lua makes the same decision
 * beforehand, fast and without promise, and the fuzz tests hold both against each other.
 *
 * Quota is counted per recipient in `to` at acceptance and is all or nothing. Caps are counted per recipient
 * of the envelope when an e-mail may go; what finds no room waits, in order, and nothing overtakes what waits
 * in its stream. Counts of a kind of streams (all bulk mail) include those of the named ones, which are
 * counted a second time by name. Windows only move forward: under a clock that steps back the newest window
 * seen goes on. Only windows that are far in the future, where a wrong clock left them, come back; what was
 * used stays used.
 */

import { DAY_MS } from "../clock.ts";
import { CAP_MIN } from "./plans.ts";
import { BULK, BULK_STREAM, type MailStream, type StreamLimits, TRANSACTIONAL_STREAM } from "./stream.ts";

export const BUCKET_MS = 300_000;
/**
 * The present bucket and the 13 before it: a full hour wherever in its bucket a place was given, and the five
 * minutes for which it may wait to be used. So no hour at the receivers sees more than the cap.
 */
export const HOUR_BUCKETS = 14;
/**
 * How long a place in the caps may wait to be used. Caps are about what receivers see: of mail that was
 * granted hours ago and held up by an outage, no more than the caps may leave at once when that is over.
 */
export const GRANT_LIVES_MS = BUCKET_MS;
/** Whether a place of that time has lapsed: one that lies ahead was given before the clock was set back. */
export function isLapsed(grantedAt: number, now: number): boolean {
  return Math.abs(now - grantedAt) > GRANT_LIVES_MS;
}

/** A clock may step back this far and the windows stay. */
const STEP_BACK_MS_MAX = 2 * BUCKET_MS;

export type Ledger = {
  month: number;
  monthUsed: number;
  day: number;
  dayUsed: number;
  capDayUsed: number;
  capDayBulk: number;
  bucket: number;
  /** Slot `bucket % HOUR_BUCKETS`. */
  hourUsed: number[];
  hourBulk: number[];
  /** E-mails that wait for the caps, by the kind of their stream. */
  waiting: number;
  waitingBulk: number;
  /** What is used by, and waits in, the streams that have a name of their own. */
  streams: Record<string, StreamUse>;
  /** E-mails that had to wait for the caps today. */
  delayed: number;
  /** Recipients of the mail that was accepted today, by any way. */
  accepted: number;
  /** The day before this one, as it ended: for history. */
  closedDay: number;
  closedUsed: number;
  closedDelayed: number;
  closedAccepted: number;
};

export type StreamUse = { bulk: boolean; day: number; hour: number[]; waiting: number };

/** What a workspace may use. */
export type Allowance = {
  dayLimit: number | null;
  monthLimit: number;
  capDay: number;
  capHour: number;
  /** All of it: only transactional mail goes. */
  reservedShare: number;
  /** Of single streams, where they have any. */
  streams?: StreamLimits | undefined;
};

export type Ask = MailStream & {
  /** Recipients that count for the quota. */
  counted: number;
  countsDay: boolean;
  /** Envelope recipients of each e-mail that would go now, in order. */
  weights: readonly number[];
};

export type LedgerVerdict =
  | { kind: "granted"; go: number; waitsFor: WaitsFor | null }
  | { kind: "over"; period: "day" | "month"; limit: number; used: number };

/** The month holds back only mail of the engine's own accord; a caller's is refused. */
export type WaitsFor = "cap_hour" | "cap_day" | "quota_month";

export function emptyLedger(): Ledger {
  return {
    month: 0,
    monthUsed: 0,
    day: 0,
    dayUsed: 0,
    capDayUsed: 0,
    capDayBulk: 0,
    bucket: 0,
    hourUsed: new Array<number>(HOUR_BUCKETS).fill(0),
    hourBulk: new Array<number>(HOUR_BUCKETS).fill(0),
    waiting: 0,
    waitingBulk: 0,
    streams: {},
    delayed: 0,
    accepted: 0,
    closedDay: 0,
    closedUsed: 0,
    closedDelayed: 0,
    closedAccepted: 0,
  };
}

export function advance(ledger: Ledger, now: number): void {
  bringBack(ledger, now);
  const day = Math.floor(now / DAY_MS);
  if (day > ledger.day) {
    ledger.closedDay = ledger.day;
    ledger.closedUsed = ledger.capDayUsed;
    ledger.closedDelayed = ledger.delayed;
    ledger.closedAccepted = ledger.accepted;
    ledger.day = day;
    ledger.dayUsed = ledger.capDayUsed = ledger.capDayBulk = ledger.delayed = ledger.accepted = 0;
    for (const use of Object.values(ledger.streams)) use.day = 0;
    const month = monthOfDay(day);
    if (month > ledger.month) {
      ledger.month = month;
      ledger.monthUsed = 0;
    }
  }
  const bucket = Math.floor(now / BUCKET_MS);
  if (bucket > ledger.bucket) {
    for (let b = Math.max(ledger.bucket + 1, bucket - HOUR_BUCKETS + 1); b <= bucket; b++) {
      ledger.hourUsed[b % HOUR_BUCKETS] = 0;
      ledger.hourBulk[b % HOUR_BUCKETS] = 0;
      for (const use of Object.values(ledger.streams)) use.hour[b % HOUR_BUCKETS] = 0;
    }
    ledger.bucket = bucket;
    forgetIdle(ledger);
  }
}

function forgetIdle({ streams }: Ledger): void {
  for (const [name, { day, hour, waiting }] of Object.entries(streams))
    if (day === 0 && waiting === 0 && sum(hour) === 0) delete streams[name];
}

/** Decides one request and counts it; a refusal changes nothing. The ledger has been advanced. */
export function judge(ledger: Ledger, allowance: Allowance, ask: Ask): LedgerVerdict {
  const { counted } = ask;
  if (ledger.monthUsed + counted > allowance.monthLimit)
    return { kind: "over", period: "month", limit: allowance.monthLimit, used: ledger.monthUsed };
  if (ask.countsDay && allowance.dayLimit !== null && ledger.dayUsed + counted > allowance.dayLimit)
    return { kind: "over", period: "day", limit: allowance.dayLimit, used: ledger.dayUsed };

  ledger.monthUsed += counted;
  if (ask.countsDay) ledger.dayUsed += counted;

  const go = waitingIn(ledger, ask) > 0 ? 0 : take(ledger, allowance, ask, ask.weights);
  const left = ask.weights.length - go;
  if (left === 0) return { kind: "granted", go, waitsFor: null };
  addWaiting(ledger, ask, left);
  ledger.delayed += left;
  return { kind: "granted", go, waitsFor: fullest(ledger, allowance, ask) };
}

/** Whether it goes at once, waits, or is suppressed. */
export function countAccepted(ledger: Ledger, recipients: number): void {
  ledger.accepted += recipients;
}

/** What waits for nothing counts for the caps all the same: receivers see it. */
export function letPass(ledger: Ledger, stream: MailStream, weights: readonly number[]): LedgerVerdict {
  charge(ledger, stream, sum(weights));
  return { kind: "granted", go: weights.length, waitsFor: null };
}

/** By stream, of those with a name of their own. */
export function waitingByStream({ streams }: Ledger): Record<string, number> {
  return Object.fromEntries(Object.entries(streams).map(([name, { waiting }]) => [name, waiting]));
}

/** Mail that the month has no room for, and that must not be refused, waits for the month to turn. */
export function waitForMonth(
  ledger: Ledger,
  stream: MailStream,
  emails: number,
): { go: 0; waitsFor: "quota_month" } {
  addWaiting(ledger, stream, emails);
  return { go: 0, waitsFor: "quota_month" };
}

/** E-mails that wait in this stream alone. */
export function waitingIn(ledger: Ledger, { bulk, stream }: MailStream): number {
  if (stream !== "") return ledger.streams[stream]?.waiting ?? 0;
  let waiting = bulk ? ledger.waitingBulk : ledger.waiting;
  for (const name in ledger.streams) {
    const use = ledger.streams[name] as StreamUse;
    if (use.bulk === bulk) waiting -= use.waiting;
  }
  return Math.max(0, waiting);
}

/** Those in which mail may wait, in the order in which it finds room: transactional ones first. */
export function waitingStreams({ streams }: Ledger): MailStream[] {
  const named = Object.entries(streams)
    .filter(([, { waiting }]) => waiting > 0)
    .map(([stream, { bulk }]) => ({ bulk, stream }));
  const ofKind = (bulk: boolean) => named.filter((one) => one.bulk === bulk);
  return [TRANSACTIONAL_STREAM, ...ofKind(false), BULK_STREAM, ...ofKind(true)];
}

/** So many more wait, or fewer. */
export function addWaiting(ledger: Ledger, stream: MailStream, emails: number): void {
  if (stream.bulk) ledger.waitingBulk = Math.max(0, ledger.waitingBulk + emails);
  else ledger.waiting = Math.max(0, ledger.waiting + emails);
  const use = useOf(ledger, stream);
  if (use) use.waiting = Math.max(0, use.waiting + emails);
}

/** null: a built-in stream, which is counted by its kind alone. */
function useOf({ streams }: Ledger, { bulk, stream }: MailStream): StreamUse | null {
  if (stream === "") return null;
  const known = streams[stream];
  if (known) return known;
  const made = { bulk, day: 0, hour: new Array<number>(HOUR_BUCKETS).fill(0), waiting: 0 };
  streams[stream] = made;
  return made;
}

/**
 * Counts the longest run of e-mails, from the first on, for which there is room in the caps; says how many.
 */
export function take(
  ledger: Ledger,
  allowance: Allowance,
  stream: MailStream,
  weights: readonly number[],
): number {
  const room = roomNow(ledger, allowance, stream);
  let go = 0;
  let granted = 0;
  for (const weight of weights) {
    if (granted + weight > room) break;
    granted += weight;
    go++;
  }
  charge(ledger, stream, granted);
  return go;
}

export function roomNow(ledger: Ledger, allowance: Allowance, stream: MailStream): number {
  return Math.max(0, Math.min(roomInHour(ledger, allowance, stream), roomInDay(ledger, allowance, stream)));
}

/** Which cap holds mail of this stream back longest. */
export function fullest(ledger: Ledger, allowance: Allowance, stream: MailStream): "cap_hour" | "cap_day" {
  return roomInDay(ledger, allowance, stream) < roomInHour(ledger, allowance, stream)
    ? "cap_day"
    : "cap_hour";
}

/** When room may next appear for mail that waits: the turn of the bucket, of the day or of the month. */
export function nextTurn(ledger: Ledger, waitsFor: WaitsFor): number {
  switch (waitsFor) {
    case "cap_hour":
      return (ledger.bucket + 1) * BUCKET_MS;
    case "cap_day":
      return (ledger.day + 1) * DAY_MS;
    case "quota_month":
      return startOfMonth(ledger.month + 1);
  }
}

export function charge(ledger: Ledger, stream: MailStream, granted: number): void {
  if (granted === 0) return;
  const slot = ledger.bucket % HOUR_BUCKETS;
  ledger.capDayUsed += granted;
  ledger.hourUsed[slot] = (ledger.hourUsed[slot] ?? 0) + granted;
  const use = useOf(ledger, stream);
  if (use) {
    use.day += granted;
    use.hour[slot] = (use.hour[slot] ?? 0) + granted;
  }
  if (!stream.bulk) return;
  ledger.capDayBulk += granted;
  ledger.hourBulk[slot] = (ledger.hourBulk[slot] ?? 0) + granted;
}

/** Undoes a charge of `at`, in the windows that still count it: what was granted then has not left. */
export function giveBack(ledger: Ledger, { bulk, stream }: MailStream, granted: number, at: number): void {
  const less = (used: number): number => Math.max(0, used - granted);
  const use = ledger.streams[stream];
  if (Math.floor(at / DAY_MS) === ledger.day) {
    ledger.capDayUsed = less(ledger.capDayUsed);
    if (bulk) ledger.capDayBulk = less(ledger.capDayBulk);
    if (use) use.day = less(use.day);
  }
  const bucket = Math.floor(at / BUCKET_MS);
  if (bucket > ledger.bucket || ledger.bucket - bucket >= HOUR_BUCKETS) return;
  const slot = bucket % HOUR_BUCKETS;
  ledger.hourUsed[slot] = less(ledger.hourUsed[slot] ?? 0);
  if (bulk) ledger.hourBulk[slot] = less(ledger.hourBulk[slot] ?? 0);
  if (use) use.hour[slot] = less(use.hour[slot] ?? 0);
}

export function sum(slots: readonly number[]): number {
  let total = 0;
  for (const slot of slots) total += slot;
  return total;
}

/** What bulk mail may use of a cap: all but the reserved share, and never too little for one e-mail. */
export function bulkPart(cap: number, reservedShare: number): number {
  if (reservedShare >= 1) return 0;
  return Math.min(cap, Math.max(CAP_MIN, Math.floor(cap * (1 - reservedShare))));
}

export function secondsToReset(period: "day" | "month", ledger: Ledger, now: number): number {
  const at = period === "day" ? (ledger.day + 1) * DAY_MS : startOfMonth(ledger.month + 1);
  return Math.max(1, Math.ceil((at - now) / 1000));
}

/** A cap, and what is used of it: by all, by bulk mail, by a stream. */
type CapWindow = { cap: number; used: number; bulk: number; of(use: StreamUse): number };

function roomInHour(ledger: Ledger, allowance: Allowance, stream: MailStream): number {
  const [used, bulk] = [sum(ledger.hourUsed), stream.bulk ? sum(ledger.hourBulk) : 0];
  const window = { cap: allowance.capHour, used, bulk, of: ofHour };
  return roomIn(window, ledger, allowance, stream);
}

function roomInDay(ledger: Ledger, allowance: Allowance, stream: MailStream): number {
  const window = { cap: allowance.capDay, used: ledger.capDayUsed, bulk: ledger.capDayBulk, of: ofDay };
  return roomIn(window, ledger, allowance, stream);
}

function ofHour({ hour }: StreamUse): number {
  return sum(hour);
}

function ofDay({ day }: StreamUse): number {
  return day;
}

function roomIn(window: CapWindow, ledger: Ledger, allowance: Allowance, stream: MailStream): number {
  const { cap } = window;
  const part = stream.bulk ? bulkPart(cap, allowance.reservedShare) : cap;
  let room = cap - window.used;
  if (stream.bulk) room = Math.min(room, part - window.bulk);
  const { streams } = allowance;
  if (streams === undefined) return room;
  room = Math.min(room, cap - window.used - reserved(window, ledger, streams, stream, cap, false));
  if (stream.bulk)
    room = Math.min(room, part - window.bulk - reserved(window, ledger, streams, stream, part, true));
  const most = streams[stream.stream || (stream.bulk ? BULK : "")]?.most ?? 1;
  return most < 1 ? Math.min(room, bulkPart(cap, 1 - most) - usedBy(window, ledger, streams, stream)) : room;
}

/** What other streams of a kind have reserved and not used, as long as one e-mail finds room. */
function reserved(
  window: CapWindow,
  ledger: Ledger,
  limits: StreamLimits,
  { stream }: MailStream,
  part: number,
  bulk: boolean,
): number {
  let kept = 0;
  for (const name in limits) {
    const limit = limits[name];
    if (!limit || limit.bulk !== bulk || name === stream) continue;
    const use = ledger.streams[name];
    kept += Math.max(0, Math.floor(part * Math.min(limit.reserved, limit.most)) - (use ? window.of(use) : 0));
  }
  return Math.min(kept, Math.max(0, part - CAP_MIN));
}

/** What a deleted stream used is use of its kind: reserve.lua does not know it any more. */
function usedBy(window: CapWindow, ledger: Ledger, limits: StreamLimits, { stream }: MailStream): number {
  const own = ledger.streams[stream];
  if (stream !== "") return own ? window.of(own) : 0;
  let used = window.bulk;
  for (const name in ledger.streams) {
    const use = ledger.streams[name] as StreamUse;
    if (use.bulk && name in limits) used -= window.of(use);
  }
  return used;
}

/**
 * Windows in the future would hold everything back until their time comes. What was used in their hour counts
 * in the present bucket, what was used in their day in the present day, so nothing more is given out than
 * before.
 */
function bringBack(ledger: Ledger, now: number): void {
  const latest = now + STEP_BACK_MS_MAX;
  if (ledger.bucket > Math.floor(latest / BUCKET_MS)) {
    const [used, bulk] = [sum(ledger.hourUsed), sum(ledger.hourBulk)];
    ledger.bucket = Math.floor(now / BUCKET_MS);
    const slot = ledger.bucket % HOUR_BUCKETS;
    ledger.hourUsed = ledger.hourUsed.map((_, n) => (n === slot ? used : 0));
    ledger.hourBulk = ledger.hourBulk.map((_, n) => (n === slot ? bulk : 0));
    for (const use of Object.values(ledger.streams)) {
      const own = sum(use.hour);
      use.hour = use.hour.map((_, n) => (n === slot ? own : 0));
    }
  }
  if (ledger.day > Math.floor(latest / DAY_MS)) {
    ledger.day = Math.floor(now / DAY_MS);
    ledger.month = Math.min(ledger.month, monthOfDay(ledger.day));
    if (ledger.closedDay < ledger.day) return;
    // the day that was closed too early goes on
    ledger.capDayUsed += ledger.closedUsed;
    ledger.delayed += ledger.closedDelayed;
    ledger.accepted += ledger.closedAccepted;
    ledger.closedDay = ledger.closedUsed = ledger.closedDelayed = ledger.closedAccepted = 0;
  }
}

function monthOfDay(day: number): number {
  const date = new Date(day * DAY_MS);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

function startOfMonth(month: number): number {
  return Date.UTC(Math.floor(month / 12), month % 12, 1);
}
