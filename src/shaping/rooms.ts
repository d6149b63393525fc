/**
 * Fleet-wide limits, as this worker sees them: under each limit a room, shared by all destinations that it
 * counts together. Redis knows what all workers hold (lua/take_room.lua); a room asks it for connections and
 * messages in advance, never for one e-mail that need not wait.
 *
 * Promises: while Redis is away a worker keeps the connections it was given for as long as others count them,
 * and after that uses its share: the limit divided by the workers last seen, for rates at once. While Redis
 * may have lost what others hold, nobody opens a connection under a limit: all of them have said it again
 * soon.
 */

import { messageOf } from "../caught.ts";
import { keyspace } from "../redis/keyspace.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { loadScript } from "../redis/scripts.ts";
import { type DueTimes, type Spacing, takeTurns } from "./pacing.ts";

const takeRoom = loadScript(
  "take_room",
  ["room"],
  ["now", "worker", "lives_ms", "connections_max", "open", "wanted", "spacings", "messages"],
);

/** How long what a worker holds counts; it is renewed much sooner. */
const LIVES_MS = 15_000;
const RENEW_MS = 3_000;
/** Of a room that Redis has known for so long it knows all who hold something. */
const KNOWN_MS = RENEW_MS + 1_000;
/** Between a worker's first answer and what Redis counts from there. */
const ROUND_TRIP_MS = 500;
/** Between two questions for connections that there were not. */
const ASK_AGAIN_MS = 250;
/** How soon an answer is expected; it wakes whoever waits anyway. */
const ANSWER_MS = 100;
/** Messages that were granted and not sent by then are lost: later ones would come on top of the next. */
const GRANT_MS = 1_000;
const GATHER_MS = 100;
const MESSAGES_MAX = 1_000;
/** The other side sees the end of a connection a little later. */
const LINGER_MS = 100;
const DOWN_MS = 2_000;
const COMPLAIN_EVERY_MS = 60_000;

/** `connections` of zero: no limit. */
export type RoomLimits = { readonly connections: number; readonly spacings: readonly Spacing[] };

/** Whoever sends within a room. */
export type Roommate = {
  readonly open: number;
  /** Connections it would have now if there were no limit. */
  readonly wanted: number;
  readonly waiting: number;
  /** There may be room now. */
  wake(): void;
};

type RoomsOptions = {
  redis: RedisClient;
  /** Unique in the fleet. */
  worker: string;
  /** Milliseconds that only move forward. */
  now(): number;
  onFault(error: unknown): void;
};
type RoomOptions = RoomsOptions & {
  /** Whether Redis has lost its data so lately that it may not know what others hold. */
  hasJustLost(): Promise<boolean>;
};

/** How many workers there are, and how many of them come before this one. */
type Fleet = { workers: number; rank: number };

const FLEET = "fleet";
export const NO_LIMITS: RoomLimits = { connections: 0, spacings: [] };

export class Rooms {
  readonly #options: RoomOptions;
  readonly #onFault: (error: unknown) => void;
  readonly #rooms = new Map<string, Room>();
  /** Every worker is in it: how many there are is the measure of a share. */
  readonly #all: Room;
  readonly #timer: NodeJS.Timeout;
  #complainedAt = Number.NEGATIVE_INFINITY;

