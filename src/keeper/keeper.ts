/**
 * The keeper: timers and looks in every process that has the role. A tick of one transaction takes an
 * advisory lock in it; a tick of several runs under a lease. So each tick runs in one process at a time, and
 * needs nothing from Redis. The work of a tick is bounded; a tick that did all it may runs again at once. One
 * that can tell by a look at Postgres that there is nothing to do does not run.
 */

import type { Reservations } from "../admission/reserve.ts";
import { eachInTurn } from "../atonce.ts";
import { emptyAudiences, eraseMail } from "../audience/erasure.ts";
import { type CapsChanged, judgeCaps } from "../capacity/caps.ts";
import type { Heard, Policy } from "../capacity/policy.ts";
import { atMost, type Clock, DAY_MS } from "../clock.ts";
import type { AskTxt } from "../domain/published.ts";
import type { ReturnPathDns } from "../domain/returnpath.ts";
import { checkAgain, checkReturnPath } from "../domain/verify.ts";
import { newId } from "../ids.ts";
import { Counter, Gauge, Histogram, SECONDS } from "../meter.ts";
import { keysOf, recordOf } from "../names.ts";
import type { BagQueue, BagToQueue } from "../queue/bagqueue.ts";
import { dropOldChanges } from "../record/accounts/changes.ts";
import { dropOldRuns } from "../record/automations/runs.ts";
import { isMoving } from "../record/cells/moving.ts";
import { type EraseSizes, eraseSizes, hasErasures } from "../record/contacts/erasures.ts";
import type { Sql, Tx } from "../record/db/connect.ts";
import type { LookQuestion, Looks, LookTimes } from "../record/db/looks.ts";
import { isRefusal } from "../record/db/lost.ts";
import { makePartitions } from "../record/db/partitions.ts";
import { clockTime, transactionTime } from "../record/db/time.ts";
import { LEASE_SECONDS } from "../record/mail/bagleases.ts";
import { type Bag, type Bagging, firstRow, noteEpoch, unqueue } from "../record/mail/bags.ts";
import { dropEndedHolds, hasHeld, letGoOfHeld } from "../record/mail/destinations.ts";
import { dropOldClaims } from "../record/mail/idempotency.ts";
import {
  accountsToRelease,
  endExpiredLeases,
  hasDue,
  hasExpiredLeases,
  hasQueued,
  hasRoomed,
  hasUntaken,
  onlyOne,
  packDeferred,
  packScheduled,
  queuedAfter,
  release,
  type TickName,
} from "../record/mail/keeperwork.ts";
import { freeBytesOf, mayBeOverloaded, type OverloadLimits, watchOverload } from "../record/mail/overload.ts";
import { leaveClosedShards, type QueueShards } from "../record/mail/queueshards.ts";
import { dropOldReports } from "../record/mail/reports.ts";
import { dropOldAttachments } from "../record/mail/retention.ts";
import { dropOldBlocks } from "../record/mail/searchblocks.ts";
import { dropOldSoftBounces } from "../record/mail/suppressions.ts";
import { hasUnnumbered, numberEvents } from "../record/outbox/outbox.ts";
import { dropOldDeliveries, stopTelling } from "../record/outbox/webhooks.ts";
import { dropOldTlsReports } from "../record/transport/tlsreports.ts";
import { dropOldLooks } from "../record/workspaces/caplooks.ts";
import { dropOldCounts } from "../record/workspaces/caps.ts";
import { domainsToCheck, type Raised } from "../record/workspaces/domains.ts";
import { letGoOn } from "../record/workspaces/suspension.ts";
import { StepSize } from "../rules/stepsize.ts";
import { type Lease, underLease } from "./lease.ts";
import { recount } from "./recount.ts";
import { Retention, type RetentionDays } from "./retention.ts";
import { SearchUpkeep } from "./searchupkeep.ts";
import { Sight } from "./sight.ts";
import { GRACE_MS, Strays } from "./strays.ts";

