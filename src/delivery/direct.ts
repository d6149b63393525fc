/**
 * The courier to the receivers themselves: a mail goes to the hosts that DNS names for the domains of its recipients, in
 * one transaction for each destination, and the replies come back in the order of the recipients.
 *
 * Promises: a destination that is slow, silent or dead holds up its own mail only. When more than half of the mails that
 * may be under way are, the longest of the slow queues gives its last ones back, as busy, and takes them again when their
 * turn comes. No more than a quarter waits for DNS. Conversations, destinations and what is remembered are bounded.
 */
import { Resolver } from "node:dns/promises";
import type { Reply } from "../outcome/outcome.ts";
import { troubleOf } from "../outcome/outcome.ts";
import { mayCarryTo, type Network } from "./addresses.ts";
import { type Courier, type CourierFigures, dangerOf, type Envelope, type Permit } from "./courier.ts";
import { Destination, type Manners, type Sockets } from "./destination.ts";
import { ownName } from "./ownname.ts";
import { CLOSING, type Limits } from "./pool.ts";
import { type Route, Routes, type RoutesOptions } from "./routes.ts";

export type DirectOptions = RoutesOptions & {
  manners: Manners;
  /** How many mails are given at once, at most. */
  mailsMax: number;
  conversationsMax?: number;
  limits?: Partial<Limits>;
};

export type DirectSettings = {
  ehloName: string | null;
  smtpTls: "required" | "opportunistic" | "off";
  deliveryConcurrency: number;
  dnsServers: readonly string[];
  directPort: number;
  directSourceAddress: string | null;
  directConnectionsMax: number;
  directNetworksAllowed: readonly Network[];
};

const DNS_TIMEOUT_MS = 2_000;
const DNS_TRIES = 2;
const CONVERSATIONS_MAX = 500;
const DESTINATIONS_MAX = 10_000;
/** A queue is slow when its first mail waits for so long; a quick one may be as long as it likes. */
const SLOW_MS = 2_000;
const ROOM_EVERY_MS = 100;
/** Longer than a destination may be down. */
const DESTINATION_UNUSED_MS = 600_000;

/** The courier that the settings describe. Throws with words for the operator. */
export function directCourier(settings: DirectSettings): Direct {
  const { smtpTls, dnsServers, directSourceAddress } = settings;
  const helo = settings.ehloName ?? ownName();
  if (helo === null)
    throw new Error("EHLO_NAME must be the full name of this machine, the one that its address resolves to");
  const dns = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES });
  if (dnsServers.length > 0) dns.setServers(dnsServers);
  return new Direct({
    manners: {
      port: settings.directPort,
      tls: smtpTls,
      helo,
      localAddress: directSourceAddress,
      conversationsMax: settings.directConnectionsMax,
    },
    mailsMax: settings.deliveryConcurrency,
    dns,
    families: directSourceAddress === null ? [4, 6] : [directSourceAddress.includes(":") ? 6 : 4],
    mayCarryTo: mayCarryTo(settings.directNetworksAllowed),
    now: () => performance.now(),
    random: Math.random,
  });
}

export class Direct implements Courier {
  readonly carriesTo = "receivers";
  readonly #options: DirectOptions;
  readonly #routes: Routes;
  readonly #destinations = new Map<string, Destination>();
  readonly #sockets: Sockets;
  /** Where mails are. */
  readonly #used = new Set<Destination>();
  #inside = 0;
  #roomTimer: NodeJS.Timeout | null = null;
  #asking = 0;
  #isClosing = false;

  constructor(options: DirectOptions) {
    this.#options = options;
    this.#routes = new Routes(options);
    this.#sockets = { free: options.conversationsMax ?? CONVERSATIONS_MAX };
  }

  get figures(): CourierFigures {
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
    return replies;
  }

  async close(deadlineMs: number): Promise<void> {
    this.#isClosing = true;
    this.#setRoomTimer(false);
    await Promise.all([...this.#destinations.values()].map((one) => one.close(deadlineMs)));
  }

  /** Where the mail of the domain goes, or why nowhere. */
  async #wayOf(domain: string): Promise<Destination | Reply> {
    const found = this.#routes.known(domain) ?? (await this.#ask(domain));
    if (this.#isClosing) return CLOSING;
    return "stops" in found ? this.#destinationOf(found) : found;
  }

  async #ask(domain: string): Promise<Route | Reply> {
    if (this.#asking >= this.#options.mailsMax / 4) return ASKING_TOO_MUCH;
    this.#asking++;
    try {
      return await this.#routes.find(domain);
    } finally {
      this.#asking--;
    }
  }

  #destinationOf(route: Route): Destination | Reply {
    let destination = this.#destinations.get(route.name);
    if (!destination) {
      if (this.#destinations.size >= DESTINATIONS_MAX) this.#forgetUnused();
      if (this.#destinations.size >= DESTINATIONS_MAX) return TOO_MANY;
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
    this.#inside++;
    this.#used.add(destination);
    const sent = destination.send(envelope, message, permit);
    this.#makeRoom();
    const replies = await sent;
    this.#inside--;
    if (destination.inside === 0) this.#used.delete(destination);
    return replies;
  }

  /** Nobody may send any more because slow destinations have taken all the room: so it is looked at by time, too. */
  #makeRoom(): void {
    if (this.#sockets.free === 0) this.#spareSocket();
    let excess = this.#inside - this.#options.mailsMax / 2;
    this.#setRoomTimer(excess > 0 && !this.#isClosing);
    for (; excess > 0; excess--) {
      const longest = this.#longestSlow();
      if (!longest) return;
      longest.giveBackLast();
    }
  }

  #longestSlow(): Destination | null {
    let longest: Destination | null = null;
    for (const one of this.#used)
      if (one.waiting > (longest?.waiting ?? 0) && one.waitedMs >= SLOW_MS) longest = one;
    return longest;
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

  #forgetUnused(): void {
    const now = this.#options.now();
    for (const [name, one] of this.#destinations)
      if (one.inside === 0 && now - one.usedAt >= DESTINATION_UNUSED_MS) this.#destinations.delete(name);
  }
}

const ASKING_TOO_MUCH = troubleOf("session", "BUSY", "too many domains are being asked about");
const TOO_MANY = troubleOf("session", "BUSY", "mail goes to too many destinations");

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@") + 1).toLowerCase();
}
