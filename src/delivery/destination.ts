/**
 * One receiver: the hosts that take the mail of all domains with the same MX set, and the conversations we
 * have with them.
 *
 *   unknown --- the first conversation ---> open <--- any conversation ---+
 *      |                                     |                            |
 *      +--- no host lets us in ---> down <---+                            |
 *                                    |--- its time is over: one conversation at a time asks again
 *
 * Hosts are tried by preference, equal ones in turn; a later rank only while no host of an earlier one is
 * reachable. While the destination is down, every mail is answered with the last error and retried by the
 * schedule.
 *
 * Shaping rules may limit it further, for all workers together: see limited.ts.
 *
 * The number of conversations adapts, as TCP does. It starts small, grows by one after as many deliveries as
 * there are conversations while mails waited, and is halved when the receiver disconnects or says that there
 * are too many.
 *
 * STARTTLS is used when offered. Where the handshake fails, the host gets mail without TLS for a while,
 * unless TLS is required. This gives nothing away: certificates of MX hosts are not verified, so an attacker
 * who can break the handshake can also answer it. A host with a need of its own (tlsneed.ts) gets no mail
 * before the connection has proved what is needed, whatever the settings say.
 */

import { createHash } from "node:crypto";
import { isIP } from "node:net";
import type { SecureContext } from "node:tls";
import type { TlsWish } from "../shaping/file.ts";
import type { SourceAddress } from "../shaping/match.ts";
import type { Roommate } from "../shaping/rooms.ts";
import type { Shaping } from "../shaping/shaping.ts";
import type { Conversation, Peer } from "../smtp/conversation.ts";
import type { Envelope, Permit } from "../smtp/envelope.ts";
import type { PoolFigures } from "../smtp/pool.ts";
import { ConnectionPool, type PoolLimits, type PoolTarget } from "../smtp/pool.ts";
import type { Phase, Reply } from "../smtp/reply.ts";
import { requiresTls, stronger, type TlsNeed } from "../smtp/tlsneed.ts";
import { Limited } from "./limited.ts";
import type { MailRoute, Stop } from "./routes.ts";
import type { Claimant, Sockets } from "./sockets.ts";

/** The same for all destinations. */
export type Manners = {
  readonly port: number;
  readonly tls: "required" | "opportunistic" | "off";
  readonly helo: string;
  readonly conversationsMax: number;
  /** Which authorities are trusted where certificates are verified; null: the usual ones. */
  readonly secureContext: SecureContext | null;
  /** What time it is, in ms. */
  wallNow(): number;
};

export type DestinationOptions = {
  manners: Manners;
  /** Shared by all destinations. */
  sockets: Sockets<Destination>;
  shaping: Shaping;
  /** Where its mail leaves from. */
  source: SourceAddress;
  /** The only domain whose mail it gets; null: it is shared. */
  domain: string | null;
  /** Milliseconds that only move forward. */
  now(): number;
  limits?: Partial<PoolLimits>;
};

/** RFC 5321, 4.5.3.2, except for connecting: with several hosts, a dead one is given up soon. */
const LIMITS: Partial<PoolLimits> = {
  greetingMs: 300_000,
  commandMs: 300_000,
  dotMs: 600_000,
  idleMsMax: 5_000,
  waitMsMax: 60_000,
  hurryMs: 20,
};
const CONNECT_MS_OF_ONE = 30_000;
const CONNECT_MS_OF_SEVERAL = 5_000;

const CONVERSATIONS_AT_FIRST = 5;
/** Failures at the same time count once. */
const HALVE_MS_MIN = 1_000;
/** How long after a refused conversation another is tried. */
const REFUSED_MS = 10_000;
const HOST_BAD_MS = 60_000;
const HOST_OPEN_MS = 600_000;
const HOSTS_TRIED_MAX = 5;
const DOWN_MS_MIN = 5_000;
const DOWN_MS_MAX = 300_000;

/** Who answers all the time but takes five times as long for a mail keeps others waiting as well. */
const SLOW_AS_SILENT = 0.2;

const EVERY_MS_AT_FIRST = 20;
const RATE_WEIGHT = 0.05;
const TURN_MS_MAX = 600_000;

export type SilentConnection = {
  readonly destination: Destination;
  readonly conversation: Conversation;
  readonly silentMs: number;
  /** Of a mail that the receiver has all of. */
  readonly awaitsVerdict: boolean;
  /** Whether the receiver answered such a mail, and has not had to give way since. */
  readonly isProven: boolean;
};

