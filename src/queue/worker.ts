/**
 * Takes bags from the queue. A bag job never fails: the outcomes of its e-mails are written to Postgres. An exception
 * here is a bug and is reported to `onFault`; the keeper recovers the bag when its lease expires.
 */
import { Worker } from "bullmq";
import { atMost } from "../clock.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { type BagJob, type BagRef, queueName } from "./bagqueue.ts";

const LOCK_MS = 30_000;

export type BagWorkerParts = {
  redis: RedisClient;
  shards: number;
  concurrency: number;
  handle(bag: BagRef): Promise<void>;
  onFault(error: unknown): void;
};

export type BagWorker = {
  /** Takes no more bags; resolves when the present ones are done, or at the deadline. */
  stop(deadlineMs: number): Promise<void>;
};

export function work({ redis, shards, concurrency, handle, onFault }: BagWorkerParts): BagWorker {
  const workers = Array.from({ length: shards }, (_, shard) => {
    const worker = new Worker<BagJob>(
      queueName(shard),
      async ({ data: { w, b, g } }) => {
        try {
          await handle({ workspaceId: w, id: b, generation: g, shard });
        } catch (error) {
          onFault(error);
        }
      },
      {
        connection: redis,
        concurrency,
        lockDuration: LOCK_MS,
        skipVersionCheck: true,
        removeOnComplete: { count: 0 },
        removeOnFail: { count: 0 },
        drainDelay: 5,
      },
    );
    worker.on("error", onFault);
    return worker;
  });
  return {
    async stop(deadlineMs) {
      const closing = Promise.all(workers.map((worker) => worker.close()));
      await atMost(deadlineMs, closing);
      // BullMQ would wait for an unreachable Redis without end; Postgres has all that the worker would report
      for (const worker of workers) worker.disconnect().catch(onFault);
    },
  };
}
