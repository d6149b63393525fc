/**
 * The courier that delivers directly: a mail goes to the MX hosts of its recipients' domains, in one SMTP transaction
 * per destination. Replies are in the order of the recipients.
 *
 * Promises: a slow, silent or dead destination delays only its own mail. All slow destinations together hold at most
 * half of the mails in progress; beyond that the longest queue returns its last mails as busy, and they are tried again
 * later. At most a quarter of the mails waits long for DNS. Conversations, destinations and caches are bounded.
 */
import { atMost } from "../clock.ts";
import { dangerOf, type Envelope, type Permit } from "../smtp/envelope.ts";
import { ownName } from "../smtp/ownname.ts";
import type { PoolFigures } from "../smtp/pool.ts";
import { CLOSING, type PoolLimits } from "../smtp/pool.ts";
import type { Reply } from "../smtp/reply.ts";
import { troubleOf } from "../smtp/reply.ts";
import type { Courier } from "./courier.ts";
import { Destination, type Manners, type Sockets } from "./destination.ts";
import { type ReceiverParts, type ReceiverSettings, receiversFor } from "./receivers.ts";
import { type MailRoute, Routes, type RoutesOptions } from "./routes.ts";
import { TlsCounter } from "./tlssessions.ts";

export type DirectOptions = RoutesOptions & {
  manners: Manners;
  /** The most mails in progress at once. */
  mailsMax: number;
  conversationsMax?: number;
  destinationsMax?: number;
  limits?: Partial<PoolLimits>;
  /** Is told how the connections of each mail were secured. */
  counter?: TlsCounter | null;
  onClose?(): void;
};

export type DirectSettings = ReceiverSettings & {
  ehloName: string | null;
  smtpTls: "required" | "opportunistic" | "off";
  deliveryConcurrency: number;
  directPort: number;
  tlsReportsFrom: string | null;
  directConnectionsMax: number;
};

const CONVERSATIONS_MAX = 500;
const DESTINATIONS_MAX = 10_000;
/** A queue is slow when its first mail has waited this long. The length of a fast queue is not limited. */
const SLOW_MS = 2_000;
const ROOM_EVERY_MS = 100;
/** How long a mail waits for DNS when many already wait. */
const CROWDED_DNS_MS_MAX = 1_000;
/** Longer than a destination may be down. */
const DESTINATION_UNUSED_MS = 600_000;
/** The share of destinations removed at once, so that one scan serves many new ones. */
const FORGOTTEN_AT_LEAST = 0.1;
const FAREWELL_MS = 1_000;
/** Counts are not worth a slow end. */
const COUNTER_CLOSE_MS = 500;

/** The courier that the settings describe. Throws with words for the operator. */
export function directCourier(settings: DirectSettings, parts: ReceiverParts): Direct {
  const { smtpTls, directSourceAddress } = settings;
  const helo = settings.ehloName ?? ownName();
  if (helo === null)
    throw new Error(
      "EHLO_NAME must be the full host name of this machine, as in the PTR record of its address.",
    );
  const { routes, secureContext, policies, asksForReports } = receiversFor(settings, parts);
  policies?.start();
  const { sql } = parts;
  const isCounted = sql !== null && settings.tlsReportsFrom !== null && smtpTls !== "off";
  return new Direct({
    ...routes,
    manners: {
      port: settings.directPort,
      tls: smtpTls,
      helo,
      localAddress: directSourceAddress,
      conversationsMax: settings.directConnectionsMax,
      secureContext,
    },
    mailsMax: settings.deliveryConcurrency,
    counter: isCounted
      ? new TlsCounter({ ...parts, sql, asksForReports, sourceIp: directSourceAddress })
      : null,
    onClose: () => policies?.stop(),
  });
}

export class Direct implements Courier {
  readonly carriesTo = "receivers";
  readonly #options: DirectOptions;
  readonly #routes: Routes;
  readonly #destinations = new Map<string, Destination>();
  readonly #destinationsMax: number;
  readonly #sockets: Sockets;
  /** Where mails are. */
  readonly #used = new Set<Destination>();
  #roomTimer: NodeJS.Timeout | null = null;
  #asking = 0;
  #isClosing = false;

  constructor(options: DirectOptions) {
    this.#options = options;
    this.#routes = new Routes(options);
    const max = options.conversationsMax ?? CONVERSATIONS_MAX;
    this.#sockets = { max, free: max, users: () => this.#used.size };
    this.#destinationsMax = options.destinationsMax ?? DESTINATIONS_MAX;
  }

  get figures(): PoolFigures {
    const sum = { waiting: 0, conversations: 0, idle: 0, trouble: null };
    for (const { figures } of this.#destinations.values()) {
      sum.waiting += figures.waiting;
      sum.conversations += figures.conversations;
      sum.idle += figures.idle;
    }
    return sum;
  }