const TOOK = new Histogram(
  "postrider_keeper_tick_seconds",
  "How long each tick of the keeper took",
  SECONDS,
  ["tick"],
);
const FAILED = new Counter("postrider_keeper_tick_errors_total", "Ticks of the keeper that failed", ["tick"]);
const SINCE = new Gauge("postrider_keeper_tick_age_seconds", "Time since this keeper's tick last succeeded", [
  "tick",
]);

const RELEASE_WORKSPACES_MAX = 200;
const DOMAINS_MAX = 100;
const RECOUNT_EVERY_TICKS = 30;
/** A tick that met the pause of a workspace that moves to another cell is tried again after this time. */
const AFTER_PAUSE_MS = 1_000;
/** Rows that one step of a tick takes on at most; it takes less where the store is slow. */
const STEPS_MAX = {
  deferred: 5_000,
  scheduled: 5_000,
  resumed: 5_000,
  released: 5_000,
  /** From shards that are drained to others. */
  moved: 1_000,
  leases: 1_000,
  audited: 1_000,
  judged: 200,
  claims: 5_000,
  softBounces: 5_000,
  /** Of webhooks. */
  deliveries: 5_000,
  runs: 5_000,
  reports: 1_000,
  tlsReports: 1_000,
  /** Megabytes each, it may be. */
  attachments: 500,
  events: 5_000,
  held: 5_000,
  /** Workspaces whose old counts go. */
  counts: 1_000,
  searchBlocks: 1_000,
};
/**
 * As in the worker of webhooks, but the keeper has no lower priority than others: it waits less where they
 * are many.
 */
const CROWDED = 0.25;
const CROWDED_EVENTS_MAX = 1_000;
/** As SUPPRESS_SOFT_BOUNCE_DAYS may be. */
const SOFT_BOUNCE_DAYS_MAX = 90;
/** How long TLS reports of others are kept. */
const TLS_REPORT_DAYS = 90;

export type KeeperParts = {
  sql: Sql;
  /** Of a statement on `sql`. */
  timeoutMs: number;
  line: BagQueue;
  shards: Pick<QueueShards, "open" | "served">;
  reservations: Reservations;
  clock: Clock;
  /** How much of the time in which there is something to do this process waits for a core: 0 to 1. */
  crowding(): number;
  retention: RetentionDays;
  /** Of the pool `retention`. */
  retentionSql: Sql;
  overload: OverloadLimits;
  /** The policy of sending caps that is in force now. */
  policy(): Promise<Policy>;
  /** What of the mail's fate reaches us. */
  heard: Heard;
  capsEverySeconds: number;
  askTxt: AskTxt;
  /** Where reports are taken; null: nowhere. */
  returnPaths: ReturnPathDns | null;
  /** A domain is verified for this workspace no longer: what Redis holds of it is out of date. */
  onDomainLost(lost: Raised): Promise<void>;
  /** Caps changed: Redis must not give out the old ones. */
  onCaps(changed: CapsChanged): Promise<void>;
  onFault(error: unknown): void;
};

type Tick = {
  name: TickName;
  everyMs: number;
  run(): Promise<boolean>;
  /** Whether there may be something to do; without it the tick always runs. */
  isDue?: LookQuestion;
  isBusy?: boolean;
  succeededAt?: number;
};

export class Keeper {
  readonly #parts: KeeperParts;
  readonly #ticks: readonly Tick[];
  readonly #strays: Strays;
  readonly #retention: Retention;
  readonly #searchUpkeep: SearchUpkeep;
  readonly #sizes: Record<keyof typeof STEPS_MAX, StepSize>;
  readonly #erasing: EraseSizes;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #running = new Set<Promise<void>>();
  readonly #sight = new Sight();
  readonly #unfollow: (() => void)[] = [];
  #isStopped = false;
  #auditAt = new Map<number, { workspaceId: string; id: string }>();
  #audits = 0;
  #capsAt: string | null = null;
  #countsAt: string | null = null;