/** `conversations` includes those being opened. */
type Host = Stop & { conversations: number; badUntil: number; openUntil: number };

export class Destination implements Roommate, Claimant {
  readonly source: SourceAddress;
  readonly limited: Limited;
  readonly #manners: Manners;
  readonly #sockets: Sockets<Destination>;
  readonly #now: () => number;
  readonly #pool: ConnectionPool;
  #hosts: Host[] = [];
  #learntAt = Number.NEGATIVE_INFINITY;
  #conversations = 0;
  /** The allowed number of conversations, in fractions. */
  #window: number = CONVERSATIONS_AT_FIRST;
  #halvedAt = Number.NEGATIVE_INFINITY;
  /** Between two answers while mails wait. */
  #everyMs = EVERY_MS_AT_FIRST;
  /** The last answer; null: nobody waited then. */
  #answeredAt: number | null = null;
  /** When the last mail that was refused for lack of room should be tried again. */
  #turnAt = Number.NEGATIVE_INFINITY;
  /** Hosts that failed since one was reached. */
  #tried = 0;
  /** Connections that had to give way to others while they opened. */
  readonly #givenUp = new WeakSet<Conversation>();
  /** Whether it answered a final dot, and has not had to give way since. */
  isProven = false;
  #downs = 0;
  #downUntil = Number.NEGATIVE_INFINITY;
  #trouble: Reply | null = null;
  /** Mails not yet answered. */
  inside = 0;
  usedAt: number;

