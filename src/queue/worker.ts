/**
 * Takes bags from the queue: one BullMQ worker for each shard, on a connection of its own. A bag job never
 * fails: the outcomes of its e-mails are written to Postgres. An exception here is a bug and is reported to
 * `onFault`; the keeper recovers the bag when its lease expires.
 *
 * A worker that takes nothing although its shard has bags to take is replaced, with its connection: after a
 * failover the client of Redis may wait for an answer that never comes, and nothing in it notices.
 */
import { Worker } from "bullmq";
import { atMost } from "../clock.ts";
import { Counter } from "../meter.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { type BagJob, type BagRef, queueName } from "./bagqueue.ts";

const REPLACED = new Counter(
  "postrider_queue_workers_replaced_total",
  "Workers that took no bags although their shard had some, and were replaced",
);

/**
 * A job whose handing out got lost with its answer is locked for nobody, and taken back by the first check
 * after that: 8 s at most. Who is held up for longer than the lock loses it to another, whom the claim of the
 * bag in Postgres then refuses.
 */
const LOCK_MS = 6_000;
const STALLED_CHECK_MS = 2_000;
/** BullMQ's own 15 s would be most of the time that a failover may cost. */
const RETRY_MS = 1_000;
const LOOK_EVERY_MS = 1_000;
/** For so long a worker may take nothing while there are bags that have waited so long. */
const QUIET_MS_MAX = 5_000;
export const WAITED_MS_MAX = 3_000;
/** Whether a quiet worker's shard has such bags. */
const ASK_EVERY_MS = 2_000;

export type BagWorkerParts = {
  /** Opens a connection that is the caller's to close. */
  connect(): RedisClient;
  /** Bags of one shard at once. */
  concurrency: number;
  handle(bag: BagRef): Promise<void>;
  /** Whether bags have waited in this shard for longer than WAITED_MS_MAX. */
  isNeglected(shard: number): Promise<boolean>;
  onReplaced(shard: number): void;
  onFault(error: unknown): void;
};

export class BagWorkers {
  readonly #parts: BagWorkerParts;
  readonly #shards: ShardWorker[] = [];
  /** Those that finish what they have. */
  readonly #leaving = new Set<ShardWorker>();
  readonly #timer: NodeJS.Timeout;
  #isStopped = false;

  constructor(parts: BagWorkerParts) {
    this.#parts = parts;
    this.#timer = setInterval(() => {
      for (const [shard, worker] of this.#shards.entries())
        if (worker.isDueForALook()) this.#lookAt(shard, worker).catch(parts.onFault);
    }, LOOK_EVERY_MS);
  }

  /** Serves the shards below this number, and takes no more bags of others. */
  serve(shards: number): void {
    while (this.#shards.length < shards) this.#shards.push(new ShardWorker(this.#shards.length, this.#parts));
    while (this.#shards.length > shards) this.#leave(this.#shards.pop() as ShardWorker);
  }

  /** Takes no more bags; resolves when the present ones are done, or at the deadline. */
  async stop(deadlineMs: number): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    const all = [...this.#shards, ...this.#leaving];
    await atMost(deadlineMs, Promise.all(all.map((one) => one.finish())));
    // BullMQ would wait for an unreachable Redis without end; Postgres has all that the worker would report
    for (const one of all) one.disconnect();
  }

  async #lookAt(shard: number, worker: ShardWorker): Promise<void> {
    const { isNeglected, onReplaced } = this.#parts;
    if (!(await isNeglected(shard))) return;
    if (this.#isStopped || this.#shards[shard] !== worker) return;
    REPLACED.add(1);
    // of an outage that one replacement does not end, one line in the log is enough
    if (worker.hasTaken) onReplaced(shard);
    this.#shards[shard] = new ShardWorker(shard, this.#parts);
    this.#leave(worker);
  }

  #leave(worker: ShardWorker): void {
    this.#leaving.add(worker);
    // a connection that hangs is no reason to keep it for longer than its jobs are locked
    void atMost(LOCK_MS, worker.finish()).then(() => {
      worker.disconnect();
      this.#leaving.delete(worker);
    });
  }
}

class ShardWorker {
  readonly #parts: BagWorkerParts;
  readonly #redis: RedisClient;
  readonly #worker: Worker<BagJob>;
  #inHand = 0;
  /** Whether it has ever taken a bag. */
  hasTaken = false;
  /** When it last took a bag, or had no room for one. */
  #quietSince = performance.now();
  #askedAt = 0;

  constructor(shard: number, parts: BagWorkerParts) {
    const { connect, concurrency, onFault } = parts;
    this.#parts = parts;
    this.#redis = connect();
    this.#worker = new Worker<BagJob>(
      queueName(shard),
      async ({ data }) => {
        if (isWhole(data)) await this.#handle({ workspaceId: data.w, id: data.b, generation: data.g, shard });
      },
      {
        connection: this.#redis,
        concurrency,
        lockDuration: LOCK_MS,
        stalledInterval: STALLED_CHECK_MS,
        runRetryDelay: RETRY_MS,
        skipVersionCheck: true,
        removeOnComplete: { count: 0 },
        removeOnFail: { count: 0 },
        drainDelay: 5,
      },
    );
    this.#worker.on("error", onFault);
  }

  /** It has taken no bag for some time, although it has room for one, and was not looked at a moment ago. */
  isDueForALook(): boolean {
    const now = performance.now();
    if (this.#inHand >= this.#parts.concurrency || now - this.#quietSince < QUIET_MS_MAX) return false;
    if (now - this.#askedAt < ASK_EVERY_MS) return false;
    this.#askedAt = now;
    return true;
  }

  /** Resolves when the bags in hand are done; takes no others. */
  finish(): Promise<void> {
    return this.#worker.close();
  }

  disconnect(): void {
    this.#worker.disconnect().catch(this.#parts.onFault);
    this.#redis.disconnect();
  }

  async #handle(bag: BagRef): Promise<void> {
    this.hasTaken = true;
    this.#inHand++;
    this.#quietSince = performance.now();
    try {
      await this.#parts.handle(bag);
    } catch (error) {
      this.#parts.onFault(error);
    } finally {
      this.#inHand--;
      this.#quietSince = performance.now();
    }
  }
}

/** One that Redis lost stands in the line as an empty one; the keeper queues its bag again. */
function isWhole({ w, b, g }: Partial<BagJob>): boolean {
  return w !== undefined && b !== undefined && g !== undefined;
}
