/**
 * A bounded number of conversations with one place (a smarthost, or the hosts for the mail of some domains),
 * each sending one mail after another. The place decides which host is next, how many conversations there may
 * be, and what happens when a connection fails.
 *
 * Promises: every send is answered in bounded time, whatever the other side does: it is sent, or returned
 * unsent after waiting too long, with the reason why there was no connection; as busy where none was allowed.
 * A connection that takes longer to open is given up when nobody waits for it. If a connection is found dead
 * before its first reply about a mail, the mail goes over another one. After a failure, connections are tried
 * one at a time.
 *
 * The last conversation to become idle is used first, so that those not needed end after their idle time.
 */

import { whenLate } from "../clock.ts";
import { Conversation, type Delivery, type Patience, type Peer } from "./conversation.ts";
import type { Envelope, Permit } from "./envelope.ts";
import { Pace } from "./pace.ts";
import { type Reply, troubleOf } from "./reply.ts";
import { watchDeadlines } from "./watch.ts";

export type PoolFigures = {
  /** Mails that no conversation has yet. */
  waiting: number;
  conversations: number;
  idle: number;
  /** Why connecting fails now, if it does. */
  trouble: Reply | null;
};

/** The other side of the conversations. */
export type PoolTarget = {
  /** In words, for replies. */
  readonly name: string;
  /** How many conversations there may be now; at none whoever waits cannot blame the other side. */
  conversationsMax(): number;
  /** Whether an unused conversation is kept for a while. */
  mayRest(): boolean;
  /** Whether a conversation that has had its time ends, for another place to have one. */
  isContended?(): boolean;
  /** The host of the next conversation, which is opened at once. */
  peer(): Peer;
  onOpened(conversation: Conversation): void;
  /**
   * A connection failed. Returns the time until the next attempt; null: waiting mails are answered with this
   * failure.
   */
  onRefused(conversation: Conversation, failure: Reply): number | null;
  /** One that had been opened has ended. */
  onEnded(conversation: Conversation): void;
  /** Limits beside the pool's own, which may change at any time. */
  limits?(): TargetLimits | null;
};

export type TargetLimits = {
  /** How long until a mail may go; zero: now. The pool is woken when that changes. */
  waitMs(now: number): number;
  /** A mail goes. */
  spend(): void;
  /** Mails over one conversation. Zero: as the pool has it. */
  readonly deliveriesMax: number;
  /** Whether a conversation that has had its time ends, for somebody else to have one. */
  readonly isContended: boolean;
  /** Whether the next mail may go so late that it waits elsewhere. */
  readonly isFar: boolean;
};

export type PoolOptions = {
  /** Zero: no limit. */
  ratePerSecond: number;
  conversationRatePerSecond: number;
  /** Milliseconds that only move forward. */
  now(): number;
  /** Whether the first conversation has to succeed before there are more. */
  isCarefulAtFirst?: boolean;
  limits?: Partial<PoolLimits>;
};

export type PoolLimits = Patience & {
  idleMsMax: number;
  conversationMsMax: number;
  conversationDeliveriesMax: number;
  waitingMax: number;
  /** Counts only while no mail is sent at all: mails that wait for a rate limit just wait. */
  waitMsMax: number;
  /** How long the first in the queue waits before more conversations are opened. */
  hurryMs: number;
};

const LIMITS: PoolLimits = {
  connectMs: 10_000,
  greetingMs: 30_000,
  commandMs: 60_000,
  beforeDataMs: 600_000,
  // RFC 5321 asks for 600 s; a mail whose answer is lost is sent twice, one that waits holds up its bag
  dotMs: 300_000,
  idleMsMax: 10_000,
  conversationMsMax: 300_000,
  conversationDeliveriesMax: 1_000,
  waitingMax: 10_000,
  waitMsMax: 30_000,
  hurryMs: 0,
};

const TICK_MS = 100;
/** What a conversation gets before it makes way for another's. */
const CONTENDED_MS = 3_000;
/** Who waits that long for a conversation that there may not be waits elsewhere. */
const WITHHELD_MS_MAX = 10_000;
/** After so many dead connections a mail is answered with the error. */
const RETURNS_MAX = 3;

