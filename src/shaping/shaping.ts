/**
 * Shaping as couriers use it: from which addresses mail may leave, what holds for a receiver, what is
 * suspended, and what a reply changes.
 *
 * Who answers can harm only his own mail: a reply concerns the domain it was about, and a whole provider only
 * when that domain is one whose mailboxes the provider itself runs and all of its MX hosts are the
 * provider's.
 */
import { isIP } from "node:net";
import { withoutAddresses } from "../address.ts";
import { type Clock, DAY_MS } from "../clock.ts";
import type { DestinationHold } from "../record/mail/destinations.ts";
import { type Reply, troubleOf } from "../smtp/reply.ts";
import type { ShapingRules } from "./file.ts";
import type { Holds } from "./holds.ts";
import {
  type MailReceiver,
  NO_SHAPE,
  type PoolWish,
  ratesOn,
  ruleFor,
  type Shape,
  Shaper,
  type SourceAddress,
} from "./match.ts";
import { spacingOf } from "./pacing.ts";
import type { RoomLimits, Rooms } from "./rooms.ts";

/** Whose mail it is: decides the source address. */
export type MailSender = PoolWish;

/** The one destination of all mail, where there is a smarthost. */
export const SMARTHOST = "smarthost";
/** Among the metrics: mail to receivers that the shaping file names no provider of. */
export const NO_GROUP = "other";

const MINUTE_MS = 60_000;
const TURN_MS_MAX = 3_600_000;
const REASON_CHARS_MAX = 300;
/** What no end is known of comes back when it is resumed. */
const FOREVER_MS = 36_500 * DAY_MS;

export type ShapingOptions = {
  holds: Pick<Holds, "isEmpty" | "version" | "suspensionOf" | "factorOf" | "senderLimitOf" | "set">;
  rooms: Pick<Rooms, "enter" | "leave" | "takeOne">;
  clock: Clock;
  /** Without a file, and where it names no source addresses. */
  ownSource: SourceAddress;
};

export class Shaping {
  readonly rooms: ShapingOptions["rooms"];
  readonly #holds: ShapingOptions["holds"];
  readonly #clock: Clock;
  readonly ownSource: SourceAddress;
  readonly #ownPool: readonly SourceAddress[];
  #shaper: Shaper | null = null;
  #changes = 0;

  constructor({ holds, rooms, clock, ownSource }: ShapingOptions) {
    this.rooms = rooms;
    this.#holds = holds;
    this.#clock = clock;
    this.ownSource = ownSource;
    this.#ownPool = [ownSource];
  }

  follow(rules: ShapingRules): void {
    this.#shaper = new Shaper(rules, this.ownSource);
    this.#changes++;
  }

  /** There is nothing to ask here. */
  get isIdle(): boolean {
    return this.#shaper === null && this.#holds.isEmpty;
  }

  /** What was learnt here under another version holds no more. */
  get version(): number {
    return this.#changes + this.#holds.version;
  }

  /** The families of addresses that mail can leave for, the preferred first. */
  get families(): readonly (4 | 6)[] {
    const all = (this.#shaper?.sources ?? this.#ownPool).map(({ address }) =>
      address === null ? 0 : isIP(address),
    );
    return ([4, 6] as const).filter((family) => all.includes(family) || all.includes(0));
  }

  /** null: it is no provider's, or there is no file. */
  providerOf(hosts: readonly string[]): string | null {
    return this.#shaper?.providerOf(hosts) ?? null;
  }

  poolOf(sender: MailSender): readonly SourceAddress[] {
    return this.#shaper?.poolOf(sender) ?? this.#ownPool;
  }

  shapeOf(receiver: MailReceiver, source: SourceAddress): Shape {
    const shape = this.#shaper?.shapeOf(receiver, source) ?? NO_SHAPE;
    const { domain } = receiver;
    // slowed down alone: others with the same hosts go on as fast
    return domain !== null && this.#holds.factorOf(domain, source.name) < 1
      ? { ...shape, isOfDomain: true, countedAs: `domain ${domain}` }
      : shape;
  }

  /** Whether the receiver may get mail from this address today: a new address begins on its first day. */
  hasBegun({ since }: SourceAddress): boolean {
    return since === null || since * DAY_MS <= this.#clock.now();
  }

