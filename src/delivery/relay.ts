/**
 * The courier to one smarthost: a bounded number of conversations with it, each carrying one mail after another.
 *
 * Promises: every send is answered within a bound, whatever the smarthost does: it is carried, or comes back unsent after
 * waiting too long, with the reason why no connection could be had. A connection found dead before its first word about a
 * mail costs that mail nothing: another connection is opened for it. A smarthost that is away is not hammered: one attempt
 * at a time, 100 ms to 5 s apart; when it is back the mails flow again by themselves.
 *
 * The last conversation to become idle is used first, so that those not needed grow idle and end.
 */
import { type Reply, troubleOf } from "../outcome/outcome.ts";
import { Conversation, type Errand, type Patience, type Peer } from "./conversation.ts";
import type { Courier, CourierFigures, Envelope, Permit } from "./courier.ts";
import { Pace } from "./pace.ts";
import { readSmarthost } from "./smarthost.ts";

export type RelayOptions = {
  peer: Peer;
  conversationsMax: number;
  /** Zero: no limit. */
  ratePerSecond: number;
  conversationRatePerSecond: number;
  /** Milliseconds that only move forward. */
  now(): number;
  onFault(error: unknown): void;
  limits?: Partial<Limits>;
};

export type Limits = Patience & {
  idleMsMax: number;
  conversationMsMax: number;
  conversationErrandsMax: number;
  waitingMax: number;
  /** Without any mail getting through: where a rate makes them wait, they wait. */
  waitMsMax: number;
};

const LIMITS: Limits = {
  connectMs: 10_000,
  greetingMs: 30_000,
  commandMs: 60_000,
  // RFC 5321 asks for 600 s; a mail whose answer is lost is sent twice, one that waits holds up its bag
  dotMs: 300_000,
  idleMsMax: 10_000,
  conversationMsMax: 300_000,
  conversationErrandsMax: 1_000,
  waitingMax: 10_000,
  waitMsMax: 30_000,
};

const TICK_MS = 100;
const BACKOFF_MS_MIN = 100;
const BACKOFF_MS_MAX = 5_000;
/** Beyond it a mail that always finds dead connections is answered with that. */
const RETURNS_MAX = 3;

export type RelaySettings = {
  smtpTls: "required" | "opportunistic" | "off";
  smtpTlsVerify: boolean;
  smtpRatePerSecond: number;
  smtpConnectionRatePerSecond: number;
};

/** The relay that the settings describe. A fault is said once when the smarthost becomes unreachable, not per attempt. */
export function relayCourier(url: string, settings: RelaySettings, onFault: (error: unknown) => void): Relay {
  const { peer, conversationsMax } = readSmarthost(url, settings.smtpTls, settings.smtpTlsVerify);
  return new Relay({
    peer,
    conversationsMax,
    ratePerSecond: settings.smtpRatePerSecond,
    conversationRatePerSecond: settings.smtpConnectionRatePerSecond,
    now: () => performance.now(),
    onFault,
  });
}

