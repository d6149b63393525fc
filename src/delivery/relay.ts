/**
 * The courier to one smarthost, for all mail. To shaping rules it is one receiver, and the destination
 * `smarthost`; a suspended domain gets no mail through it.
 *
 * While the smarthost is unreachable, connections are tried one at a time, 100 ms to 5 s apart. Mails wait
 * meanwhile, and are sent when it is back.
 */

import type { Shape } from "../shaping/match.ts";
import type { Roommate } from "../shaping/rooms.ts";
import { type Shaping, SMARTHOST } from "../shaping/shaping.ts";
import type { Peer } from "../smtp/conversation.ts";
import { dangerOf, domainOf, type Envelope, type Permit } from "../smtp/envelope.ts";
import type { PoolFigures } from "../smtp/pool.ts";
import { ConnectionPool, type PoolOptions, type PoolTarget } from "../smtp/pool.ts";
import type { Phase, Reply } from "../smtp/reply.ts";
import type { Courier } from "./courier.ts";
import { Limited } from "./limited.ts";
import { readSmarthost, type SmarthostSettings } from "./smarthost.ts";

export type RelayOptions = PoolOptions & {
  peer: Peer;
  conversationsMax: number;
  shaping: Shaping;
  onFault(error: unknown): void;
};

/**
 * E-mails that wait for a connection, so that none of these is idle while the next bag is claimed and loaded:
 * 40 ms at 12,000 a second. Each e-mail that waits longer costs the collector of garbage more: 1,000 cost 8%
 * of a worker's CPU.
 */
const AHEAD = 500;
const BACKOFF_MS_MIN = 100;
const BACKOFF_MS_MAX = 5_000;

export type RelaySettings = SmarthostSettings & {
  smtpRatePerSecond: number;
  smtpConnectionRatePerSecond: number;
};

/**
 * The relay that the settings describe. A fault is logged once when the smarthost becomes unreachable, not
 * per attempt.
 */
export function relayCourier(
  url: string,
  settings: RelaySettings,
  shaping: Shaping,
  onFault: (error: unknown) => void,
): Relay {
  const { peer, conversationsMax } = readSmarthost(url, settings);
  return new Relay({
    peer,
    conversationsMax,
    shaping,
    ratePerSecond: settings.smtpRatePerSecond,
    conversationRatePerSecond: settings.smtpConnectionRatePerSecond,
    now: () => performance.now(),
    onFault,
  });
}

export class Relay implements Courier, Roommate {
  readonly carriesTo = "smarthost";
  readonly #options: RelayOptions;
  readonly #pool: ConnectionPool;
  readonly #limited: Limited;

  constructor(options: RelayOptions) {
    const { shaping, peer, conversationsMax: connectionsMax, now } = options;
    const receiver = { hosts: [peer.host], domain: null };
    this.#options = options;
    this.#limited = new Limited(
      { shaping, name: SMARTHOST, receiver, source: shaping.ownSource, connectionsMax, now },
      this,
    );
    this.#pool = new ConnectionPool(smarthost(options, this.#limited), options);
  }

  get inHandMax(): number {
    return this.#options.conversationsMax + AHEAD;
  }

  groupOf(): string {
    return SMARTHOST;
  }

  /** Whoever takes it from the smarthost is not known here. */
  providerOf(): null {
    return null;
  }

  get isShaped(): boolean {
    return !this.#options.shaping.isIdle;
  }

  get figures(): PoolFigures {
    return this.#pool.figures;
  }

  get open(): number {
    return this.#pool.conversations;
  }

  get wanted(): number {
    const { waiting, conversations, idle } = this.#pool;
    return Math.min(conversations + Math.max(0, waiting - idle), this.#options.conversationsMax);
  }

  get waiting(): number {
    return this.#pool.waiting;
  }

  wake(): void {
    this.#pool.wake();
  }

  send(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]> {
    const danger = dangerOf(envelope);
    if (danger) return Promise.resolve(envelope.to.map(() => danger));
    this.#limited.follow();
    if (this.#options.shaping.isIdle) return this.#pool.send(envelope, message, permit);
    return this.#sendShaped(envelope, message, permit);
  }

  async #sendShaped(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]> {
    const { shape } = this.#limited;
    const late = this.#limited.deferral();
    const held = envelope.to.map((address) => this.#suspendedFor(address) ?? late);
    const free = envelope.to.filter((_, n) => held[n] === null);
    const most = shape.recipientsPerMessage || free.length;
    const replies: Reply[] = [];
    for (let n = 0; n < free.length; n += most)
      replies.push(...(await this.#pool.send({ ...envelope, to: free.slice(n, n + most) }, message, permit)));
    if (shape.onReply.length > 0)
      for (const [n, reply] of replies.entries()) this.#hear(reply, free[n] as string, shape);
    const turned = replies.map((reply) => (reply.error === "BUSY" && this.#limited.comeBack()) || reply);
    return held.map((reply) => reply ?? (turned.shift() as Reply));
  }

  holdsBack(to: readonly string[]): Reply[] | null {
    this.#limited.follow();
    const replies: Reply[] = [];
    for (const address of to) {
      const reply = this.#suspendedFor(address) ?? this.#limited.deferral();
      if (reply === null) return null;
      replies.push(reply);
    }
    return replies;
  }

  #suspendedFor(address: string): Reply | null {
    const { shaping } = this.#options;
    const suspension = shaping.suspensionOf([SMARTHOST, domainOf(address)], shaping.ownSource.name);
    return suspension && shaping.suspended(suspension);
  }

  close(deadlineMs: number, answersMs?: number): Promise<void> {
    return this.#pool.close(deadlineMs, answersMs).finally(() => this.#limited.close());
  }

  /** What it says about a recipient concerns that domain; what it says before, all mail. */
  #hear(reply: Reply, address: string, shape: Shape): void {
    const { shaping } = this.#options;
    const domain = ABOUT_RECIPIENTS.has(reply.phase) ? domainOf(address) : null;
    shaping.heard(reply, domain, shape, shaping.ownSource);
  }
}

const ABOUT_RECIPIENTS: ReadonlySet<Phase> = new Set(["rcpt", "data", "dot"]);

function smarthost({ peer, conversationsMax, onFault }: RelayOptions, limited: Limited): PoolTarget {
  let failures = 0;
  return {
    name: "the smarthost",
    conversationsMax: () => Math.min(conversationsMax, limited.connectionsMax),
    mayRest: () => true,
    limits: () => limited.target,
    peer: () => {
      limited.opened();
      return peer;
    },
    onOpened: () => {
      failures = 0;
    },
    onRefused: (_, { text }) => {
      limited.closed();
      if (failures === 0) onFault(new Error(`no connection to the smarthost: ${text}`));
      const backoffMs = Math.min(BACKOFF_MS_MIN * 2 ** failures, BACKOFF_MS_MAX);
      failures++;
      return backoffMs;
    },
    onEnded: () => limited.closed(),
  };
}
