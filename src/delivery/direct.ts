/**
 * The courier that delivers directly: a mail goes to the MX hosts of its recipients' domains, in one SMTP
 * transaction per destination. Replies are in the order of the recipients.
 *
 * Promises: a slow, silent or dead destination delays only its own mail. All slow destinations together hold
 * at most half of the mails in progress; beyond that the longest queue returns its last mails as busy, and
 * they are tried again later. While mail to others waits for a connection, the silent and slow ones are at
 * most half of all: beyond that the slowest are given up, and also where they hold more than half of the
 * mails there may be. At most a quarter of the mails waits long for DNS. Conversations, destinations and
 * caches are bounded.
 */
import { atMost, inTime } from "../clock.ts";
import type { Shape, SourceAddress } from "../shaping/match.ts";
import { type MailSender, NO_GROUP, type Shaping } from "../shaping/shaping.ts";
import { dangerOf, domainOf, type Envelope, type Permit } from "../smtp/envelope.ts";
import { ownName } from "../smtp/ownname.ts";
import type { PoolFigures } from "../smtp/pool.ts";
import { CLOSING, type PoolLimits } from "../smtp/pool.ts";
import type { Reply } from "../smtp/reply.ts";
import { troubleOf } from "../smtp/reply.ts";
import { watchDeadlines } from "../smtp/watch.ts";
import type { Courier } from "./courier.ts";
import { Destination, type Manners, reachableFrom, type SilentConnection } from "./destination.ts";
import { type ReceiverParts, type ReceiverSettings, receiversFor } from "./receivers.ts";
import { type MailRoute, Routes, type RoutesOptions } from "./routes.ts";
import { Sockets } from "./sockets.ts";
import { TlsCounter } from "./tlssessions.ts";

export type DirectOptions = RoutesOptions & {
  manners: Manners;
  shaping: Shaping;
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
  tlsReportsFrom: string | null;
  directConnectionsMax: number;
};

const CONVERSATIONS_MAX = 500;
const DESTINATIONS_MAX = 10_000;
/** A queue is slow when its first mail has waited this long. The length of a fast queue is not limited. */
const SLOW_MS = 2_000;
const ROOM_EVERY_MS = 100;
/**
 * How long a connection is silent before others may have it, and how long where that could repeat a mail.
 * Receivers that greet strangers late, to be rid of them, take 5 or 6 s.
 */
const SILENT_MS = 7_000;
const SILENT_VERDICT_MS = 60_000;
/** So that nothing else waits for long. */
const GIVEN_UP_AT_ONCE = 50;
/** How long a mail waits for DNS when many already wait. */
const CROWDED_DNS_MS_MAX = 1_000;
/** Longer than a destination may be down. */
const DESTINATION_UNUSED_MS = 600_000;
/** The share of destinations removed at once, so that one scan serves many new ones. */
const FORGOTTEN_AT_LEAST = 0.1;
const FAREWELL_MS = 1_000;
/** Counts are not worth a slow end. */
const COUNTER_CLOSE_MS = 500;
const SHAPES_MAX = 20_000;
/** Until a file may name another, or its first day may have come. */
const SOURCE_TO_COME_MS = 60_000;

/** The courier that the settings describe. Throws with words for the operator. */
export function directCourier(settings: DirectSettings, shaping: Shaping, parts: ReceiverParts): Direct {
  const { smtpTls } = settings;
  const helo = settings.ehloName ?? ownName();
  if (helo === null)
    throw new Error(
      "EHLO_NAME must be the full host name of this machine, as in the PTR record of its address.",
    );
  const { routes, secureContext, policies, dane, asksForReports } = receiversFor(settings, parts);
  policies?.start();
  dane?.start(parts.onFault);
  const { sql } = parts;
  const isCounted = sql !== null && settings.tlsReportsFrom !== null && smtpTls !== "off";
  return new Direct({
    ...routes,
    // a shaping file may name other source addresses while we run
    get families() {
      return shaping.families;
    },
    manners: {
      port: settings.directPort,
      tls: smtpTls,
      helo,
      conversationsMax: settings.directConnectionsMax,
      secureContext,
      wallNow: () => parts.clock.now(),
    },
    shaping,
    mailsMax: settings.deliveryConcurrency,
    counter: isCounted ? new TlsCounter({ ...parts, sql, asksForReports }) : null,
    onClose: () => {
      policies?.stop();
      dane?.stop();
    },
  });
}

