/**
 * day: a day of a hundred thousand workspaces of very different sizes (Zipf), in simulated time, against the
 * code that decides who is next (the queue's own scripts, in a real Redis) and what the caps let go (the
 * ledger). The fleet sends a fifth more than the mean and the busiest hour brings twice the mean, so that
 * there is a backlog for a third of the day.
 */
import { SHARD_BAGS_MAX, WORKSPACE_BAGS_MAX } from "../../src/queue/bagqueue.ts";
import { loadScript } from "../../src/redis/scripts.ts";
import {
  type Allowance,
  addWaiting,
  advance,
  BUCKET_MS,
  emptyLedger,
  GRANT_LIVES_MS,
  giveBack,
  judge,
  type Ledger,
  take,
} from "../../src/rules/ledger.ts";
import { TRANSACTIONAL_STREAM } from "../../src/rules/stream.ts";
import { figure } from "../figure.ts";
import { quantile } from "../load.ts";
import type { Bench } from "../machine.ts";
import type { Scenario } from "../scenario.ts";

const WORKSPACES = 100_000;
const TICK_MS = 10_000;
const TICKS = 8_640;
const HOUR_TICKS = 360;
/** After the day there is still a backlog. */
const TICKS_MAX = 2 * TICKS;
const SERVED_AGAINST_MEAN = 1.2;
const BATCH = 100;
/** From so many a day on mail comes in batches. */
const BATCHES_FROM = 100;
const CAP_HOUR_MIN = 50;
/** The hourly cap of a day's volume: the largest meet theirs in the busiest hours. */
const CAP_PART = 1 / 14;
const QUIET_MAX = 10;
const LARGEST = 10;
const BAGS_AT_ONCE = 1_000;
/** As BullMQ orders jobs: by priority, then by when they came. */
const SCORE_OF_TAG = 2 ** 32;
const KEYS = { epoch: "{day}:epoch", fairness: "{day}:fairness", line: "{day}:line" };
const ONES: readonly number[] = new Array<number>(BATCH).fill(1);

const enqueue = loadScript(
  "enqueue",
  ["epoch", "fairness", "line"],
  ["new_epoch", "workspace_max", "shard_max", "bags"],
);
const stepOut = loadScript("step_out", ["fairness"], ["workspaces"]);

type SimBag = { workspace: number; emails: number; arrivedAt: number; allowedAt: number; grantedAt: number };

class Tenant {
  readonly ledger: Ledger = emptyLedger();
  readonly allowance: Allowance;
  /** Not allowed yet, in order. */
  readonly waiting: SimBag[] = [];
  /** Allowed, without a place in the queue, in order. */
  readonly outside: SimBag[] = [];
  /** Sent in each tick. */
  readonly sentIn = new Map<number, number>();
  /** Of its bags, how many have a place in the queue. */
  queued = 0;
  readonly size: number;

  constructor(size: number) {
    this.size = size;
    const capHour = Math.max(CAP_HOUR_MIN, Math.ceil(size * CAP_PART));
    const limits = { dayLimit: null, monthLimit: 1e9, reservedShare: 0 };
    this.allowance = { ...limits, capDay: 1e9, capHour };
  }
}

const day: Scenario = {
  name: "day",
  does: "a simulated day of 100,000 workspaces of Zipf sizes: how long mail waits for its turn, and whether caps hold",
  async run(bench, { sizes, tell }) {
    const sim = new Day(bench, sizes.backlog);
    await sim.run(tell);
    const { waits } = sim;
    const p99 = (of: readonly number[]) =>
      quantile(
        of.toSorted((a, b) => a - b),
        0.99,
      );
    return {
      figures: [
        figure("e-mails of the day", sim.emails, ""),
        figure("p99 wait of who sends at most ten a day", p99(waits.quiet), "s", "at most 60"),
        figure("p99 wait of the ten largest", p99(waits.largest), "s"),
        figure("p99 wait of all others", p99(waits.others), "s"),
        figure("e-mails that waited for a cap", sim.delayed, ""),
        figure("most sent in an hour against the cap", sim.mostAgainstCap(), "x", "at most 1"),
        figure("e-mails that never left", sim.open, "", "none"),
        figure("most bags in the queue", sim.bagsMost, "", "at most 50,000"),
        figure("most memory of the queue", sim.memoryMost / 1e6, "MB"),
      ],
    };
  },
};

class Day {
  readonly waits = { quiet: [] as number[], largest: [] as number[], others: [] as number[] };
  readonly emails: number;
  delayed = 0;
  open = 0;
  bags = 0;
  bagsMost = 0;
  memoryMost = 0;
  readonly #redis: Bench["redis"];
  readonly #tenants: Tenant[];
  readonly #queued = new Map<number, SimBag>();
  /** Workspaces whose mail waits for the caps, and those that have bags outside of the queue. */
  readonly #capped = new Set<number>();
  readonly #wakes = new Set<number>();
  #arrivals: SimBag[][] = [];
  #nextId = 0;