export class Relay implements Courier {
  readonly #options: RelayOptions;
  readonly #limits: Limits;
  readonly #pace: Pace;
  readonly #all = new Set<Conversation>();
  readonly #opening = new Set<Conversation>();
  /** The last to become idle is the last here. */
  #idle: { conversation: Conversation; since: number }[] = [];
  #waiting: Errand[] = [];
  #failures = 0;
  #connectAt = Number.NEGATIVE_INFINITY;
  #trouble: Reply | null = null;
  /** When an errand was last handed out. */
  #progressAt = Number.NEGATIVE_INFINITY;
  #ticker: NodeJS.Timeout | null = null;
  #paceTimer: NodeJS.Timeout | null = null;
  #isClosing = false;
  #onEmpty: (() => void)[] = [];

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#pace = new Pace(options.ratePerSecond);
  }

  get figures(): CourierFigures {
    return {
      waiting: this.#waiting.length,
      conversations: this.#all.size,
      idle: this.#idle.length,
      trouble: this.#trouble,
    };
  }

  send(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]> {
    const objection = this.#objection(envelope);
    if (objection) return Promise.resolve(envelope.to.map(() => objection));
    return new Promise((settle) => {
      this.#waiting.push({ envelope, message, permit, since: this.#options.now(), returns: 0, settle });
      this.#dispatch();
    });
  }

  async close(deadlineMs: number): Promise<void> {
    this.#isClosing = true;
    for (const errand of this.#waiting.splice(0)) answer(errand, CLOSING);
    for (const conversation of [...this.#all]) conversation.retire();
    if (this.#paceTimer) clearTimeout(this.#paceTimer);
    this.#setTicker();
    if (this.#all.size === 0) return;
    const timer = setTimeout(() => {
      for (const conversation of [...this.#all]) conversation.abort();
    }, deadlineMs);
    await new Promise<void>((resolve) => {
      this.#onEmpty.push(resolve);
    });
    clearTimeout(timer);
  }

  #objection({ from, to, utf8 }: Envelope): Reply | null {
    if (this.#isClosing) return CLOSING;
    if (this.#waiting.length >= this.#limits.waitingMax) return BUSY;
    const isSafe = utf8 ? isSafeAddress : isSafeAsciiAddress;
    return (from === "" || isSafe(from)) && to.every(isSafe) ? null : UNSAFE;
  }

  /** Hands what waits to who is idle, and opens more conversations where that is not enough. */
  #dispatch(): void {
    while (this.#waiting.length > 0) {
      const conversation = this.#takeIdle();
      if (!conversation) break;
      const errand = this.#nextFor(conversation);
      if (!errand) {
        this.#rest(conversation);
        break;
      }
      conversation.carry(errand);
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

  /** The next errand that this conversation can take; those that nobody can take are answered on the way. */
  #nextFor(conversation: Conversation): Errand | null {
    const now = this.#options.now();
    for (;;) {
      const errand = this.#waiting[0];
      if (!errand) return null;
      const waitMs = Math.max(this.#pace.waitMs(now), conversation.pace.waitMs(now));
      if (waitMs > 0) {
        this.#dispatchLater(waitMs);
        return null;
      }
      this.#waiting.shift();
      const objection = errand.permit.mayBegin() ? conversation.objection(errand) : WITHDRAWN;
      if (!objection) {
        this.#pace.spend(now);
        conversation.pace.spend(now);
        this.#progressAt = now;
        return errand;
      }
      answer(errand, objection);
    }
  }

  #dispatchLater(waitMs: number): void {
    this.#paceTimer ??= setTimeout(() => {
      this.#paceTimer = null;
      this.#dispatch();
    }, waitMs);
  }

  #openMore(): void {
    const { conversationsMax, peer, conversationRatePerSecond, now } = this.#options;
    if (this.#isClosing || now() < this.#connectAt) return;
    // after a failure one at a time asks whether the smarthost is back
    const openingMax = this.#failures > 0 ? 1 : conversationsMax;
    const wanted = Math.min(this.#waiting.length - this.#idle.length, openingMax);
    while (this.#opening.size < wanted && this.#all.size < conversationsMax) {
      const conversation = new Conversation(peer, this.#limits, this.#dispatcher, conversationRatePerSecond);
      this.#all.add(conversation);
      this.#opening.add(conversation);
    }
  }

  readonly #dispatcher = {
    now: (): number => this.#options.now(),

    onReady: (conversation: Conversation): void => {
      if (this.#opening.delete(conversation)) {
        this.#failures = 0;
        this.#connectAt = Number.NEGATIVE_INFINITY;
        this.#trouble = null;
      }
      if (this.#isClosing || this.#isWorn(conversation)) {
        conversation.retire();
        return;
      }
      const errand = this.#nextFor(conversation);
      if (errand) conversation.carry(errand);
      else this.#rest(conversation);
    },

    onLeaving: (conversation: Conversation): Errand | null => {
      // a mail that another conversation could soon take is better off there
      if (this.#waiting.length <= this.#idle.length + this.#opening.size) return null;
      if (this.#isClosing || this.#isWorn(conversation) || (this.#waiting[0]?.returns ?? 0) > 0) return null;
      return this.#nextFor(conversation);
    },

    onReturn: (errand: Errand, reason: Reply | null): void => {
      if (this.#isClosing) {
        answer(errand, CLOSING);
        return;
      }
      if (reason) {
        errand.returns++;
        if (errand.returns > RETURNS_MAX) {
          answer(errand, reason);
          return;
        }
        // where one had died unnoticed the others may have too
        for (const { conversation } of this.#idle.splice(0)) conversation.retire();
      }
      this.#waiting.unshift(errand);
      this.#dispatch();
    },

    onOver: (conversation: Conversation, failure: Reply | null): void => {
      this.#all.delete(conversation);
      this.#idle = this.#idle.filter((one) => one.conversation !== conversation);
      this.#opening.delete(conversation);
      if (failure && !this.#isClosing) {
        if (!this.#trouble)
          this.#options.onFault(new Error(`no connection to the smarthost: ${failure.text}`));
        this.#trouble = failure;
        const backoffMs = Math.min(BACKOFF_MS_MIN * 2 ** this.#failures, BACKOFF_MS_MAX);
        this.#failures++;
        this.#connectAt = this.#options.now() + backoffMs;
      }
      if (this.#all.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
      if (this.#waiting.length > 0) this.#openMore();
      this.#setTicker();
    },
  };

  #isWorn(conversation: Conversation): boolean {
    const { conversationErrandsMax, conversationMsMax } = this.#limits;
    return (
      conversation.carried >= conversationErrandsMax ||
      this.#options.now() - conversation.openedAt >= conversationMsMax
    );
  }

  /** Runs only while there is something to watch. */
  #setTicker(): void {
    const isNeeded = this.#all.size > 0 || this.#waiting.length > 0;
    if (isNeeded) {
      this.#ticker ??= setInterval(() => this.#tick(), TICK_MS);
    } else if (this.#ticker) {
      clearInterval(this.#ticker);
      this.#ticker = null;
    }
  }

  #tick(): void {
    const now = this.#options.now();
    for (const conversation of [...this.#all]) conversation.tick(now);
    this.#endIdle(now);
    this.#giveUpWaiting(now);
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
    const reason = (!isConnected && this.#trouble) || BUSY;
    for (;;) {
      const first = this.#waiting[0];
      if (!first || now - Math.max(first.since, this.#progressAt) < this.#limits.waitMsMax) return;
      this.#waiting.shift();
      answer(first, reason);
    }
  }
}

const BUSY = troubleOf("session", "BUSY", "too much is waiting for the smarthost");
const CLOSING = troubleOf("session", "CLOSING", "the courier is closing");
const WITHDRAWN = troubleOf("session", "WITHDRAWN", "taken back before it was sent");
const UNSAFE = troubleOf("session", "ADDRESS_UNSAFE", "an address cannot be written into an SMTP command");

function answer(errand: Errand, reply: Reply): void {
  errand.settle(errand.envelope.to.map(() => reply));
}

/** What cannot end its command or its brackets; a space only stands in a quoted local part. */
const SAFE = /^(?:[^\s<>"\\\p{Cc}]+|"(?: |[^\s<>"\\\p{Cc}]|\\[ "\\])*")@[^\s<>"\\\p{Cc}@]+$/u;
const ADDRESS_CHARS_MAX = 320;

function isSafeAddress(address: string): boolean {
  return address.length <= ADDRESS_CHARS_MAX && SAFE.test(address) && address.isWellFormed();
}

function isSafeAsciiAddress(address: string): boolean {
  return isSafeAddress(address) && /^[\x20-\x7e]*$/.test(address);
}