export class ConnectionPool {
  readonly #place: PoolTarget;
  readonly #options: PoolOptions;
  readonly #limits: PoolLimits;
  readonly #busy: Reply;
  readonly #unmet: Reply;
  readonly #pace: Pace;
  readonly #all = new Set<Conversation>();
  readonly #opening = new Set<Conversation>();
  /** The last to become idle is the last here. */
  #idle: { conversation: Conversation; since: number }[] = [];
  #waiting: Delivery[] = [];
  #isCareful: boolean;
  #connectAt = Number.NEGATIVE_INFINITY;
  #trouble: Reply | null = null;
  /** When an delivery was last handed out. */
  #progressAt = Number.NEGATIVE_INFINITY;
  #ticker: NodeJS.Timeout | null = null;
  #paceTimer: NodeJS.Timeout | null = null;
  #isClosing = false;
  #onEmpty: (() => void)[] = [];

  constructor(place: PoolTarget, options: PoolOptions) {
    this.#place = place;
    this.#options = options;
    this.#isCareful = options.isCarefulAtFirst ?? false;
    this.#busy = troubleOf("session", "BUSY", `too many e-mails wait for ${place.name}`);
    this.#unmet = troubleOf("connect", "TIMEOUT", `no host of ${place.name} was reached in time`);
    this.#limits = { ...LIMITS, ...options.limits };
    this.#pace = new Pace(options.ratePerSecond);
  }

  get conversations(): number {
    return this.#all.size;
  }

