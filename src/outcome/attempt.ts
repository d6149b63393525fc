/**
 * What an attempt makes of an e-mail: the mark of each recipient, the events, the counts, who is suppressed,
 * and when it is tried again. Decides, and writes nothing.
 */
import { identity, type Mailbox } from "../address.ts";
import { newId } from "../ids.ts";
import type { HeldBag, OpenEmail } from "../record/mail/bagleases.ts";
import type { HashOf } from "../record/mail/barred.ts";
import type { LifetimeChange } from "../record/mail/lifetime.ts";
import { isCounted, type MailPart, type PartCounts } from "../record/mail/parttallies.ts";
import type { Bounced, CountedPart, TallyCounts } from "../record/mail/settle.ts";
import { attemptText } from "../rules/connection.ts";
import { bounceKept, endingOf, type HistoryEntry, OPEN_MARK } from "../rules/email.ts";
import { nameOfStream } from "../rules/stream.ts";
import type { Reply } from "../smtp/reply.ts";
import { classify, concernsOperator, isThrottled } from "./classify.ts";
import type { Outcome } from "./outcome.ts";
import { nextAttempt } from "./retry.ts";
import type { Note } from "./settler.ts";

export type AttemptRules = {
  carriesTo: "smarthost" | "receivers";
  /** Waits between attempts, in seconds. */
  retrySchedule: readonly number[];
  lifetimeMs: number;
  /** Whether complaints of readers at this domain are reported. */
  hasFeedback(domain: string): boolean;
  /** Under which suppressed addresses are kept. */
  hashOf: HashOf;
  /** Whether a series of soft bounces suppresses. */
  countsSoft: boolean;
  /** In [0, 1). */
  random(): number;
  /** Is told of each recipient who was tried, or could not be. */
  onOutcome(outcome: Outcome, domain: string, isBulk: boolean): void;
  /** The provider that takes the domain's mail, as the shaping file names it; `""`: none is known. */
  providerOf(domain: string): string;
};

/** When the attempt began and ended, and how its end is shown. */
export type AttemptTime = { beganAt: number; at: number; shown: string };

/** What is noted of the attempt, and the replies that an operator has to see. */
export type Attempted = { note: Note; complaints: readonly string[] };

const UNSENT_RETRY_MS = 5_000;
const TURN_MS_MIN = 500;
const EVENT_OF = { delivered: "delivered", deferred: "delivery_delayed", bounced: "bounced" } as const;
const MARK_OF = { delivered: "d", deferred: OPEN_MARK, bounced: "b" } as const;
const BOUNCE_COUNT = {
  hard: "hardBounced",
  soft: "softBounced",
  block: "blocked",
  expired: "softBounced",
} as const;

/**
 * What the answer to one recipient means. `throttles`: at the first attempt, for who we are or how much we
 * send.
 */
export type JudgedReply = { outcome: Outcome; throttles: boolean };

/** Reads the receiver's words, which may take half a ms; what follows of it takes next to nothing. */
export function judged(reply: Reply, email: OpenEmail, beganAt: number, rules: AttemptRules): JudgedReply {
  const lifetimes = triedMsOf(email, beganAt) / rules.lifetimeMs;
  const outcome = classify(reply, lifetimes > 1, rules.carriesTo, lifetimes > 2);
  return { outcome, throttles: email.attempts === 0 && isThrottled(outcome, rules.carriesTo) };
}

