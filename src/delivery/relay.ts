/**
 * The courier to one smarthost, for all mail.
 *
 * While the smarthost is unreachable, connections are tried one at a time, 100 ms to 5 s apart. Mails wait meanwhile,
 * and are sent when it is back.
 */

import type { Peer } from "../smtp/conversation.ts";
import { dangerOf, type Envelope, type Permit } from "../smtp/envelope.ts";
import type { PoolFigures } from "../smtp/pool.ts";
import { ConnectionPool, type PoolOptions, type PoolTarget } from "../smtp/pool.ts";
import type { Reply } from "../smtp/reply.ts";
import type { Courier } from "./courier.ts";
import { readSmarthost, type SmarthostSettings } from "./smarthost.ts";

export type RelayOptions = PoolOptions & {
  peer: Peer;
  conversationsMax: number;
  onFault(error: unknown): void;
};

const BACKOFF_MS_MIN = 100;
const BACKOFF_MS_MAX = 5_000;

export type RelaySettings = SmarthostSettings & {
  smtpRatePerSecond: number;
  smtpConnectionRatePerSecond: number;
};

/**
 * The relay that the settings describe. A fault is logged once when the smarthost becomes unreachable, not per attempt.
 */
export function relayCourier(url: string, settings: RelaySettings, onFault: (error: unknown) => void): Relay {
  const { peer, conversationsMax } = readSmarthost(url, settings);
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
  readonly carriesTo = "smarthost";
  readonly #pool: ConnectionPool;

  constructor(options: RelayOptions) {
    this.#pool = new ConnectionPool(smarthost(options), options);
  }

  get figures(): PoolFigures {
    return this.#pool.figures;
  }

  send(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]> {
    const danger = dangerOf(envelope);
    if (danger) return Promise.resolve(envelope.to.map(() => danger));
    return this.#pool.send(envelope, message, permit);
  }

  close(deadlineMs: number): Promise<void> {
    return this.#pool.close(deadlineMs);
  }
}

function smarthost({ peer, conversationsMax, onFault }: RelayOptions): PoolTarget {
  let failures = 0;
  return {
    name: "the smarthost",
    conversationsMax: () => conversationsMax,
    mayRest: () => true,
    peer: () => peer,
    onOpened: () => {
      failures = 0;
    },
    onRefused: (_, { text }) => {
      if (failures === 0) onFault(new Error(`no connection to the smarthost: ${text}`));
      const backoffMs = Math.min(BACKOFF_MS_MIN * 2 ** failures, BACKOFF_MS_MAX);
      failures++;
      return backoffMs;
    },
    onEnded: () => {},
  };
}