  get idle(): number {
    return this.#idle.length;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** All of them, open or not. */
  get all(): Iterable<Conversation> {
    return this.#all;
  }

  /** How long the first in the queue has waited. */
  get waitedMs(): number {
    const [first] = this.#waiting;
    return first ? this.#options.now() - first.since : 0;
  }

  get figures(): PoolFigures {
    return {
      waiting: this.#waiting.length,
      conversations: this.#all.size,
      idle: this.#idle.length,
      trouble: this.#trouble,
    };
  }

  send(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]> {
    const objection = this.#isClosing ? CLOSING : this.#isFull() ? this.#busy : null;
    if (objection) return Promise.resolve(envelope.to.map(() => objection));
    return new Promise((settle) => {
      this.#waiting.push({ envelope, message, permit, since: this.#options.now(), returns: 0, settle });
      this.#dispatch();
    });
  }

  async close(deadlineMs: number, answersMs = deadlineMs): Promise<void> {
    this.#isClosing = true;
    for (const delivery of this.#waiting.splice(0)) answer(delivery, CLOSING);
    for (const conversation of [...this.#all]) conversation.retire();
    if (this.#paceTimer) clearTimeout(this.#paceTimer);
    this.#setTicker();
    if (this.#all.size === 0) return;
    const abort = (isDue: (one: Conversation) => boolean) => () => {
      for (const one of [...this.#all]) if (isDue(one)) one.abort();
    };
    const cancels = [
      whenLate(
        deadlineMs,
        abort((one) => !one.awaitsVerdict),
      ),
      whenLate(
        answersMs,
        abort(() => true),
      ),
    ];
    await new Promise<void>((resolve) => {
      this.#onEmpty.push(resolve);
    });
    for (const cancel of cancels) cancel();
  }

  /** Makes room by answering the newest mail as busy. */
  giveBackLast(): void {
    const delivery = this.#waiting.pop();
    if (delivery) answer(delivery, this.#busy);
  }

  /** Something that kept mails waiting may have changed. */
  wake(): void {
    if (this.#waiting.length > 0) this.#dispatch();
  }

  /** Whether there was one that could be spared. */
  retireIdle(): boolean {
    const first = this.#idle[0];
    if (!first || this.#waiting.length > 0) return false;
    first.conversation.retire();
    return true;
  }

  #isFull(): boolean {
    return this.#waiting.length >= this.#limits.waitingMax;
  }

  /** Gives waiting mails to idle conversations, and opens more if these are not enough. */
  #dispatch(): void {
    while (this.#waiting.length > 0) {
      const conversation = this.#takeIdle();
      if (!conversation) break;
      const delivery = this.#nextFor(conversation);
      if (!delivery) {
        this.#rest(conversation);
        break;
      }
      conversation.carry(delivery);
    }
    this.#openMore();
    this.#setTicker();
  }

  /** The idle conversation that may carry one now. */
  #takeIdle(): Conversation | null {
    const now = this.#options.now();
    this.#endIdle(now);
    for (let n = this.#idle.length - 1; n >= 0; n--) {
      const { conversation } = this.#idle[n] as { conversation: Conversation };
      if (conversation.pace.waitMs(now) > 0) continue;
      this.#idle.splice(n, 1);
      return conversation;
    }
    if (this.#idle.length > 0)
      this.#dispatchLater(Math.min(...this.#idle.map((one) => one.conversation.pace.waitMs(now))));
    return null;
  }

  #rest(conversation: Conversation): void {
    this.#idle.push({ conversation, since: this.#options.now() });
  }

  /**
   * The next delivery that this conversation can take; those that no conversation can take are answered here.
   */
  #nextFor(conversation: Conversation): Delivery | null {
    const now = this.#options.now();
    const limits = this.#place.limits?.() ?? null;
    for (;;) {
      const delivery = this.#waiting[0];
      if (!delivery) return null;
      const paceMs = Math.max(this.#pace.waitMs(now), conversation.pace.waitMs(now));
      const waitMs = limits ? Math.max(paceMs, limits.waitMs(now)) : paceMs;
      if (waitMs > 0) {
        this.#dispatchLater(waitMs);
        return null;
      }
      this.#waiting.shift();
      const objection = delivery.permit.mayBegin() ? conversation.objection(delivery) : WITHDRAWN;
      if (!objection) {
        this.#pace.spend(now);
        conversation.pace.spend(now);
        limits?.spend();
        this.#progressAt = now;
        return delivery;
      }
      answer(delivery, objection);
    }
  }

  #dispatchLater(waitMs: number): void {
    this.#paceTimer ??= setTimeout(() => {
      this.#paceTimer = null;
      this.#dispatch();
    }, waitMs);
  }

  #openMore(): void {
    const { now, conversationRatePerSecond } = this.#options;
    if (this.#isClosing || now() < this.#connectAt || !this.#isHurried()) return;
    // more conversations send no faster than the rate allows
    if (this.#all.size > 0 && (this.#place.limits?.()?.waitMs(now()) ?? 0) > 0) return;
    // after a failure only one conversation at a time is tried
    const openingMax = this.#isCareful ? 1 : Number.POSITIVE_INFINITY;
    const wanted = Math.min(this.#waiting.length - this.#idle.length, openingMax);
    while (this.#opening.size < wanted && this.#all.size < this.#place.conversationsMax()) {
      const peer = this.#place.peer();
      const conversation = new Conversation(peer, this.#limits, this.#dispatcher, conversationRatePerSecond);
      this.#all.add(conversation);
      this.#opening.add(conversation);
    }
  }

  /** More conversations are not always quicker: one that is kept busy chains its mails. */
  #isHurried(): boolean {
    return this.#waiting.length > 0 && (this.#all.size === 0 || this.waitedMs >= this.#limits.hurryMs);
  }

  readonly #dispatcher = {
    now: (): number => this.#options.now(),

    onReady: (conversation: Conversation): void => {
      if (this.#opening.delete(conversation)) {
        this.#isCareful = false;
        this.#connectAt = Number.NEGATIVE_INFINITY;
        this.#trouble = null;
        this.#place.onOpened(conversation);
      }
      if (this.#isClosing || this.#isWorn(conversation)) {
        conversation.retire();
        return;
      }
      const delivery = this.#nextFor(conversation);
      if (delivery) conversation.carry(delivery);
      else if (this.#place.mayRest()) this.#rest(conversation);
      else conversation.retire();
      if (this.#waiting.length > 0) this.#openMore();
    },

    onLeaving: (conversation: Conversation): Delivery | null => {
      // a mail that another conversation can take soon is not chained
      if (this.#waiting.length <= this.#idle.length + this.#opening.size) return null;
      if (this.#isClosing || this.#isWorn(conversation) || (this.#waiting[0]?.returns ?? 0) > 0) return null;
      return this.#nextFor(conversation);
    },

    onReturn: (delivery: Delivery, reason: Reply | null): void => {
      if (this.#isClosing) {
        answer(delivery, CLOSING);
        return;
      }
      if (reason) {
        delivery.returns++;
        if (delivery.returns > RETURNS_MAX) {
          answer(delivery, reason);
          return;
        }
        // if one was dead, the other idle ones may be as well
        for (const { conversation } of this.#idle.splice(0)) conversation.retire();
      }
      this.#waiting.unshift(delivery);
      this.#dispatch();
    },

    onOver: (conversation: Conversation, failure: Reply | null): void => {
      this.#all.delete(conversation);
      this.#idle = this.#idle.filter((one) => one.conversation !== conversation);
      this.#opening.delete(conversation);
      if (failure) this.#onRefused(conversation, failure);
      else this.#onEnded(conversation);
      if (this.#all.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
      if (this.#waiting.length > 0) this.#openMore();
      this.#setTicker();
    },
  };

  #onRefused(conversation: Conversation, failure: Reply): void {
    const waitMs = this.#place.onRefused(conversation, failure);
    this.#isCareful = true;
    this.#trouble = failure;
    if (waitMs === null) for (const delivery of this.#waiting.splice(0)) answer(delivery, failure);
    else this.#connectAt = this.#options.now() + waitMs;
  }

  #onEnded(conversation: Conversation): void {
    this.#place.onEnded(conversation);
    // a host that refuses one more connection may accept one in place of another
    if (this.#all.size === 0) this.#connectAt = Number.NEGATIVE_INFINITY;
  }

  #isWorn(conversation: Conversation): boolean {
    const { conversationDeliveriesMax, conversationMsMax } = this.#limits;
    const limits = this.#place.limits?.() ?? null;
    const ageMs = this.#options.now() - conversation.openedAt;
    return (
      this.#all.size - this.#opening.size > this.#place.conversationsMax() ||
      conversation.carried >= (limits?.deliveriesMax || conversationDeliveriesMax) ||
      ageMs >= conversationMsMax ||
      (conversation.carried > 0 && ageMs >= CONTENDED_MS && this.#isContended)
    );
  }

  get #isContended(): boolean {
    return this.#place.limits?.()?.isContended || this.#place.isContended?.() || false;
  }

  /** Runs only while there is something to watch. */
  #setTicker(): void {
    const isNeeded = this.#all.size > 0 || this.#waiting.length > 0;
    if (isNeeded) {
      this.#ticker ??= watchDeadlines(TICK_MS, this.#options.now, (now) => this.#tick(now));
    } else if (this.#ticker) {
      clearInterval(this.#ticker);
      this.#ticker = null;
    }
  }

  #tick(now: number): void {
    for (const conversation of [...this.#all]) conversation.tick(now);
    this.#endIdle(now);
    this.#giveUpWaiting(now);
    this.#giveUpOpening(now);
    this.#dispatch();
  }

  #endIdle(now: number): void {
    for (
      let first = this.#idle[0];
      first && now - first.since >= this.#limits.idleMsMax;
      first = this.#idle[0]
    )
      first.conversation.retire();
  }

  #giveUpWaiting(now: number): void {
    const isConnected = this.#all.size > this.#opening.size;
    const isFar = this.#place.limits?.()?.isFar ?? false;
    const isWithheld = this.#all.size === 0 && this.#place.conversationsMax() < 1;
    // who waits in line for one keeps its place
    const isSoon = isWithheld && !this.#place.isContended?.();
    const reason = isConnected || isFar || isWithheld ? this.#busy : (this.#trouble ?? this.#unmet);
    const msMax = isFar ? 0 : isSoon ? WITHHELD_MS_MAX : this.#limits.waitMsMax;
    for (;;) {
      const first = this.#waiting[0];
      if (!first || now - Math.max(first.since, this.#progressAt) < msMax) return;
      this.#waiting.shift();
      answer(first, reason);
    }
  }

  /** A mail does not wait as long, and nobody else does: it is opened for nobody. */
  #giveUpOpening(now: number): void {
    if (this.#waiting.length > 0) return;
    for (const conversation of [...this.#opening])
      if (now - conversation.openedAt >= this.#limits.waitMsMax) conversation.giveUp();
  }
}

export const CLOSING = troubleOf("session", "CLOSING", "the courier is closing");
const WITHDRAWN = troubleOf("session", "WITHDRAWN", "taken back before it was sent");

function answer(delivery: Delivery, reply: Reply): void {
  delivery.settle(delivery.envelope.to.map(() => reply));
}