  constructor(parts: KeeperParts) {
    this.#parts = parts;
    const slowMs = parts.timeoutMs / 2;
    const { sql, line, clock, retention: days, retentionSql, onFault } = parts;
    this.#sizes = mapped(STEPS_MAX, (max) => new StepSize({ max, slowMs }));
    this.#erasing = eraseSizes(slowMs);
    this.#retention = new Retention({ sql: retentionSql, days, onFault });
    this.#searchUpkeep = new SearchUpkeep(sql, slowMs);
    this.#strays = new Strays({ sql, line, clock, slowMs, queueBags: (bags) => this.#queueBags(bags) });
    this.#ticks = [
      { name: "pack", everyMs: 500, isDue: hasDue, run: () => this.pack() },
      { name: "release", everyMs: 500, isDue: hasRoomed, run: () => this.release() },
      { name: "queue", everyMs: 500, isDue: hasUntaken, run: () => this.queue() },
      { name: "leases", everyMs: 1_000, isDue: hasExpiredLeases, run: () => this.leases() },
      { name: "audit", everyMs: 1_000, isDue: hasQueued, run: () => this.audit() },
      {
        name: "overload",
        everyMs: 2_000,
        isDue: (sql) => mayBeOverloaded(sql, parts.overload),
        run: () => this.overload(),
      },
      { name: "caps", everyMs: parts.capsEverySeconds * 1_000, run: () => this.caps() },
      { name: "events", everyMs: 500, isDue: hasUnnumbered, run: () => this.events() },
      { name: "holds", everyMs: 1_000, isDue: hasHeld, run: () => this.holds() },
      { name: "domains", everyMs: 60_000, run: () => this.domains() },
      { name: "erase", everyMs: 2_000, isDue: hasErasures, run: () => this.erase() },
      { name: "search", everyMs: 10_000, run: () => this.search() },
      { name: "partitions", everyMs: 600_000, run: () => this.partitions() },
      { name: "retention", everyMs: 600_000, run: () => this.retention() },
      { name: "expiry", everyMs: 600_000, run: () => this.expiry() },
    ];
  }

  start(looks: Looks): void {
    const began = performance.now();
    for (const tick of this.#ticks) {
      tick.succeededAt = began;
      this.#unfollow.push(
        SINCE.follow(() => (performance.now() - (tick.succeededAt ?? began)) / 1_000, tick.name),
      );
      if (!tick.isDue) this.#after(0, tick);
      else
        this.#unfollow.push(
          looks.ask(tick.everyMs, tick.isDue, (isDue: boolean, at) => void this.#looked(tick, isDue, at)),
        );
    }
  }

  async #looked(tick: Tick, isDue: boolean, { ms, askedAt, answeredAt }: LookTimes): Promise<void> {
    // each look shows that Postgres is in sight
    if (tick.name === "leases") this.#sight.note(ms, askedAt, answeredAt);
    if (tick.isBusy) return;
    if (isDue || (tick.name === "overload" && (await this.#isDiskShort()))) this.#after(0, tick);
    else tick.succeededAt = answeredAt;
  }

  /** A disk that cannot be asked is a matter for the tick, which complains of it. */
  async #isDiskShort(): Promise<boolean> {
    const { overload } = this.#parts;
    return freeBytesOf(overload).then(
      (free) => free !== null && free < overload.diskFreeMinBytes,
      () => true,
    );
  }

  /** Ticks are transactions: one that does not finish by the deadline is rolled back. */
  async stop(deadlineMs: number): Promise<void> {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    for (const unfollow of this.#unfollow) unfollow();
    await atMost(deadlineMs, Promise.all(this.#running));
  }

  /**
   * Due mail goes into bags: deferred as it is, scheduled after asking the caps. What a suspension held is
   * due again.
   */
  async pack(): Promise<boolean> {
    const { deferred, scheduled } = this.#sizes;
    const isMoreDeferred = await this.#pack(deferred, packDeferred);
    const isMoreScheduled = await this.#pack(scheduled, packScheduled);
    const isMoreHeld = await this.#sizes.resumed.full(
      async (most) => (await this.#only("pack", (tx) => letGoOn(tx, most))) ?? 0,
    );
    return isMoreDeferred || isMoreScheduled || isMoreHeld;
  }

  /**
   * Queues mail that waited for the caps, as far as there is room. An error in one workspace does not stop
   * the others.
   */
  async release(): Promise<boolean> {
    const { sql, clock, onFault } = this.#parts;
    let isMore = false;
    for (const workspaceId of await accountsToRelease(sql, clock.given(), RELEASE_WORKSPACES_MAX))
      try {
        isMore = (await this.#releaseOf(workspaceId)) || isMore;
      } catch (error) {
        if (!isRefusal(error)) throw error;
        onFault(error);
      }
    return isMore;
  }

  async #releaseOf(workspaceId: string): Promise<boolean> {
    const { sql, clock, reservations, onFault } = this.#parts;
    const { bags, handle, isFull } = await this.#sizes.released.take(
      async (most) => {
        const released = await sql.begin(async (tx) => {
          const now = await transactionTime(tx, clock.given());
          return release(tx, workspaceId, now, most, this.#bagging(now));
        });
        return { ...released, isFull: released.moved >= most };
      },
      ({ moved }) => moved,
    );
    await this.#enqueue(bags);
    if (handle) await reservations.forget(handle).catch(onFault);
    return isFull;
  }

  /** Queues bags that have no job, as far as each workspace and the shard have room. */
  async queue(): Promise<boolean> {
    const { sql, shards, clock } = this.#parts;
    const before = new Date(clock.now() - GRACE_MS);
    let isMore = await this.#sizes.moved.full((most) => leaveClosedShards(sql, shards.open, before, most));
    await this.#eachShard(async (shard) => {
      isMore = (await this.#strays.queue(shard)) || isMore;
    });
    return isMore;
  }

  /** A shard whose server is away holds up no other: it fails when all are through. */
  #eachShard(work: (shard: number) => Promise<void>): Promise<void> {
    return eachInTurn(Array(this.#parts.shards.served).keys(), work);
  }

  /** Ends expired leases, unless their holders may have been unable to renew them. */
  async leases(): Promise<boolean> {
    const askedAt = performance.now();
    const seenAt = await clockTime(this.#parts.sql);
    const inSightMs = this.#sight.note(seenAt, askedAt, performance.now());
    if (inSightMs < LEASE_SECONDS * 1_000) return false;
    return this.#sizes.leases.full(
      async (most) => (await this.#only("leases", (tx) => endExpiredLeases(tx, new Date(seenAt), most))) ?? 0,
    );
  }

  /** Checks whether the next thousand bags that should be queued are; corrects the counts now and then. */
  async audit(): Promise<boolean> {
    const { sql, line, clock } = this.#parts;
    const before = new Date(clock.now() - GRACE_MS);
    this.#audits++;
    await this.#eachShard(async (shard) => {
      const from = this.#auditAt.get(shard) ?? FIRST;
      const { bags, most, missing } = await this.#sizes.audited.take(
        async (most) => {
          const bags = await queuedAfter(sql, shard, from, before, most);
          return { bags, most, missing: bags.length > 0 ? await line.missing(bags) : [] };
        },
        ({ bags }) => bags.length,
      );
      const last = bags.at(-1);
      if (last && bags.length === most) this.#auditAt.set(shard, last);
      else this.#auditAt.delete(shard);
      if (missing.length > 0) await unqueue(sql, missing);
      if (missing.length > 0 || this.#audits % RECOUNT_EVERY_TICKS === 0) await recount(sql, line, shard);
    });
    return false;
  }

  /** Refuses sends while the backlog or the disk is beyond its limit. */
  async overload(): Promise<boolean> {
    const { overload, onFault } = this.#parts;
    // before the transaction: a disk may take its time, and a folder that is gone says nothing about the
    // backlog
    const free = await freeBytesOf(overload).catch((error: unknown) => {
      onFault(error);
      return null;
    });
    await this.#only("overload", (tx, now) => watchOverload(tx, overload, free, new Date(now)));
    return false;
  }

  /** Caps grow, freeze and shrink: some workspaces, and whether there are more. */
  async caps(): Promise<boolean> {
    const { sql, clock, policy, heard, onFault } = this.#parts;
    // Redis may lag: what it holds of a workspace ends within a minute
    const onCaps = (changed: CapsChanged) => this.#parts.onCaps(changed).catch(onFault);
    const from = this.#capsAt ?? FIRST.workspaceId;
    this.#capsAt = await this.#leased("caps", async () => {
      const inForce = await policy();
      return this.#sizes.judged.take((most) =>
        judgeCaps({ sql, policy: inForce, heard }, from, clock.now(), most, onCaps),
      );
    });
    return this.#capsAt !== null;
  }

  /** Removes erased contacts from mail, and empties deleted audiences. */
  async erase(): Promise<boolean> {
    const { sql, clock } = this.#parts;
    const isMore = await this.#leased("erase", async () => {
      const hasAudiences = await emptyAudiences(sql, clock, this.#erasing);
      return (await eraseMail(sql, null, clock, this.#erasing)) || hasAudiences;
    });
    return isMore ?? false;
  }

  /** What lists of e-mails are searched by. */
  async search(): Promise<boolean> {
    const { clock } = this.#parts;
    const isMore = await this.#leased("search", (lease) => this.#searchUpkeep.work(clock.now(), lease));
    return isMore ?? false;
  }

  /** Verified domains are looked up again once a day. */
  async domains(): Promise<boolean> {
    const { sql, clock, askTxt, returnPaths, onDomainLost, onFault } = this.#parts;
    const isMore = await this.#leased("domains", async (lease) => {
      const now = clock.now();
      const due = await domainsToCheck(sql, new Date(now), DOMAINS_MAX);
      for (const domain of due) {
        if (!lease.isHeld()) return false;
        for (const lost of await checkAgain({ sql, askTxt, now }, domain))
          await onDomainLost(lost).catch(onFault);
        if (returnPaths) await checkReturnPath(sql, returnPaths, domain, now);
      }
      return due.length === DOMAINS_MAX;
    });
    return isMore ?? false;
  }

  /**
   * Numbers new events, so that they can be read in order. Where mail needs the machine, a few at each tick.
   */
  async events(): Promise<boolean> {
    const isCrowded = this.#parts.crowding() > CROWDED;
    const isFull = await this.#sizes.events.full(async (size) => {
      const most = isCrowded ? Math.min(size, CROWDED_EVENTS_MAX) : size;
      return (await this.#only("events", (tx) => numberEvents(tx, most))) ?? 0;
    });
    return isFull && !isCrowded;
  }

  /** Suspensions of destinations end, and what waited for them is due. */
  async holds(): Promise<boolean> {
    return this.#sizes.held.full(async (most) => {
      const moved = await this.#only("holds", async (tx, now) => {
        const released = await letGoOfHeld(tx, new Date(now), most);
        return Math.max(released, await dropEndedHolds(tx, new Date(now), most));
      });
      return moved ?? 0;
    });
  }

  async partitions(): Promise<boolean> {
    await this.#only("partitions", (tx, now) => makePartitions(tx, now));
    return false;
  }

  /** Drops days of mail whose retention is over. */
  async retention(): Promise<boolean> {
    const { clock } = this.#parts;
    await this.#leased("retention", (lease) => this.#retention.drop(clock.now(), lease));
    return false;
  }

  /** Deletes rows by their own age. A failure with one kind does not stop the others. */
  async expiry(): Promise<boolean> {
    const { sql, retention, onFault } = this.#parts;
    const { claims, attachments, runs, reports, tlsReports, counts, softBounces, deliveries, searchBlocks } =
      this.#sizes;
    const drop = (
      size: StepSize,
      step: (tx: Tx, most: number, now: number) => Promise<number>,
    ): Promise<boolean> =>
      size
        .full(async (most) => (await this.#only("expiry", (tx, now) => step(tx, most, now))) ?? 0)
        .catch((error: unknown) => {
          onFault(error);
          return false;
        });
    const full = [
      await drop(claims, (tx, most, now) => dropOldClaims(tx, new Date(now), most)),
      await drop(attachments, dropOldAttachments),
      await drop(searchBlocks, dropOldBlocks),
      await drop(reports, (tx, most, now) =>
        dropOldReports(tx, new Date(now - retention.bodies * DAY_MS), most),
      ),
      await drop(tlsReports, (tx, most, now) =>
        dropOldTlsReports(tx, new Date(now - TLS_REPORT_DAYS * DAY_MS), most),
      ),
      await drop(runs, (tx, most, now) => dropOldRuns(tx, new Date(now - retention.emails * DAY_MS), most)),
      await drop(softBounces, (tx, most, now) =>
        dropOldSoftBounces(tx, new Date(now - SOFT_BOUNCE_DAYS_MAX * DAY_MS), most),
      ),
      await drop(deliveries, (tx, most, now) =>
        dropOldDeliveries(tx, new Date(now - retention.events * DAY_MS), most),
      ),
    ];
    await stopTelling(sql).catch(onFault);
    const from = this.#countsAt ?? FIRST.workspaceId;
    this.#countsAt = await counts.take((most) =>
      this.#only("expiry", async (tx, now) => {
        await dropOldLooks(tx, from, now, most);
        await dropOldChanges(tx, from, now, most);
        return dropOldCounts(tx, from, now, most);
      }),
    );
    return full.includes(true) || this.#countsAt !== null;
  }

  /** Returns whether it reached its limit. */
  #pack(size: StepSize, step: typeof packDeferred): Promise<boolean> {
    return size.full(async (most) => {
      const packed = await this.#only("pack", (tx, now) => step(tx, now, most, this.#bagging(now)));
      await this.#enqueue(packed?.bags ?? []);
      return packed?.hasLeft ? most : (packed?.moved ?? 0);
    });
  }

  #bagging(now: number): Bagging {
    return { newId: () => newId(now), shards: this.#parts.shards.open };
  }

  /** Bags that were just committed: those of a server that is away are found when bags are queued. */
  async #enqueue(bags: readonly Bag[]): Promise<void> {
    await this.#queueBags(bags.map(firstRow)).catch(this.#parts.onFault);
  }

  /** Returns how many found room. */
  async #queueBags(bags: readonly BagToQueue[]): Promise<number> {
    if (bags.length === 0) return 0;
    const lines = await this.#parts.line.enqueue(bags, async ({ epoch, queued }) => {
      if (queued.length > 0) await noteEpoch(this.#parts.sql, queued, epoch);
    });
    return lines.reduce((sum, { queued }) => sum + queued.length, 0);
  }

  #only<T>(name: TickName, run: (tx: Tx, now: number) => Promise<T>): Promise<T | null> {
    return onlyOne(this.#parts.sql, name, this.#parts.clock.given(), run);
  }

  /** No transaction is open meanwhile. */
  #leased<T>(name: TickName, work: (lease: Lease) => Promise<T>): Promise<T | null> {
    const { sql, onFault } = this.#parts;
    return underLease({ sql, onFault, isStopped: () => this.#isStopped }, name, work);
  }

  #after(ms: number, tick: Tick): void {
    if (this.#isStopped) return;
    tick.isBusy = true;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      const run = this.#run(tick).finally(() => this.#running.delete(run));
      this.#running.add(run);
    }, ms);
    this.#timers.add(timer);
  }

  async #run(tick: Tick): Promise<void> {
    let isMore = false;
    let { everyMs } = tick;
    const began = performance.now();
    try {
      isMore = await tick.run();
      tick.succeededAt = performance.now();
    } catch (error) {
      FAILED.add(1, tick.name);
      this.#parts.onFault(error);
      if (isMoving(error)) everyMs = Math.min(everyMs, AFTER_PAUSE_MS);
    }
    TOOK.note((performance.now() - began) / 1_000, tick.name);
    tick.isBusy = false;
    if (isMore || !tick.isDue) this.#after(isMore ? 0 : everyMs, tick);
  }
}

const FIRST = {
  workspaceId: "00000000-0000-0000-0000-000000000000",
  id: "00000000-0000-0000-0000-000000000000",
};

function mapped<K extends string, V>(of: Record<K, number>, make: (value: number) => V): Record<K, V> {
  return recordOf(keysOf(of), (name) => make(of[name]));
}
