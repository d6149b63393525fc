/**
 * What this worker does for each recipient domain: e-mails in flight, deliveries a minute, and the last
 * refusals. Every few seconds they go to Redis, where `postrider queue` reads those of all workers; nothing
 * depends on them.
 */

import type { Mailbox } from "../address.ts";
import type { Clock } from "../clock.ts";
import { keyspace } from "../redis/keyspace.ts";
import type { RedisClient } from "../redis/scripts.ts";
import type { Reply } from "../smtp/reply.ts";

export type DomainFigures = {
  domain: string;
  inFlight: number;
  perMinute: number;
  /** The newest last. */
  refusals: { at: string; text: string }[];
};

const PUBLISH_EVERY_MS = 2_000;
/** What was published longer ago is of a worker that has ended. */
const FRESH_MS_MAX = 10_000;
const LIVES_MS = 60_000;
const DOMAINS_MAX = 5_000;
const PUBLISHED_MAX = 100;
const REFUSALS_MAX = 3;
const REFUSAL_CHARS_MAX = 200;
const SPAN_MS = 10_000;
const SPANS = 6;
const SENDING_MAX = 20;

type DomainCounts = {
  inFlight: number;
  delivered: number[];
  span: number;
  refusals: DomainFigures["refusals"];
};
type WorkerFigures = { at: number; domains: DomainFigures[] };

type FiguresOptions = { redis: RedisClient; worker: string; clock: Clock };

export class Figures {
  readonly #options: FiguresOptions;
  readonly #domains = new Map<string, DomainCounts>();
  readonly #timer: NodeJS.Timeout;
  #hasNews = false;

  constructor(options: FiguresOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#publish(), PUBLISH_EVERY_MS);
    void this.#dropOld();
  }

  /** A mail is given to the courier, for these recipients. */
  begin(recipients: readonly Mailbox[]): void {
    for (const { domain } of recipients) this.#of(domain).inFlight++;
  }

  /** One reply for each of them. */
  end(recipients: readonly Mailbox[], replies: readonly Reply[]): void {
    this.#hasNews = true;
    for (const [n, { domain }] of recipients.entries()) {
      const counts = this.#of(domain);
      counts.inFlight--;
      const reply = replies[n] as Reply;
      if (reply.code !== null && reply.code < 300) this.#count(counts);
      else if (reply.phase !== "session") this.#note(counts, reply);
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Of workers that have ended, which would stay as long as there is one. */
  async #dropOld(): Promise<void> {
    const { redis, clock } = this.#options;
    const all = await redis.hgetall(keyspace.figures()).catch(() => ({}));
    const old = Object.entries(all).filter(
      ([, text]) => clock.now() - (JSON.parse(text as string) as WorkerFigures).at > LIVES_MS,
    );
    if (old.length > 0)
      await redis.hdel(keyspace.figures(), ...old.map(([worker]) => worker)).catch(() => {});
  }

  #count(counts: DomainCounts): void {
    this.#turn(counts);
    const place = counts.span % SPANS;
    counts.delivered[place] = (counts.delivered[place] as number) + 1;
  }

  #note({ refusals }: DomainCounts, { text }: Reply): void {
    const short = text.slice(0, REFUSAL_CHARS_MAX);
    const same = refusals.findIndex((one) => one.text === short);
    if (same >= 0) refusals.splice(same, 1);
    refusals.push({ at: new Date(this.#options.clock.now()).toISOString(), text: short });
    if (refusals.length > REFUSALS_MAX) refusals.shift();
  }

  /** DomainCounts of spans that have passed are emptied. */
  #turn(counts: DomainCounts): void {
    const span = Math.floor(this.#options.clock.now() / SPAN_MS);
    for (let past = Math.max(counts.span + 1, span - SPANS + 1); past <= span; past++)
      counts.delivered[past % SPANS] = 0;
    counts.span = span;
  }

  #of(domain: string): DomainCounts {
    let counts = this.#domains.get(domain);
    if (!counts) {
      if (this.#domains.size >= DOMAINS_MAX) this.#forgetIdle();
      counts = { inFlight: 0, delivered: new Array<number>(SPANS).fill(0), span: 0, refusals: [] };
      this.#domains.set(domain, counts);
    }
    return counts;
  }

  #forgetIdle(): void {
    for (const [domain, { inFlight }] of this.#domains) if (inFlight === 0) this.#domains.delete(domain);
  }

  async #publish(): Promise<void> {
    if (!this.#hasNews) return;
    const { redis, worker, clock } = this.#options;
    const domains = [...this.#domains].map(([domain, counts]): DomainFigures => {
      this.#turn(counts);
      const perMinute = counts.delivered.reduce((sum, count) => sum + count, 0);
      return { domain, inFlight: counts.inFlight, perMinute, refusals: counts.refusals };
    });
    const active = domains.filter(
      ({ inFlight, perMinute, refusals }) => inFlight + perMinute + refusals.length > 0,
    );
    active.sort((a, b) => b.inFlight + b.perMinute - (a.inFlight + a.perMinute));
    this.#hasNews = active.some(({ inFlight, perMinute }) => inFlight + perMinute > 0);
    const published: WorkerFigures = { at: clock.now(), domains: active.slice(0, PUBLISHED_MAX) };
    // while Redis is away nobody can read them either
    await redis.hset(keyspace.figures(), worker, JSON.stringify(published)).catch(() => {});
    await redis.pexpire(keyspace.figures(), LIVES_MS).catch(() => {});
  }
}

/** Of all workers together, by domain. */
export async function readFigures(redis: RedisClient, now: number): Promise<Map<string, DomainFigures>> {
  const sums = new Map<string, DomainFigures>();
  for (const text of Object.values(await redis.hgetall(keyspace.figures()))) {
    const { at, domains } = JSON.parse(text) as WorkerFigures;
    const isFresh = now - at < FRESH_MS_MAX;
    for (const one of domains) {
      const sum = sums.get(one.domain) ?? { domain: one.domain, inFlight: 0, perMinute: 0, refusals: [] };
      if (isFresh) sum.inFlight += one.inFlight;
      if (isFresh) sum.perMinute += one.perMinute;
      sum.refusals.push(...one.refusals);
      sums.set(one.domain, sum);
    }
  }
  for (const sum of sums.values())
    sum.refusals = sum.refusals.sort((a, b) => (a.at < b.at ? -1 : 1)).slice(-REFUSALS_MAX);
  return sums;
}

/** As operators see it. */
export type SendingDomain = {
  domain: string;
  in_flight: number;
  delivered_per_minute: number;
  last_refusals: DomainFigures["refusals"];
};

/** The busiest domains. */
export function sendingNow(figures: ReadonlyMap<string, DomainFigures>): SendingDomain[] {
  return [...figures.values()]
    .filter(({ inFlight, perMinute }) => inFlight + perMinute > 0)
    .sort((a, b) => b.inFlight + b.perMinute - (a.inFlight + a.perMinute))
    .slice(0, SENDING_MAX)
    .map(({ domain, inFlight, perMinute, refusals }) => ({
      domain,
      in_flight: inFlight,
      delivered_per_minute: perMinute,
      last_refusals: refusals,
    }));
}