/** `answers`: one for each open recipient, in their order. */
export function attempted(
  bag: HeldBag,
  email: OpenEmail,
  recipients: readonly Mailbox[],
  answers: readonly JudgedReply[],
  time: AttemptTime,
  rules: AttemptRules,
): Attempted {
  const triedMs = triedMsOf(email, time.beganAt);
  const result = new Result(time, rules, email);
  let answered = 0;
  let replyOfOpen: string | null = null;
  for (let place = 0; place < email.marks.length; place++) {
    const mark = email.marks.charAt(place);
    if (mark !== OPEN_MARK) {
      result.keep(mark);
      continue;
    }
    const { outcome, throttles } = answers[answered++] as JudgedReply;
    const recipient = recipients[place] as Mailbox;
    result.add(outcome, place, recipient);
    if (result.marks.endsWith(OPEN_MARK)) replyOfOpen ??= outcome.reply.text;
    // a retry is the same mail once more: rates are taken over recipients, each counted once
    if (throttles) result.count("throttled");
    rules.onOutcome(outcome, recipient.domain, email.bulk);
  }
  if (email.attempts === 0) result.counts.attempted = answered;
  const status = endingOf(result.marks) ?? "deferred";
  const isOpen = status === "deferred";
  const firstOpen = recipients[result.marks.indexOf(OPEN_MARK)];
  const holding = isOpen && !result.wasOpenTried ? soonest(result.unsent) : null;
  const held = holding?.reply.heldBy === undefined ? null : holding;
  const { marks, events, places, counts, parts, hardBounces, softBounces, wasTried, complaints } = result;
  return {
    complaints,
    note: {
      bag,
      emailId: email.id,
      status,
      marks,
      attemptedAt: wasTried ? time.beganAt : null,
      at: time.at,
      events,
      places,
      nextAt: isOpen ? nextAtAfter(result, email.attempts, time.at, rules) : null,
      lifetime: isOpen ? lifetimeAfter(result, email, time.beganAt, triedMs) : null,
      heldBy: held?.reply.heldBy ?? null,
      // whoever ends what waits for a destination means these recipients, and the words are about them
      domain: isOpen ? (held?.domain ?? firstOpen?.domain ?? null) : null,
      reply: isOpen ? (held?.reply.text ?? replyOfOpen) : null,
      counts: wasTried ? counts : {},
      parts,
      hardBounces,
      softBounces,
      feedbackFrom: result.feedbackFrom,
    },
  };
}

/**
 * For how long it had been tried when this attempt began. It is tried while receivers can be asked: what it
 * waited for a cap, a smarthost, a suspension, or for a connection in this very attempt, is no part of it.
 */
function triedMsOf({ triedMs, triedSince }: OpenEmail, beganAt: number): number {
  return triedMs ?? (triedSince === null ? 0 : Math.max(0, beganAt - triedSince));
}

/** It stops where nobody could be asked about what is open, and goes on with an answer. null: as before. */
function lifetimeAfter(
  { wasTried, wasOpenTried }: Result,
  email: OpenEmail,
  beganAt: number,
  triedMs: number,
): LifetimeChange | null {
  const isStopped = email.triedMs !== null;
  if (wasOpenTried) return isStopped ? { since: beganAt - triedMs } : null;
  const isBegun = wasTried || email.sentAt !== null;
  return isBegun && !isStopped ? { stoppedAtMs: triedMs } : null;
}

/** When what is still open is tried again. */
function nextAtAfter(
  { wasTried, wasOpenTried, complaints, unsent }: Result,
  attempts: number,
  at: number,
  { retrySchedule, random }: AttemptRules,
): number {
  // where nobody lets us in, asking every few seconds for each mail helps no one and may get us barred
  if (wasOpenTried || complaints.length > 0)
    return nextAttempt(retrySchedule, attempts + (wasTried ? 1 : 0), random(), at);
  const reply = soonest(unsent)?.reply;
  const retryMs = reply?.retryMs ?? 0;
  // one that was given a turn comes then; others come in a while, so that they do not come all the time
  const isTurn = reply?.error === "LIMITED" || reply?.error === "SUSPENDED";
  return at + (isTurn ? Math.max(TURN_MS_MIN, retryMs) : Math.max(UNSENT_RETRY_MS * (1 + random()), retryMs));
}

/** The first of these that may go. */
function soonest(unsent: readonly UnsentTo[]): UnsentTo | null {
  return unsent.reduce<UnsentTo | null>(
    (first, one) => (first === null || (one.reply.retryMs ?? 0) < (first.reply.retryMs ?? 0) ? one : first),
    null,
  );
}

/** What nearly every attempt has: sharing it is cheaper than an empty list for each. */
const NOBODY: readonly Bounced[] = [];
const NOTHING: readonly string[] = [];
const NO_PARTS: readonly CountedPart[] = [];

/** The recipient's domain, and why nothing was sent there. */
type UnsentTo = { reply: Reply; domain: string };