  constructor(options: RoomsOptions) {
    this.#onFault = options.onFault;
    this.#options = {
      ...options,
      onFault: (error) => this.#complain(error),
      hasJustLost: () => this.#all.isYounger(),
    };
    this.#all = new Room(FLEET, () => NO_LIMITS, this.#options, { workers: 1, rank: 0 });
    this.#timer = setInterval(() => this.#renew(), RENEW_MS);
    this.#all.renew();
  }

  /** `limits` is asked whenever it matters: limits depend on the day, and on how receivers answer. */
  enter(name: string, mate: Roommate, limits: () => RoomLimits): Room {
    let room = this.#rooms.get(name);
    if (!room) {
      room = new Room(name, limits, this.#options, this.#all.fleet);
      this.#rooms.set(name, room);
    }
    room.limits = limits;
    room.mates.add(mate);
    return room;
  }

  leave(room: Room, mate: Roommate): void {
    room.mates.delete(mate);
    if (room.mates.size === 0) this.#rooms.delete(room.name);
  }

  /**
   * For one message of a sender that is slowed down: how long until it may go; zero: now, and it is counted.
   */
  async takeOne(name: string, { ms, everyMs, burst }: Spacing): Promise<number> {
    const { redis, worker } = this.#options;
    try {
      const [, granted = 0, waitMs = 0] = (await takeRoom.run(
        redis,
        { room: keyspace.room(name) },
        {
          ...{ now: 0, worker, lives_ms: LIVES_MS, connections_max: 0, open: 0, wanted: 0, messages: 1 },
          spacings: `${ms}:${everyMs.toFixed(4)}:${burst}`,
        },
      )) as number[];
      return granted > 0 ? 0 : Math.max(1, waitMs);
    } catch (error) {
      this.#complain(error);
      return DOWN_MS;
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #renew(): void {
    this.#all.renew();
    for (const room of this.#rooms.values()) if (room.isUsed) room.renew();
  }

  #complain(error: unknown): void {
    const now = this.#options.now();
    if (now - this.#complainedAt < COMPLAIN_EVERY_MS) return;
    this.#complainedAt = now;
    const why = messageOf(error);
    const words =
      "limits to receivers are kept by each worker for itself, with its share, until Redis answers again";
    this.#onFault(new Error(`${words}: ${why}`));
  }
}

export class Room {
  readonly name: string;
  readonly mates = new Set<Roommate>();
  limits: () => RoomLimits;
  /** Of the workers that use this room, as last seen. */
  readonly fleet: Fleet = { workers: 1, rank: 0 };
  readonly #options: RoomOptions;
  readonly #allWorkers: Fleet;
  #now: RoomLimits;
  /** Connections opened here, and those closed so lately that the other side may still count them. */
  #used = 0;
  #granted = 0;
  #grantedUntil = Number.NEGATIVE_INFINITY;
  #messages = 0;
  #messagesUntil = Number.NEGATIVE_INFINITY;
  /** That Redis would have given beyond those asked for, when it was asked last. */
  #spare = 0;
  #learntAt = Number.NEGATIVE_INFINITY;
  #askMessagesAt = Number.NEGATIVE_INFINITY;
  #askConnectionsAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;
  /** When the first answer came, and since when Redis knows the room. */
  #firstLearntAt = Number.POSITIVE_INFINITY;
  #since = Number.NEGATIVE_INFINITY;
  /** Redis did not answer the last question. */
  #isAlone = false;
  #askRedisAt = Number.NEGATIVE_INFINITY;
  readonly #ownDue: DueTimes = new Map();

  constructor(name: string, limits: () => RoomLimits, options: RoomOptions, allWorkers: Fleet) {
    this.name = name;
    this.limits = limits;
    this.#options = options;
    this.#allWorkers = allWorkers;
    this.#now = limits();
  }

  get isUsed(): boolean {
    return this.#used > 0 || this.#granted > 0 || this.#sum("waiting") > 0;
  }

  // ---- connections

  /** How many connections the mate may have now. */
  connectionsMax(mate: Roommate): number {
    const { connections } = this.#now;
    if (connections === 0) return Number.POSITIVE_INFINITY;
    const free = this.#allowed(connections) - this.#used;
    if (free < 1 && mate.wanted > mate.open) this.#askForConnections();
    return Math.max(0, mate.open + free);
  }

  /** Whether a mate that has had its connection for a while should leave it to another. */
  get isContended(): boolean {
    if (this.mates.size < 2 || this.#now.connections === 0) return false;
    if (this.#used < this.#allowed(this.#now.connections)) return false;
    for (const { waiting, open } of this.mates) if (waiting > 0 && open === 0) return true;
    return false;
  }

  opened(): void {
    this.#used++;
  }

  closed(): void {
    if (this.#now.connections === 0) {
      this.#used--;
      return;
    }
    setTimeout(() => {
      this.#used--;
      this.#wake();
    }, LINGER_MS).unref();
  }

  #allowed(connections: number): number {
    if (this.#options.now() < this.#grantedUntil) return Math.min(this.#granted, connections);
    if (!this.#isAlone) return 0;
    const { workers, rank } = this.#allWorkers;
    // what one worker may not have, another has
    return Math.floor(connections / workers) + (rank < connections % workers ? 1 : 0);
  }

  #askForConnections(): void {
    const now = this.#options.now();
    if (this.#asking || now < this.#askConnectionsAt || now < this.#askRedisAt) return;
    this.#askConnectionsAt = now + ASK_AGAIN_MS;
    void this.#ask(0);
  }

  // ---- messages

  /** How long until a message may go; zero: now. */
  waitMs(now: number): number {
    if (this.#now.spacings.length === 0) return 0;
    if (now >= this.#messagesUntil) this.#messages = 0;
    if (this.#messages > 0) return 0;
    if (now < this.#askMessagesAt) return Math.max(1, this.#askMessagesAt - now);
    if (this.#isAlone) {
      this.#takeShare(now);
      if (now >= this.#askRedisAt) void this.#ask(0);
      return this.#messages > 0 ? 0 : Math.max(1, this.#askMessagesAt - now);
    }
    void this.#ask(Math.min(MESSAGES_MAX, Math.max(1, this.#sum("waiting"))));
    return ANSWER_MS;
  }

  spend(): void {
    if (this.#messages > 0) this.#messages--;
  }

  /** About how long a message waits that comes after so many others. */
  turnMs(before: number): number {
    if (this.#now.spacings.length === 0) return 0;
    const now = this.#options.now();
    // the limit may have been raised since, and nobody who is sent away for long would find out
    if (now - this.#learntAt >= RENEW_MS) this.renew();
    const behind = before - this.#messages - this.#spareAt(now);
    return behind < 0 ? 0 : Math.max(0, this.#askMessagesAt - now) + behind * this.everyMs;
  }

  #spareAt(now: number): number {
    const burst = Math.min(...this.#now.spacings.map((one) => one.burst));
    return Math.min(burst, this.#spare + Math.floor((now - this.#learntAt) / this.everyMs));
  }

  /** Between two messages of this worker, if all have as much to send. */
  get everyMs(): number {
    return Math.max(0, ...this.#now.spacings.map(({ everyMs }) => everyMs)) * this.fleet.workers;
  }

  // ---- Redis

  /** Keeps what is open, gives back what is not used, and learns what others have. */
  renew(): void {
    if (this.#options.now() >= this.#askRedisAt) void this.#ask(0);
  }

  /** Whether Redis knows it for a shorter time than we do, and not for long. */
  async isYounger(): Promise<boolean> {
    await this.#ask(0);
    const { now } = this.#options;
    return now() - this.#since < KNOWN_MS && this.#since - this.#firstLearntAt > ROUND_TRIP_MS;
  }

  #ask(messages: number): Promise<void> {
    this.#asking ??= this.#askNow(messages).finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #askNow(messages: number): Promise<void> {
    this.#now = this.limits();
    const { now, onFault } = this.#options;
    const askedAt = now();
    const wanted = this.#sum("wanted");
    // what is given back must not be used while the answer is under way
    this.#granted = Math.min(this.#granted, Math.max(this.#used, wanted));
    try {
      let answer = await this.#run(messages, wanted);
      const isYoung = this.#now.connections > 0 && (answer[6] ?? KNOWN_MS) < KNOWN_MS;
      if (isYoung && wanted > this.#used && (await this.#options.hasJustLost()))
        answer = [...(await this.#run(0, this.#used)).slice(0, 1), ...answer.slice(1)];
      this.#learn(answer, messages, askedAt);
    } catch (error) {
      onFault(error);
      this.#isAlone = true;
      this.#askRedisAt = now() + DOWN_MS;
    }
    this.#wake();
  }

  async #run(messages: number, wanted: number): Promise<number[]> {
    const { redis, worker } = this.#options;
    const { connections, spacings } = this.#now;
    const answer = await takeRoom.run(
      redis,
      { room: keyspace.room(this.name) },
      {
        now: 0,
        worker,
        lives_ms: LIVES_MS,
        connections_max: connections,
        open: this.#used,
        wanted,
        spacings: spacings.map(({ ms, everyMs, burst }) => `${ms}:${everyMs.toFixed(4)}:${burst}`).join(" "),
        messages,
      },
    );
    return answer as number[];
  }

  #learn(answer: readonly number[], messages: number, askedAt: number): void {
    const [connections = 0, granted = 0, waitMs = 0, workers = 1, rank = 0, spare = 0, ageMs] = answer;
    const now = this.#options.now();
    this.#firstLearntAt = Math.min(this.#firstLearntAt, now);
    if (ageMs !== undefined) this.#since = now - ageMs;
    this.#isAlone = false;
    this.#granted = connections;
    this.#grantedUntil = askedAt + LIVES_MS;
    Object.assign(this.fleet, { workers, rank });
    this.#spare = spare;
    this.#learntAt = now;
    this.#askMessagesAt = now + (messages > 0 || waitMs > 0 ? Math.max(waitMs, this.#gatherMs()) : 0);
    if (granted > 0) {
      this.#messages += granted;
      this.#messagesUntil = now + GRANT_MS;
    }
  }

  /** High rates are asked for some messages at a time. */
  #gatherMs(): number {
    return Math.min(GATHER_MS, ...this.#now.spacings.map(({ burst, everyMs }) => (burst * everyMs) / 2));
  }

  /** Of what the limit allows all workers, when Redis cannot say what the others do. */
  #takeShare(now: number): void {
    this.#now = this.limits();
    const { workers } = this.#allWorkers;
    const spacings = this.#now.spacings.map(({ ms, everyMs, burst }) => ({
      ms,
      everyMs: everyMs * workers,
      burst: Math.max(1, Math.floor(burst / workers)),
    }));
    const { granted, waitMs } = takeTurns(this.#ownDue, spacings, Math.max(1, this.#sum("waiting")), now);
    this.#messages = granted;
    this.#messagesUntil = now + GRANT_MS;
    this.#askMessagesAt = now + waitMs;
    this.#spare = 0;
    this.#learntAt = now;
  }

  #sum(what: "open" | "wanted" | "waiting"): number {
    let sum = 0;
    for (const mate of this.mates) sum += mate[what];
    return sum;
  }

  /** The first one comes last the next time. */
  #wake(): void {
    const [first] = this.mates;
    if (!first) return;
    this.mates.delete(first);
    this.mates.add(first);
    for (const mate of [...this.mates]) mate.wake();
  }
}
