/**
 * What shaping rules mean for the mail of one pool of connections: how many there may be, when the next mail
 * may go, and which mail must wait elsewhere. A mail whose turn is near waits in the pool; one whose turn is
 * far is answered with the time of its turn, so that it holds nothing meanwhile and is not tried again and
 * again.
 */
import { type MailReceiver, NO_SHAPE, type Shape, type SourceAddress } from "../shaping/match.ts";
import { NO_LIMITS, type Room, type RoomLimits, type Roommate } from "../shaping/rooms.ts";
import { limitWords, type Shaping } from "../shaping/shaping.ts";
import type { TargetLimits } from "../smtp/pool.ts";
import { type Reply, troubleOf } from "../smtp/reply.ts";

/** A mail whose turn is as near waits here, as one of a few even longer. */
const NEAR_MS = 3_000;
const NEAR_MS_OF_FEW = 15_000;
const FEW = 50;
/** Turns are given a little early: one too early waits here, one too late leaves a gap. */
const EARLY = 0.95;
const EARLY_MS_MAX = 3_000;
const TURN_MS_MAX = 3_600_000;
const WITHHELD_MS = 5_000;

type LimitedOptions = {
  shaping: Shaping;
  /** Under which its own limits are counted. */
  name: string;
  receiver: MailReceiver;
  source: SourceAddress;
  /** What holds without rules. */
  connectionsMax: number;
  /** Milliseconds that only move forward. */
  now(): number;
};

export class Limited {
  readonly #options: LimitedOptions;
  readonly #pool: Roommate;
  #shape = NO_SHAPE;
  #room: Room | null = null;
  #target: TargetLimits | null = null;
  #open = 0;
  #version = -1;
  /** When the turn of the next mail is that must wait elsewhere. */
  #turnAt = Number.NEGATIVE_INFINITY;

  constructor(options: LimitedOptions, pool: Roommate) {
    this.#options = options;
    this.#pool = pool;
  }

  get shape(): Shape {
    return this.#shape;
  }

  /** For the pool; null: no rule says anything. */
  get target(): TargetLimits | null {
    return this.#target;
  }

  /** After a change of rules or suspensions; open connections count under the new limit at once. */
  follow(): void {
    const { shaping, receiver, source, connectionsMax, name } = this.#options;
    if (shaping.version === this.#version) return;
    this.#version = shaping.version;
    const shape = shaping.shapeOf(receiver, source);
    const limits = (): RoomLimits | null => shaping.limitsOf(shape, receiver.domain, source, connectionsMax);
    this.#shape = shape;
    this.#moveTo(limits() && `${shape.countedAs ?? name} ${source.name}`, () => limits() ?? NO_LIMITS);
    this.#target = this.#targetIn(this.#room);
  }

  close(): void {
    this.#moveTo(null, () => NO_LIMITS);
  }

  opened(): void {
    this.#open++;
    this.#room?.opened();
  }

  closed(): void {
    this.#open--;
    this.#room?.closed();
  }

  /** How many connections the pool may have now. */
  get connectionsMax(): number {
    return this.#room?.connectionsMax(this.#pool) ?? Number.POSITIVE_INFINITY;
  }

  /** About how long a mail given now waits for its turn. */
  get turnMs(): number {
    return this.#room?.turnMs(this.#pool.waiting) ?? 0;
  }

  /** The answer to a mail whose turn is too far to wait for it here; null: it may come. */
  deferral(): Reply | null {
    const { turnMs } = this;
    if (turnMs <= NEAR_MS || (turnMs <= NEAR_MS_OF_FEW && this.#pool.waiting < FEW)) return null;
    return this.comeBack();
  }

  /** The answer to a mail that found no room here, with the time of its turn; null: no limit is to blame. */
  comeBack(): Reply | null {
    if (this.#room === null) return null;
    const words = limitWords(this.#shape, this.#options.receiver.domain);
    return { ...troubleOf("session", "LIMITED", words), retryMs: this.#nextTurnMs(this.#room) };
  }

  #nextTurnMs(room: Room): number {
    const now = this.#options.now();
    // where only connections are limited nobody knows when there will be one
    const leastMs =
      room.everyMs > 0
        ? this.turnMs - Math.min(EARLY_MS_MAX, this.turnMs / 5)
        : WITHHELD_MS * (1 + Math.random());
    const at = Math.max(this.#turnAt, now + leastMs);
    const latest = now + TURN_MS_MAX;
    this.#turnAt = Math.min(at + room.everyMs * EARLY, latest);
    // what comes after all that has a turn is spread, to be given one then
    return at < latest ? at - now : TURN_MS_MAX * (1 + Math.random());
  }

  #moveTo(name: string | null, limits: () => RoomLimits): void {
    const { rooms } = this.#options.shaping;
    const before = this.#room;
    if (before !== null && before.name === name) {
      before.limits = limits;
      return;
    }
    this.#room = name === null ? null : rooms.enter(name, this.#pool, limits);
    for (let n = 0; n < this.#open; n++) {
      before?.closed();
      this.#room?.opened();
    }
    if (before) rooms.leave(before, this.#pool);
  }

  #targetIn(room: Room | null): TargetLimits | null {
    const { messagesPerConnection } = this.#shape;
    if (room === null && messagesPerConnection === 0) return null;
    return {
      deliveriesMax: messagesPerConnection,
      waitMs: (now) => room?.waitMs(now) ?? 0,
      spend: () => room?.spend(),
      get isContended() {
        return room?.isContended ?? false;
      },
      get isFar() {
        return room !== null && room.turnMs(0) > NEAR_MS_OF_FEW;
      },
    };
  }
}