/** Gathered recipient by recipient. */
class Result {
  readonly #time: AttemptTime;
  readonly #rules: AttemptRules;
  readonly #stream: string;
  readonly #isFirst: boolean;
  marks = "";
  wasTried = false;
  /** Of those that are still open. */
  wasOpenTried = false;
  readonly unsent: UnsentTo[] = [];
  readonly counts: Partial<TallyCounts> = {};
  parts: readonly CountedPart[] = NO_PARTS;
  readonly events: HistoryEntry[] = [];
  readonly places: number[] = [];
  hardBounces: readonly Bounced[] = NOBODY;
  softBounces: readonly Bounced[] = NOBODY;
  complaints: readonly string[] = NOTHING;
  /** Where it was delivered to, if complaints are reported there. */
  feedbackFrom: readonly string[] = NOTHING;

  constructor(time: AttemptTime, rules: AttemptRules, email: OpenEmail) {
    this.#time = time;
    this.#rules = rules;
    this.#stream = nameOfStream(email);
    this.#isFirst = email.attempts === 0;
  }

  /** It was over for this recipient before. */
  keep(mark: string): void {
    this.marks += mark;
  }

  add(outcome: Outcome, place: number, { address, domain }: Mailbox): void {
    if (concernsOperator(outcome)) this.complaints = [...this.complaints, outcome.reply.text];
    if (outcome.kind === "unsent") {
      this.marks += OPEN_MARK;
      this.unsent.push({ reply: outcome.reply, domain });
      return;
    }
    this.wasTried = true;
    if (outcome.kind === "deferred") this.wasOpenTried = true;
    this.marks += MARK_OF[outcome.kind];
    const provider = this.#rules.providerOf(domain);
    this.events.push(entryOf(outcome, this.#time.shown, address, provider));
    this.places.push(place);
    this.count(outcome.kind === "bounced" ? BOUNCE_COUNT[outcome.category] : outcome.kind);
    if (outcome.kind === "bounced") this.#suppress(outcome, address);
    const isHeard = outcome.kind === "delivered" && this.#rules.hasFeedback(domain);
    if (isHeard) {
      this.count("fblDelivered");
      this.feedbackFrom = [...this.feedbackFrom, domain];
    }
    const part = { stream: this.#stream, provider, source: outcome.reply.via?.localIp ?? "" };
    if (isCounted(part)) this.#countPart(part, outcome, isHeard);
  }

  #countPart(part: MailPart, outcome: Exclude<Outcome, { kind: "unsent" }>, isHeard: boolean): void {
    const counts: Partial<PartCounts> = {};
    if (this.#isFirst) counts.attempted = 1;
    if (outcome.kind === "delivered") counts.delivered = 1;
    if (isHeard) counts.fblDelivered = 1;
    if (outcome.kind === "bounced" && outcome.category === "hard") counts.hardBounced = 1;
    if (outcome.kind === "bounced" && outcome.category === "block") counts.blocked = 1;
    this.parts = [...this.parts, { counts, ...part }];
  }

  count(name: keyof TallyCounts): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }

  #suppress({ category, reply }: Extract<Outcome, { kind: "bounced" }>, email: string): void {
    const { hashOf, countsSoft } = this.#rules;
    const isHard = category === "hard";
    if (category === "block" || !(isHard || countsSoft)) return;
    const whom = identity(email);
    const bounced = {
      id: newId(this.#time.at),
      email,
      identity: whom,
      evidence: reply.text,
      hash: hashOf(whom),
    };
    if (isHard) this.hardBounces = [...this.hardBounces, bounced];
    else this.softBounces = [...this.softBounces, bounced];
  }
}

/** What is kept of an attempt, for whoever asks why. */
function entryOf(
  outcome: Exclude<Outcome, { kind: "unsent" }>,
  at: string,
  recipient: string,
  provider: string,
): HistoryEntry {
  const { kind, reply } = outcome;
  const isFromKnown = reply.via != null && reply.via.localIp !== null;
  const attempt = attemptText(reply.phase, reply.tookMs, reply.via?.text, isFromKnown ? provider : "");
  const entry = { type: EVENT_OF[kind], at, recipient, detail: reply.text, attempt };
  return kind === "bounced" ? { ...entry, ...bounceKept(outcome.category) } : entry;
}