  constructor(
    route: MailRoute,
    { manners, sockets, shaping, source, domain, now, limits }: DestinationOptions,
  ) {
    this.source = source;
    this.#manners = manners;
    this.#sockets = sockets;
    this.#now = now;
    const receiver = { hosts: route.hosts, domain };
    const { conversationsMax: connectionsMax } = manners;
    // the same receiver, whatever its domains ask of TLS
    const name = `receiver ${createHash("sha256")
      .update([...route.hosts].sort().join())
      .digest("base64")}`;
    this.limited = new Limited({ shaping, name, receiver, source, connectionsMax, now }, this);
    this.usedAt = now();
    const connectMs = route.stops.length > 1 ? CONNECT_MS_OF_SEVERAL : CONNECT_MS_OF_ONE;
    this.#pool = new ConnectionPool(this.#place(route.stops[0]?.host ?? "the receiver"), {
      ratePerSecond: 0,
      conversationRatePerSecond: 0,
      now,
      isCarefulAtFirst: true,
      limits: { ...LIMITS, connectMs, ...limits },
    });
    this.follow(route);
  }

  get figures(): PoolFigures {
    return this.#pool.figures;
  }

  get waiting(): number {
    return this.#pool.waiting;
  }

  /** How long the first in the queue has waited. */
  get waitedMs(): number {
    return this.#pool.waitedMs;
  }

  get open(): number {
    return this.#pool.conversations;
  }

  get wanted(): number {
    const { waiting, conversations, idle } = this.#pool;
    if (waiting === 0) return conversations;
    const more = conversations + Math.max(0, waiting - idle);
    // who has none wants one, also while others have them all
    const within = Math.max(1, this.#within(this.#sockets.spare));
    return Math.max(conversations, Math.min(more, Math.floor(this.#window), within));
  }

  wake(): void {
    this.#pool.wake();
  }

  get isDown(): boolean {
    return this.#now() < this.#downUntil;
  }

  /**
   * Several domains share this destination, and each is looked up at its own time: the latest addresses are
   * used. All of them have the same hosts, so no mail goes to a host that its own domain does not name.
   */
  follow({ learntAt, stops }: MailRoute): void {
    if (learntAt <= this.#learntAt) return;
    this.#learntAt = learntAt;
    const known = new Map(this.#hosts.map((host) => [hostKey(host), host]));
    const fresh = { conversations: 0, badUntil: 0, openUntil: 0 };
    this.#hosts = reachableFrom(this.source, stops).map((stop) => ({
      ...(known.get(hostKey(stop)) ?? fresh),
      ...stop,
    }));
  }

  async send(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]> {
    this.usedAt = this.#now();
    if (this.#trouble && this.isDown) return envelope.to.map(() => this.#trouble as Reply);
    const late = this.limited.deferral();
    if (late) return envelope.to.map(() => late);
    this.inside++;
    const replies = await this.#pool.send(envelope, message, permit);
    this.inside--;
    if (replies.every(isBusy))
      return replies.map((reply) => this.limited.comeBack() ?? { ...reply, retryMs: this.#turnMs() });
    this.#learn(replies);
    return replies;
  }

  /** When room is expected for a mail that found none: one after the other, at the present rate. */
  #turnMs(): number {
    const now = this.#now();
    this.#turnAt = Math.max(this.#turnAt, now) + this.#everyMs;
    return Math.min(this.#turnAt - now, TURN_MS_MAX);
  }

  giveBackLast(): void {
    this.#pool.giveBackLast();
  }

  retireIdle(): boolean {
    return this.#pool.retireIdle();
  }

  /** Whether its mail waits for a connection, it has none, and no rule is to blame. */
  get isStarved(): boolean {
    const { waiting, conversations } = this.#pool;
    if (waiting === 0 || conversations > 0 || this.limited.connectionsMax < 1) return false;
    return (this.limited.target?.waitMs(this.#now()) ?? 0) === 0;
  }

  /**
   * Its connections that have kept us waiting for so long: by one answer, or by all it has taken for one mail
   * before it had all of that.
   */
  silent(now: number, ms: number): SilentConnection[] {
    const found: SilentConnection[] = [];
    for (const conversation of this.#pool.all) {
      const { awaitsVerdict } = conversation;
      const slowMs = awaitsVerdict ? 0 : conversation.takenMs(now) * SLOW_AS_SILENT;
      const silentMs = Math.max(conversation.silentMs(now), slowMs);
      if (silentMs < ms) continue;
      const { isProven } = this;
      found.push({ destination: this, conversation, silentMs, awaitsVerdict, isProven });
    }
    return found;
  }

  /** Gives a connection up for mail to others; no other host is tried for now. */
  giveWay({ conversation }: SilentConnection): void {
    if (conversation.isOpening) {
      this.#tried = HOSTS_TRIED_MAX;
      this.#givenUp.add(conversation);
    }
    this.isProven = false;
    const takenMs = conversation.takenMs(this.#now());
    conversation.giveUp(`given up after ${Math.round(takenMs / 1_000)} s, as mail to others waits`);
  }

  close(deadlineMs: number, answersMs?: number): Promise<void> {
    return this.#pool.close(deadlineMs, answersMs).finally(() => this.limited.close());
  }

  #learn(replies: readonly Reply[]): void {
    const now = this.#now();
    if (this.#answeredAt !== null) this.#everyMs += (now - this.#answeredAt - this.#everyMs) * RATE_WEIGHT;
    this.#answeredAt = this.#pool.waiting > 0 ? now : null;
    if (replies.some(isVerdict)) this.isProven = true;
    if (replies.some(isTooMuch)) this.#halve(now);
    else if (this.#isPressed() && replies.some(isTaken))
      this.#window = Math.min(this.#window + 1 / this.#window, this.#manners.conversationsMax);
  }

  #isPressed(): boolean {
    return this.#pool.waiting > 0 && this.#conversations >= Math.floor(this.#window);
  }

  #halve(now: number): void {
    if (now - this.#halvedAt < HALVE_MS_MIN) return;
    this.#halvedAt = now;
    this.#window = Math.max(1, this.#window / 2);
  }

  #place(name: string): PoolTarget {
    return {
      name,
      conversationsMax: () => {
        const own = Math.min(Math.floor(this.#window), this.#socketsMax());
        return Math.min(own, this.limited.connectionsMax);
      },
      mayRest: () => this.#sockets.spare > 0,
      isContended: () => this.#sockets.areShort,
      limits: () => this.limited.target,
      peer: () => {
        this.#sockets.take(this);
        const host = this.#nextHost();
        host.conversations++;
        this.limited.opened();
        return this.#peerAt(host);
      },
      onOpened: () => {
        this.#conversations++;
        this.#tried = 0;
        this.#downs = 0;
        this.#downUntil = Number.NEGATIVE_INFINITY;
      },
      onRefused: (conversation, failure) =>
        this.#onRefused(conversation, this.#leave(conversation.peer), failure),
      onEnded: ({ peer }) => {
        this.#conversations--;
        this.#leave(peer);
      },
    };
  }

  /**
   * When few connections are left, each destination gets at most its share, and one that has more closes
   * some.
   */
  #socketsMax(): number {
    return this.#within(this.#sockets.freeFor(this));
  }

  #within(free: number): number {
    const { max, users } = this.#sockets;
    const share = Math.max(1, Math.floor(max / Math.max(1, users())));
    const within = this.#pool.conversations + free;
    return free > share ? within : Math.min(share, within);
  }

  /** One conversation less; with its host, if DNS still names it. */
  #leave(peer: Peer): Host | null {
    this.#sockets.giveBack(this);
    this.limited.closed();
    const host = this.#hosts.find((one) => hostKey(one) === hostKey(peer));
    if (!host) return null;
    host.conversations = Math.max(0, host.conversations - 1);
    return host;
  }

  /** The host with the fewest conversations, in the first rank that may be reachable. */
  #nextHost(): Host {
    const now = this.#now();
    const good = this.#hosts.filter(({ badUntil }) => badUntil <= now);
    const candidates = good.length > 0 ? good : this.#hosts;
    const rank = Math.min(...candidates.map((host) => host.rank));
    return candidates
      .filter((host) => host.rank === rank)
      .reduce((best, host) => (host.conversations < best.conversations ? host : best));
  }

  #peerAt({ host, address, openUntil, need: ofHost }: Host): Peer {
    const { port, helo, secureContext, wallNow } = this.#manners;
    const { address: localAddress, helo: ownHelo } = this.source;
    const wish = this.limited.shape.tls;
    const need = stronger(ofHost, wish === null ? null : NEED_OF[wish]);
    const tls = wish === "off" || wish === "opportunistic" ? wish : this.#manners.tls;
    return {
      host,
      address,
      ...(localAddress !== null && { localAddress }),
      port,
      tls: requiresTls(need) ? "required" : tls === "opportunistic" && this.#now() < openUntil ? "off" : tls,
      verifyCertificate: need?.kind === "verified",
      ca: null,
      secureContext,
      need,
      wallMs: wallNow(),
      credentials: null,
      helo: ownHelo ?? helo,
    };
  }

  #onRefused(conversation: Conversation, host: Host | null, failure: Reply): number | null {
    const now = this.#now();
    const { tls } = conversation.peer;
    // one that gave way to others shows nothing of the host's TLS
    if (host && failure.phase === "tls" && tls === "opportunistic" && !this.#givenUp.has(conversation)) {
      host.openUntil = now + HOST_OPEN_MS;
      return 0;
    }
    const isNews = host !== null && host.conversations === 0 && host.badUntil <= now;
    if (isNews) host.badUntil = now + HOST_BAD_MS;
    if (this.#conversations > 0) {
      this.#window = Math.max(1, Math.min(this.#window, this.#pool.conversations));
      return REFUSED_MS;
    }
    if (this.isDown) return null;
    if (isNews) this.#tried++;
    const isAnyLeft = this.#hosts.some(({ badUntil }) => badUntil <= now);
    if (isAnyLeft && this.#tried < HOSTS_TRIED_MAX) return 0;
    this.#goDown(failure);
    return null;
  }

  #goDown(failure: Reply): void {
    this.#trouble = failure;
    this.#downUntil = this.#now() + Math.min(DOWN_MS_MIN * 2 ** this.#downs, DOWN_MS_MAX);
    this.#downs++;
    this.#tried = 0;
    this.#window = CONVERSATIONS_AT_FIRST;
    for (const host of this.#hosts) host.badUntil = 0;
  }
}

/** Of rules that ask for more than the settings. */
const NEED_OF: Record<TlsWish, TlsNeed | null> = {
  off: null,
  opportunistic: null,
  required: { kind: "encrypted", by: "setting" },
  verified: { kind: "verified", by: "setting" },
};

/** An IPv4 address reaches only IPv4 addresses. */
export function reachableFrom({ address }: SourceAddress, stops: readonly Stop[]): readonly Stop[] {
  const family = address === null ? 0 : isIP(address);
  return family === 0 ? stops : stops.filter((stop) => isIP(stop.address) === family);
}

/** Hosts of several names may have one address. */
function hostKey({ host, address }: Pick<Peer, "host" | "address">): string {
  return `${host} ${address}`;
}

function isVerdict({ phase, code }: Reply): boolean {
  return phase === "dot" && code !== null;
}

function isTaken(reply: Reply): boolean {
  return isVerdict(reply) && (reply.code as number) < 300;
}

function isBusy({ error }: Reply): boolean {
  return error === "BUSY";
}

const DURING_MAIL: ReadonlySet<Phase> = new Set(["mail", "rcpt", "data", "dot"]);

/** It closes, or broke off. */
function isTooMuch({ phase, code }: Reply): boolean {
  return DURING_MAIL.has(phase) && (code === 421 || code === null);
}