  async send(envelope: Envelope, message: Buffer, permit: Permit): Promise<Reply[]> {
    const danger = dangerOf(envelope);
    if (danger) return envelope.to.map(() => danger);
    const ways = await Promise.all(envelope.to.map((address) => this.#wayOf(domainOf(address))));
    const groups = new Map<Destination, number[]>();
    const replies = new Array<Reply>(ways.length);
    ways.forEach((way, n) => {
      const places = way instanceof Destination ? groups.get(way) : null;
      if (!(way instanceof Destination)) replies[n] = way;
      else if (places) places.push(n);
      else groups.set(way, [n]);
    });
    await Promise.all(
      [...groups].map(async ([destination, places]) => {
        const to = places.map((n) => envelope.to[n] as string);
        const some = await this.#sendTo(destination, { ...envelope, to }, message, permit);
        places.forEach((n, k) => {
          replies[n] = some[k] as Reply;
        });
      }),
    );
    if (this.#options.counter) this.#count(this.#options.counter, envelope, replies);
    return replies;
  }

  async close(deadlineMs: number): Promise<void> {
    this.#isClosing = true;
    this.#options.onClose?.();
    this.#setRoomTimer(false);
    await Promise.all([...this.#destinations.values()].map((one) => one.close(deadlineMs)));
    if (this.#options.counter) await atMost(COUNTER_CLOSE_MS, this.#options.counter.close());
  }

  #count(counter: TlsCounter, { to }: Envelope, replies: readonly Reply[]): void {
    for (const [n, reply] of replies.entries()) {
      const domain = domainOf(to[n] as string);
      counter.note(domain, this.#routes.known(domain), reply);
    }
  }

  /** The route of the domain, or why there is none. */
  async #wayOf(domain: string): Promise<Destination | Reply> {
    const found = this.#routes.known(domain) ?? (await this.#ask(domain));
    if (this.#isClosing) return CLOSING;
    return "stops" in found ? this.#destinationOf(found) : found;
  }

  async #ask(domain: string): Promise<MailRoute | Reply> {
    const found = this.#routes.find(domain);
    if (this.#asking >= this.#options.mailsMax / 4) return inTime(found);
    this.#asking++;
    await found;
    this.#asking--;
    return found;
  }

  #destinationOf(route: MailRoute): Destination | Reply {
    let destination = this.#destinations.get(route.name);
    if (!destination) {
      if (this.#destinations.size >= this.#destinationsMax) this.#forgetUnused();
      if (this.#destinations.size >= this.#destinationsMax) return TOO_MANY;
      const { manners, now, limits } = this.#options;
      destination = new Destination(route, {
        manners,
        sockets: this.#sockets,
        now,
        ...(limits && { limits }),
      });
      this.#destinations.set(route.name, destination);
    }
    destination.follow(route);
    return destination;
  }

  async #sendTo(
    destination: Destination,
    envelope: Envelope,
    message: Buffer,
    permit: Permit,
  ): Promise<Reply[]> {
    this.#used.add(destination);
    if (this.#sockets.free === 0) this.#spareSocket();
    this.#setRoomTimer(!this.#isClosing);
    const replies = await destination.send(envelope, message, permit);
    if (destination.inside === 0) this.#used.delete(destination);
    return replies;
  }

  /** On a timer, not per mail: when slow destinations hold all the room, no mail is sent that could trigger it. */
  #makeRoom(): void {
    const slow = [...this.#used].filter(({ waitedMs }) => waitedMs >= SLOW_MS);
    let excess = slow.reduce((sum, { inside }) => sum + inside, 0) - this.#options.mailsMax / 2;
    for (; excess > 0; excess--)
      slow.reduce((longest, one) => (one.waiting > longest.waiting ? one : longest)).giveBackLast();
    this.#setRoomTimer(this.#used.size > 0);
  }

  #setRoomTimer(isNeeded: boolean): void {
    if (isNeeded) {
      this.#roomTimer ??= setInterval(() => this.#makeRoom(), ROOM_EVERY_MS);
    } else if (this.#roomTimer) {
      clearInterval(this.#roomTimer);
      this.#roomTimer = null;
    }
  }

  #spareSocket(): void {
    for (const one of this.#destinations.values()) if (one.retireIdle()) return;
  }

  /** A caller with ever new receivers evicts only destinations without mail in progress. */
  #forgetUnused(): void {
    const now = this.#options.now();
    const unused = [...this.#destinations]
      .filter(([, { inside }]) => inside === 0)
      .sort(([, a], [, b]) => a.usedAt - b.usedAt);
    for (const [n, [name, one]] of unused.entries()) {
      if (n >= this.#destinationsMax * FORGOTTEN_AT_LEAST && now - one.usedAt < DESTINATION_UNUSED_MS) return;
      this.#destinations.delete(name);
      void one.close(FAREWELL_MS);
    }
  }
}

const ASKING_TOO_MUCH = troubleOf("session", "BUSY", "too much waits for DNS");
const TOO_MANY = troubleOf("session", "BUSY", "mail goes to too many destinations");

async function inTime(found: Promise<MailRoute | Reply>): Promise<MailRoute | Reply> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Reply>((resolve) => {
    timer = setTimeout(() => resolve(ASKING_TOO_MUCH), CROWDED_DNS_MS_MAX);
  });
  const first = await Promise.race([found, late]);
  clearTimeout(timer);
  return first;
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@") + 1).toLowerCase();
}