/** Where a mail goes, or why it goes nowhere. */
type Way = Destination | Reply;

export class Direct implements Courier {
  readonly carriesTo = "receivers";
  readonly #options: DirectOptions;
  readonly #routes: Routes;
  readonly #destinations = new Map<string, Destination>();
  readonly #destinationsMax: number;
  readonly #sockets: Sockets<Destination>;
  /** Where mails are. */
  readonly #used = new Set<Destination>();
  /** Where connections may rest. */
  readonly #rested = new Set<Destination>();
  #roomTimer: NodeJS.Timeout | null = null;
  /** What the rules say, by receiver, domain and source address, under one version of them. */
  #shapes = new Map<string, Shape>();
  #version = 0;
  #providers = new WeakMap<MailRoute, string | null>();
  #turn = 0;
  /** In progress. */
  #mails = 0;
  #asking = 0;
  #isClosing = false;

  constructor(options: DirectOptions) {
    this.#options = options;
    this.#routes = new Routes(options);
    const max = options.conversationsMax ?? CONVERSATIONS_MAX;
    this.#sockets = new Sockets(max, () => this.#used.size);
    this.#destinationsMax = options.destinationsMax ?? DESTINATIONS_MAX;
  }

  groupOf(domain: string): string {
    return this.providerOf(domain) ?? NO_GROUP;
  }

  providerOf(domain: string): string | null {
    const route = this.#routes.known(domain);
    if (!route || !("stops" in route)) return null;
    let provider = this.#providers.get(route);
    if (provider === undefined) {
      provider = this.#options.shaping.providerOf(route.hosts);
      this.#providers.set(route, provider);
    }
    return provider;
  }

  /** Those that wait for one receiver may not keep back those for another. */
  get inHandMax(): number {
    return Number.POSITIVE_INFINITY;
  }