  constructor({ redis }: Bench, wanted: number) {
    this.#redis = redis;
    let harmonic = 0;
    for (let n = 1; n <= WORKSPACES; n++) harmonic += 1 / n;
    const sizes = Array.from({ length: WORKSPACES }, (_, n) =>
      Math.max(1, Math.round(wanted / harmonic / (n + 1))),
    );
    this.#tenants = sizes.map((size) => new Tenant(size));
    this.emails = sizes.reduce((total, size) => total + size, 0);
  }

  async run(tell: (text: string) => void): Promise<void> {
    this.#arrive();
    const perTick = (this.emails / TICKS) * SERVED_AGAINST_MEAN;
    this.open = this.emails;
    let owed = 0;
    for (let tick = 0; tick < TICKS_MAX && this.open > 0; tick++) {
      const now = tick * TICK_MS;
      for (const bag of this.#arrivals[tick] ?? []) this.#accept(bag, now);
      if (now % BUCKET_MS === 0) this.#release(now);
      await this.#fill();
      owed = Math.min(owed + perTick, perTick + BATCH);
      owed -= await this.#send(owed, tick);
      if (tick % HOUR_TICKS === 0) {
        this.memoryMost = Math.max(this.memoryMost, await this.#memory());
        tell(`hour ${tick / HOUR_TICKS}, ${this.open} e-mails to go`);
      }
    }
  }

  /** The most that receivers saw of a workspace in any hour, against its cap. */
  mostAgainstCap(): number {
    let most = 0;
    for (const { sentIn, allowance } of this.#tenants) {
      const ticks = [...sentIn].sort(([a], [b]) => a - b);
      let first = 0;
      let inHour = 0;
      for (const [tick, sent] of ticks) {
        inHour += sent;
        for (; tick - (ticks[first]?.[0] ?? 0) >= HOUR_TICKS; first++) inHour -= ticks[first]?.[1] ?? 0;
        most = Math.max(most, inHour / allowance.capHour);
      }
    }
    return most;
  }

  /** Twice the mean at noon, and next to nothing at midnight. */
  #arrive(): void {
    this.#arrivals = Array.from({ length: TICKS }, () => []);
    let seed = 1;
    const random = (): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed / 2 ** 32;
    };
    for (const [workspace, { size }] of this.#tenants.entries()) {
      const emails = size >= BATCHES_FROM ? BATCH : 1;
      for (let left = size; left > 0; left -= emails) {
        let at = random();
        while (random() > (1 - Math.cos(2 * Math.PI * at)) / 2) at = random();
        const arrivedAt = Math.floor(at * TICKS) * TICK_MS;
        const bag = { workspace, emails: Math.min(emails, left), arrivedAt, allowedAt: 0, grantedAt: 0 };
        this.#arrivals[arrivedAt / TICK_MS]?.push(bag);
        this.bags++;
      }
    }
  }

