/**
 * The destinations that are suspended or slowed down, and the senders that are held to a limit at a provider,
 * as this worker knows them: what Postgres has is looked for every second, and what a rule sets here counts
 * here at once. While Postgres is away the last that was known counts.
 */
import type { Clock } from "../clock.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Looks } from "../record/db/looks.ts";
import {
  type DestinationHold,
  HOLDS_MAX,
  holdByRule,
  holdsMark,
  listHolds,
  readHoldsMark,
} from "../record/mail/destinations.ts";
import { listSenderLimits } from "../record/workspaces/senderlimits.ts";

const LOOK_EVERY_MS = 1_000;
/** No mark of Postgres. */
const UNREAD = "";
/** Replies to mail that was under way already say nothing new. */
const NEWS_AFTER_MS = 60_000;

type HoldsOptions = {
  sql: Sql;
  clock: Clock;
  onFault(error: unknown): void;
  /** All that are known now: somebody changed one, or a rule did. */
  onChange?(holds: readonly DestinationHold[]): void;
};

export class Holds {
  readonly #options: HoldsOptions;
  #unfollow = () => {};
  #holds = new Map<string, DestinationHold[]>();
  #limits = new Map<string, number>();
  /** Of what was read last. */
  #mark = UNREAD;
  /** Holds of our rules that Postgres has. */
  #written = 0;
  #isLooking = false;
  #isFailing = false;
  /** Rises with every change. */
  version = 0;

  constructor(options: HoldsOptions) {
    this.#options = options;
  }

  /** Looks every second from now on. */
  keepLooking(looks: Looks): void {
    this.#unfollow = looks.ask(LOOK_EVERY_MS, holdsMark, (mark: string) => {
      if (mark !== this.#mark) void this.look();
    });
  }

  get isEmpty(): boolean {
    return this.#holds.size === 0 && this.#limits.size === 0;
  }

  /** How many recipients a day a stream of a workspace may write to at a provider; null: no such limit. */
  senderLimitOf(workspaceId: string, stream: string, provider: string): number | null {
    return this.#limits.get(`${workspaceId} ${stream} ${provider}`) ?? null;
  }

  stop(): void {
    this.#unfollow();
  }

  /** Suspended now for this source address, by the one that ends last. */
  suspensionOf(destination: string, source: string): DestinationHold | null {
    let longest: DestinationHold | null = null;
    for (const hold of this.#holds.get(destination) ?? [])
      if (hold.kind === "suspended" && this.#isInForce(hold, source) && endOf(hold) >= endOf(longest))
        longest = hold;
    return longest;
  }

  /** What the limits of a destination are multiplied by now. */
  factorOf(destination: string, source: string): number {
    let factor = 1;
    for (const hold of this.#holds.get(destination) ?? [])
      if (hold.kind === "slowed" && this.#isInForce(hold, source)) factor *= hold.factor;
    return factor;
  }

  #isInForce({ source: about, until }: DestinationHold, source: string): boolean {
    return (
      (about === "" || about === source) && (until === null || until.getTime() > this.#options.clock.now())
    );
  }

  /** By a rule: here at once, and for everybody as soon as Postgres has it. */
  set(hold: Omit<DestinationHold, "setBy" | "changedAt">): void {
    const { sql, clock, onFault } = this.#options;
    const now = new Date(clock.now());
    const known = this.#holds.get(hold.destination) ?? [];
    const isSame = ({ source, kind }: DestinationHold) => source === hold.source && kind === hold.kind;
    const before = known.find(isSame) ?? null;
    if (before && (endOf(before) >= (hold.until?.getTime() ?? 0) || isFresh(before, now))) return;
    if (!before && this.#holds.size >= HOLDS_MAX) return;
    const others = known.filter((one) => !isSame(one));
    this.#holds.set(hold.destination, [...others, { ...hold, setBy: "rule", changedAt: now }]);
    this.version++;
    holdByRule(sql, hold, now).then(() => this.#readAnew(), onFault);
  }

  /** Whoever ends a hold before we have looked leaves the mark as it was when we did not know it. */
  #readAnew(): void {
    this.#written++;
    this.#mark = UNREAD;
  }

  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { sql, onFault, onChange } = this.#options;
    const written = this.#written;
    try {
      const mark = await readHoldsMark(sql);
      this.#isFailing = false;
      if (mark === this.#mark) return;
      const [holds, limits] = await Promise.all([listHolds(sql), listSenderLimits(sql)]);
      const byDestination = new Map<string, DestinationHold[]>();
      for (const hold of holds) {
        const known = byDestination.get(hold.destination);
        if (known) known.push(hold);
        else byDestination.set(hold.destination, [hold]);
      }
      const hadAny = !this.isEmpty;
      this.#holds = byDestination;
      this.#limits = new Map(
        limits.map((one) => [`${one.workspaceId} ${one.stream} ${one.provider}`, one.perDay]),
      );
      this.#mark = written === this.#written ? mark : UNREAD;
      this.version++;
      if (hadAny || holds.length > 0) onChange?.(holds);
    } catch (error) {
      if (!this.#isFailing) onFault(error);
      this.#isFailing = true;
    } finally {
      this.#isLooking = false;
    }
  }
}

function isFresh({ changedAt }: DestinationHold, now: Date): boolean {
  return now.getTime() - changedAt.getTime() < NEWS_AFTER_MS;
}

function endOf(hold: DestinationHold | null): number {
  if (hold === null) return Number.NEGATIVE_INFINITY;
  return hold.until?.getTime() ?? Number.POSITIVE_INFINITY;
}