  /** The limits of the moment; `connectionsMax` is what holds without a limit. */
  limitsOf(
    shape: Shape,
    domain: string | null,
    source: SourceAddress,
    connectionsMax: number,
  ): RoomLimits | null {
    const factor = this.#factorOf(shape, domain, source);
    const rates = ratesOn(Math.floor(this.#clock.now() / DAY_MS), shape, source);
    if (factor === 1 && shape.connections === 0 && rates.length === 0) return null;
    const connections = shape.connections || (factor < 1 ? connectionsMax : 0);
    return {
      connections: connections === 0 ? 0 : Math.max(1, Math.floor(connections * factor)),
      spacings: rates.map((rate) => spacingOf(rate, factor)),
    };
  }

  #factorOf({ provider }: Shape, domain: string | null, { name }: SourceAddress): number {
    const ofDomain = this.#holds.factorOf(domain ?? SMARTHOST, name);
    return provider === null ? ofDomain : Math.min(ofDomain, this.#holds.factorOf(provider, name));
  }

  /** What keeps all mail to one of these destinations from this address; null: nothing. */
  suspensionOf(destinations: readonly (string | null)[], source: string): DestinationHold | null {
    if (this.#holds.isEmpty) return null;
    for (const destination of destinations) {
      const found = destination === null ? null : this.#holds.suspensionOf(destination, source);
      if (found) return found;
    }
    return null;
  }

  /**
   * How many recipients a day this mail's stream may write to at the provider, after trouble there; null: any
   * number.
   */
  senderLimitOf({ workspaceId, stream }: MailSender, provider: string | null): number | null {
    return provider === null ? null : this.#holds.senderLimitOf(workspaceId, stream, provider);
  }

  /** Counts the mail under that limit, or says when it may go. */
  async keepToLimit(
    { workspaceId, stream }: MailSender,
    provider: string,
    perDay: number,
  ): Promise<Reply | null> {
    const spacing = spacingOf({ most: perDay, ms: DAY_MS });
    const waitMs = await this.rooms.takeOne(`sender ${workspaceId} ${stream} ${provider}`, spacing);
    if (waitMs === 0) return null;
    const words = `mail of ${stream} to ${provider} is slowed down to ${perDay} recipients a day, after trouble there`;
    // all that waits would come back at the same time
    const retryMs = Math.min(TURN_MS_MAX, waitMs) * (1 + Math.random());
    return { ...troubleOf("session", "LIMITED", words), retryMs };
  }

  /** What a mail is told that the suspension keeps here. */
  suspended({ destination, until, reason }: DestinationHold): Reply {
    const end = until === null ? "until an operator resumes it" : `until ${until.toISOString()}`;
    const text = `mail to ${destination} is suspended ${end}: ${reason}`;
    const retryMs = until === null ? FOREVER_MS : Math.max(0, until.getTime() - this.#clock.now());
    return { ...troubleOf("session", "SUSPENDED", text), retryMs, heldBy: destination };
  }

  /** A receiver refused: the first automatic rule that fits acts. */
  heard(reply: Reply, domain: string | null, shape: Shape, source: SourceAddress): void {
    const rule = ruleFor(reply, shape.onReply);
    if (!rule) return;
    const { provider } = shape;
    const isOfProvider = provider !== null && domain !== null && this.#shaper?.runs(provider, domain);
    const destination = isOfProvider ? provider : (domain ?? SMARTHOST);
    const until = (minutes: number) => new Date(this.#clock.now() + minutes * MINUTE_MS);
    // every workspace whose mail waits for it reads the reason
    const reason = withoutAddresses(reply.text).slice(0, REASON_CHARS_MAX);
    const hold = { destination, reason, factor: 0 };
    if ("suspend_minutes" in rule.do)
      this.#holds.set({ ...hold, kind: "suspended", source: "", until: until(rule.do.suspend_minutes) });
    else if ("rotate_minutes" in rule.do)
      this.#holds.set({
        ...hold,
        kind: "suspended",
        source: source.name,
        until: until(rule.do.rotate_minutes),
      });
    else {
      const { factor, minutes } = rule.do.slow_down;
      this.#holds.set({ ...hold, kind: "slowed", factor, source: source.name, until: until(minutes) });
    }
  }
}

const SPAN_WORDS: Record<number, string> = { 1000: "a second", 60000: "a minute", 3600000: "an hour" };

/** For whoever asks why a mail waits. */
export function limitWords({ rates, warmUp, connections, provider }: Shape, domain: string | null): string {
  const limits = rates.map(
    ({ most, ms }) => `${most} ${most === 1 ? "message" : "messages"} ${SPAN_WORDS[ms]}`,
  );
  if (connections > 0) limits.push(`${connections} connections`);
  if (warmUp !== null) limits.push("the warm-up of the source address");
  if (limits.length === 0) limits.push("slowed down by a rule");
  const whom = domain ?? provider;
  return `the limit${whom === null ? "" : ` for ${whom}`} is reached (${limits.join(", ")})`;
}