  #accept(bag: SimBag, now: number): void {
    const { ledger, allowance, waiting } = this.#tenantOf(bag);
    advance(ledger, now);
    const verdict = judge(ledger, allowance, {
      ...TRANSACTIONAL_STREAM,
      ...{ counted: bag.emails, countsDay: true, weights: ONES.slice(0, bag.emails) },
    });
    const go = verdict.kind === "granted" ? verdict.go : 0;
    if (go > 0) this.#allow({ ...bag, emails: go }, now);
    if (go === bag.emails) return;
    this.delayed += bag.emails - go;
    waiting.push({ ...bag, emails: bag.emails - go });
    this.#capped.add(bag.workspace);
  }

  #allow(bag: SimBag, now: number): void {
    this.#tenantOf(bag).outside.push({ ...bag, allowedAt: bag.allowedAt || now, grantedAt: now });
    this.#wakes.add(bag.workspace);
  }

  /** What waits finds room, first come first. Room appears as the windows move on. */
  #release(now: number): void {
    for (const workspace of this.#capped) {
      const { ledger, allowance, waiting } = this.#tenants[workspace] as Tenant;
      advance(ledger, now);
      while (waiting[0]) {
        const [bag] = waiting;
        const go = take(ledger, allowance, TRANSACTIONAL_STREAM, ONES.slice(0, bag.emails));
        if (go === 0) break;
        addWaiting(ledger, TRANSACTIONAL_STREAM, -go);
        this.#allow({ ...bag, emails: go }, now);
        if (go === bag.emails) waiting.shift();
        else waiting[0] = { ...bag, emails: bag.emails - go };
      }
      if (waiting.length === 0) this.#capped.delete(workspace);
    }
  }

  /** Bags get their places, as far as there is room. */
  async #fill(): Promise<void> {
    const ready: SimBag[] = [];
    for (const workspace of this.#wakes) {
      const tenant = this.#tenants[workspace] as Tenant;
      const room = Math.min(
        WORKSPACE_BAGS_MAX - tenant.queued,
        SHARD_BAGS_MAX - this.#queued.size - ready.length,
      );
      const own = tenant.outside.splice(0, Math.max(0, room));
      tenant.queued += own.length;
      ready.push(...own);
      if (tenant.outside.length === 0 || tenant.queued >= WORKSPACE_BAGS_MAX) this.#wakes.delete(workspace);
    }
    for (let n = 0; n < ready.length; n += BAGS_AT_ONCE)
      await this.#enqueue(ready.slice(n, n + BAGS_AT_ONCE));
    this.bagsMost = Math.max(this.bagsMost, this.#queued.size);
  }

  async #enqueue(bags: readonly SimBag[]): Promise<void> {
    const [, ...tags] = (await enqueue.run(this.#redis, KEYS, {
      new_epoch: "day",
      workspace_max: WORKSPACE_BAGS_MAX,
      shard_max: SHARD_BAGS_MAX,
      bags: bags.map(({ workspace, emails }) => `${workspace}=${emails}`).join(" "),
    })) as [string, ...number[]];
    const members = bags.flatMap((bag, n) => {
      const tag = tags[n] as number;
      if (tag === 0) throw new Error("a bag found no room where there was some");
      const id = this.#nextId++;
      this.#queued.set(id, bag);
      return [tag * SCORE_OF_TAG + (id % SCORE_OF_TAG), id];
    });
    await this.#redis.zadd(KEYS.line, ...members);
  }

  /** The worker's part: the head of the queue, as many e-mails as the fleet sends in a tick. */
  async #send(emails: number, tick: number): Promise<number> {
    const now = tick * TICK_MS;
    let sent = 0;
    while (sent < emails && this.#queued.size > 0) {
      const wanted = Math.max(1, Math.min(BAGS_AT_ONCE, Math.floor((emails - sent) / BATCH)));
      const popped = await this.#redis.zpopmin(KEYS.line, wanted);
      const bags: SimBag[] = [];
      for (let n = 0; n < popped.length; n += 2) {
        const id = Number(popped[n]);
        bags.push(this.#queued.get(id) as SimBag);
        this.#queued.delete(id);
      }
      const workspaces = bags.map(({ workspace }) => workspace).join(" ");
      await stepOut.run(this.#redis, { fairness: KEYS.fairness }, { workspaces });
      for (const bag of bags) sent += this.#deliver(bag, tick, now);
    }
    return sent;
  }

  #deliver(bag: SimBag, tick: number, now: number): number {
    const tenant = this.#tenantOf(bag);
    tenant.queued--;
    if (tenant.outside.length > 0) this.#wakes.add(bag.workspace);
    if (!this.#mayGo(bag, now)) return 0;
    this.open -= bag.emails;
    tenant.sentIn.set(tick, (tenant.sentIn.get(tick) ?? 0) + bag.emails);
    this.#waitsOf(bag.workspace, tenant.size).push((now - bag.allowedAt) / 1_000);
    return bag.emails;
  }

  /** A place in the caps that waited too long is given back, and the caps are asked again. */
  #mayGo(bag: SimBag, now: number): boolean {
    if (now - bag.grantedAt < GRANT_LIVES_MS) return true;
    const { ledger, allowance, waiting } = this.#tenantOf(bag);
    advance(ledger, now);
    giveBack(ledger, TRANSACTIONAL_STREAM, bag.emails, bag.grantedAt);
    const go = take(ledger, allowance, TRANSACTIONAL_STREAM, ONES.slice(0, bag.emails));
    if (go === bag.emails) return true;
    giveBack(ledger, TRANSACTIONAL_STREAM, go, now);
    addWaiting(ledger, TRANSACTIONAL_STREAM, bag.emails);
    waiting.unshift(bag);
    this.#capped.add(bag.workspace);
    return false;
  }

  #waitsOf(workspace: number, size: number): number[] {
    if (workspace < LARGEST) return this.waits.largest;
    return size <= QUIET_MAX ? this.waits.quiet : this.waits.others;
  }

  #tenantOf({ workspace }: SimBag): Tenant {
    return this.#tenants[workspace] as Tenant;
  }

  async #memory(): Promise<number> {
    return Number(/used_memory:(\d+)/.exec(await this.#redis.info("memory"))?.[1]);
  }
}

export const scenarios = [day];