  get isShaped(): boolean {
    return !this.#options.shaping.isIdle;
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

  async send(envelope: Envelope, message: Buffer, permit: Permit, sender: MailSender): Promise<Reply[]> {
    const danger = dangerOf(envelope);
    if (danger) return envelope.to.map(() => danger);
    this.#mails++;
    const sending =
      envelope.to.length === 1
        ? this.#sendToOne(envelope, message, permit, sender)
        : this.#sendToAll(envelope, message, permit, sender);
    const replies = await sending.finally(() => this.#mails--);
    if (this.#options.counter) this.#count(this.#options.counter, envelope, replies);
    return replies;
  }

  /** Most mail: nothing is waited for that is there. */
  async #sendToOne(
    envelope: Envelope,
    message: Buffer,
    permit: Permit,
    sender: MailSender,
  ): Promise<Reply[]> {
    const found = this.#wayOf(domainOf(envelope.to[0] as string), sender);
    const way = found instanceof Promise ? await found : found;
    return way instanceof Destination ? this.#sendTo(way, envelope, message, permit) : [way];
  }

  async #sendToAll(
    envelope: Envelope,
    message: Buffer,
    permit: Permit,
    sender: MailSender,
  ): Promise<Reply[]> {
    const ways = await Promise.all(envelope.to.map((address) => this.#wayOf(domainOf(address), sender)));
    const groups = new Map<Destination, number[]>();
    const replies = new Array<Reply>(ways.length);
    ways.forEach((way, n) => {
      const places = way instanceof Destination ? groups.get(way) : null;
      if (!(way instanceof Destination)) replies[n] = way;
      else if (places) places.push(n);
      else groups.set(way, [n]);
    });
    await Promise.all(
      [...groups].flatMap(([destination, all]) =>
        inParts(all, destination.limited.shape.recipientsPerMessage).map(async (places) => {
          const to = places.map((n) => envelope.to[n] as string);
          const some = await this.#sendTo(destination, { ...envelope, to }, message, permit);
          places.forEach((n, k) => {
            replies[n] = some[k] as Reply;
          });
        }),
      ),
    );
    return replies;
  }

  holdsBack(to: readonly string[], sender: MailSender): Reply[] | null {
    const replies: Reply[] = [];
    for (const address of to) {
      const reply = this.#heldBack(domainOf(address), sender);
      if (reply === null) return null;
      replies.push(reply);
    }
    return replies;
  }

  #heldBack(domain: string, sender: MailSender): Reply | null {
    const { shaping } = this.#options;
    const route = this.#routes.known(domain);
    if (route && "stops" in route) {
      const way = this.#shapedWay(route, domain, sender);
      return way instanceof Destination ? way.limited.deferral() : way;
    }
    const suspension = shaping.suspensionOf([domain], shaping.ownSource.name);
    return suspension && shaping.suspended(suspension);
  }

  async close(deadlineMs: number, answersMs?: number): Promise<void> {
    this.#isClosing = true;
    this.#options.onClose?.();
    this.#setRoomTimer(false);
    await Promise.all([...this.#destinations.values()].map((one) => one.close(deadlineMs, answersMs)));
    if (this.#options.counter) await atMost(COUNTER_CLOSE_MS, this.#options.counter.close());
  }

  #count(counter: TlsCounter, { to }: Envelope, replies: readonly Reply[]): void {
    for (const [n, reply] of replies.entries()) {
      const domain = domainOf(to[n] as string);
      counter.note(domain, this.#routes.known(domain), reply);
    }
  }

  #wayOf(domain: string, sender: MailSender): Way | Promise<Way> {
    const known = this.#routes.known(domain);
    return known
      ? this.#wayAlong(known, domain, sender)
      : this.#ask(domain).then((found) => this.#wayAlong(found, domain, sender));
  }

  #wayAlong(found: MailRoute | Reply, domain: string, sender: MailSender): Way | Promise<Way> {
    if (this.#isClosing) return CLOSING;
    if (!("stops" in found)) return found;
    const { shaping } = this.#options;
    if (!shaping.isIdle || shaping.version !== this.#version) {
      this.#turn++;
      return this.#heldToLimit(this.#shapedWay(found, domain, sender), sender);
    }
    return this.#destinationOf(found, shaping.ownSource, null);
  }

  /** From the source address of the sender's pool from which it may go soonest, equal ones in turn. */
  #shapedWay(route: MailRoute, domain: string, sender: MailSender): Way {
    const { shaping } = this.#options;
    this.#followShaping();
    const pool = shaping.poolOf(sender);
    let best: Destination | null = null;
    let refusal: Reply | null = null;
    for (let n = 0; n < pool.length; n++) {
      const source = pool[(this.#turn + n) % pool.length] as SourceAddress;
      if (!shaping.hasBegun(source) || reachableFrom(source, route.stops).length === 0) continue;
      const shape = this.#shapeOf(route, domain, source);
      const suspension = shaping.suspensionOf([domain, shape.provider], source.name);
      if (suspension) {
        const suspended = shaping.suspended(suspension);
        refusal = refusal ? sooner(refusal, suspended) : suspended;
        continue;
      }
      const found = this.#destinationOf(route, source, shape.isOfDomain ? domain : null);
      if (!(found instanceof Destination)) return found;
      if (best === null || found.limited.turnMs < best.limited.turnMs) best = found;
      if (best.limited.turnMs === 0) break;
    }
    return best ?? refusal ?? this.#withoutSource(pool, route);
  }

  /** Before an address' first day mail waits for that; hosts that no address reaches are as good as none. */
  #withoutSource(pool: readonly SourceAddress[], { stops }: MailRoute): Reply {
    const { shaping } = this.#options;
    const comes = pool.some((source) => !shaping.hasBegun(source) && reachableFrom(source, stops).length > 0);
    return comes ? SOURCE_TO_COME : UNREACHABLE_FROM_HERE;
  }

  /** A sender that is slowed down at this provider waits for its turn. */
  #heldToLimit(way: Way, sender: MailSender): Way | Promise<Way> {
    if (!(way instanceof Destination)) return way;
    const { shaping } = this.#options;
    const { provider } = way.limited.shape;
    const perDay = shaping.senderLimitOf(sender, provider);
    if (provider === null || perDay === null) return way;
    return shaping.keepToLimit(sender, provider, perDay).then((refusal) => refusal ?? way);
  }

  #shapeOf(route: MailRoute, domain: string, source: SourceAddress): Shape {
    const name = `${route.name} ${domain} ${source.name}`;
    let shape = this.#shapes.get(name);
    if (!shape) {
      if (this.#shapes.size >= SHAPES_MAX) this.#shapes.clear();
      shape = this.#options.shaping.shapeOf({ hosts: route.hosts, domain }, source);
      this.#shapes.set(name, shape);
    }
    return shape;
  }

  /** After a change of rules or suspensions what is under way goes by the new ones. */
  #followShaping(): void {
    const { shaping } = this.#options;
    if (shaping.version === this.#version) return;
    this.#version = shaping.version;
    this.#shapes.clear();
    this.#providers = new WeakMap();
    for (const { limited } of this.#used) limited.follow();
  }

  async #ask(domain: string): Promise<MailRoute | Reply> {
    const found = this.#routes.find(domain);
    if (this.#asking >= this.#options.mailsMax / 4)
      return inTime(CROWDED_DNS_MS_MAX, found, () => ASKING_TOO_MUCH);
    this.#asking++;
    await found;
    this.#asking--;
    return found;
  }

  #destinationOf(route: MailRoute, source: SourceAddress, domain: string | null): Destination | Reply {
    const name =
      source.name === "" && domain === null ? route.name : [route.name, source.name, domain].join(" ");
    let destination = this.#destinations.get(name);
    if (!destination) {
      if (this.#destinations.size >= this.#destinationsMax) this.#forgetUnused();
      if (this.#destinations.size >= this.#destinationsMax) return TOO_MANY;
      const { manners, shaping, now, limits } = this.#options;
      destination = new Destination(route, {
        manners,
        sockets: this.#sockets,
        shaping,
        source,
        domain,
        now,
        ...(limits && { limits }),
      });
      this.#destinations.set(name, destination);
    }
    destination.limited.follow();
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
    if (this.#sockets.spare === 0) this.#spareSocket();
    this.#setRoomTimer(!this.#isClosing);
    const replies = await destination.send(envelope, message, permit);
    if (destination.inside === 0) this.#used.delete(destination);
    this.#rested.add(destination);
    const { shape } = destination.limited;
    if (shape.onReply.length > 0)
      replies.forEach((reply, n) => {
        const domain = domainOf(envelope.to[n] as string);
        this.#options.shaping.heard(reply, domain, shape, destination.source);
      });
    return replies;
  }

  /**
   * On a timer, not per mail: when slow destinations hold all the room, no mail is sent that could trigger
   * it.
   */
  #makeRoom(now: number): void {
    if (this.#isClosing) return;
    const slow = [...this.#used].filter(({ waitedMs }) => waitedMs >= SLOW_MS);
    const excess = slow.reduce((sum, { inside }) => sum + inside, 0) - this.#options.mailsMax / 2;
    if (excess > 0) cutLongest(slow, excess);
    this.#makeWay(now);
    this.#setRoomTimer(this.#used.size > 0);
  }

  /** Receivers that say nothing give way to those that would, when connections or mails are short. */
  #makeWay(now: number): void {
    const { lacking, max } = this.#sockets;
    const isFull = this.#mails >= this.#options.mailsMax;
    if (lacking === 0 && !isFull) return;
    const silent = [...this.#sockets.holders].flatMap((one) => one.silent(now, SILENT_MS));
    giveWay(silent, Math.min(silent.length - Math.floor(max / 2), lacking));
    if (!isFull) return;
    const carrying = silent.filter(({ conversation }) => conversation.isCarrying);
    giveWay(carrying, carrying.length - Math.ceil(this.#options.mailsMax / 2));
  }

  #setRoomTimer(isNeeded: boolean): void {
    if (isNeeded) {
      this.#roomTimer ??= watchDeadlines(ROOM_EVERY_MS, this.#options.now, (now) => this.#makeRoom(now));
    } else if (this.#roomTimer) {
      clearInterval(this.#roomTimer);
      this.#roomTimer = null;
    }
  }

  #spareSocket(): void {
    for (const one of this.#rested) {
      if (one.retireIdle()) return;
      this.#rested.delete(one);
    }
  }

  /** A caller with ever new receivers evicts only destinations without mail in progress. */
  #forgetUnused(): void {
    const now = this.#options.now();
    const unused = [...this.#destinations]
      .filter(([, one]) => !this.#used.has(one))
      .sort(([, a], [, b]) => a.usedAt - b.usedAt);
    for (const [n, [name, one]] of unused.entries()) {
      if (n >= this.#destinationsMax * FORGOTTEN_AT_LEAST && now - one.usedAt < DESTINATION_UNUSED_MS) return;
      this.#destinations.delete(name);
      this.#rested.delete(one);
      void one.close(FAREWELL_MS);
    }
  }
}

/** The longest queues return their last mails, until so many have. */
function cutLongest(queues: readonly Destination[], excess: number): void {
  const longestFirst = queues
    .map((one) => ({ one, length: one.waiting }))
    .sort((a, b) => b.length - a.length);
  let left = excess;
  for (let n = 0; n < longestFirst.length && left > 0; n++) {
    // those up to here are as long as this one: they are cut to the length of the next
    const length = longestFirst[n]?.length ?? 0;
    const next = longestFirst[n + 1]?.length ?? 0;
    for (let rest = length; rest > next && left > 0; rest--)
      for (let k = 0; k <= n && left > 0; k++, left--) longestFirst[k]?.one.giveBackLast();
  }
}

/** So many of them, those first that have the least right to stay. */
function giveWay(silent: readonly SilentConnection[], count: number): void {
  if (count <= 0) return;
  const given = silent
    .filter(({ awaitsVerdict, silentMs }) => !awaitsVerdict || silentMs >= SILENT_VERDICT_MS)
    .sort(byRightToStay)
    .slice(0, Math.min(count, GIVEN_UP_AT_ONCE));
  for (const one of given) one.destination.giveWay(one);
}

/** Who never answered a mail goes first, then who has been silent longest. */
function byRightToStay(a: SilentConnection, b: SilentConnection): number {
  return (
    Number(a.awaitsVerdict) - Number(b.awaitsVerdict) ||
    Number(a.isProven) - Number(b.isProven) ||
    b.silentMs - a.silentMs
  );
}

const SOURCE_TO_COME: Reply = {
  ...troubleOf(
    "session",
    "LIMITED",
    "no source address of its pool may send there yet: see `sources` and `pools` in the shaping file",
  ),
  retryMs: SOURCE_TO_COME_MS,
};
const UNREACHABLE_FROM_HERE = troubleOf(
  "route",
  "NO_SOURCE",
  "4.4.4 no source address of its pool reaches the addresses of its hosts: see `sources` and `pools` in the shaping file",
  "4.4.4",
);
const ASKING_TOO_MUCH = troubleOf("session", "BUSY", "too many e-mails wait for DNS");
const TOO_MANY = troubleOf("session", "BUSY", "mail goes to too many destinations");

function sooner(one: Reply, other: Reply): Reply {
  return (one.retryMs ?? Number.POSITIVE_INFINITY) <= (other.retryMs ?? Number.POSITIVE_INFINITY)
    ? one
    : other;
}

/** Zero: all together. */
function inParts(all: readonly number[], most: number): (readonly number[])[] {
  if (most === 0 || all.length <= most) return [all];
  return Array.from({ length: Math.ceil(all.length / most) }, (_, n) => all.slice(n * most, (n + 1) * most));
}
