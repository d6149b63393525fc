/**
 * Queues strays (bags without a job), as far as each workspace and the shard have room. Workspaces are served
 * in turn: a tick starts after the last workspace of the tick before, and divides the room of the shard among
 * those with strays. So no workspace waits for ever behind lower ids while the queue is full.
 */
import type { Clock } from "../clock.ts";
import type { BagQueue, BagToQueue } from "../queue/bagqueue.ts";
import type { Sql } from "../record/db/connect.ts";
import { strays, unqueueOtherEpochs, workspacesWithStrays } from "../record/mail/keeperwork.ts";
import { StepSize } from "../rules/stepsize.ts";

const WORKSPACES_MAX = 1_000;
const BAGS_MAX = 1_000;
/** The maker of a bag queues it; only after this time does it count as lost. */
export const GRACE_MS = 2_000;

export type StrayParts = {
  sql: Sql;
  line: BagQueue;
  clock: Clock;
  /** How long a step may take before it becomes smaller. */
  slowMs: number;
  /** Hands back how many found room. */
  queueBags(bags: readonly BagToQueue[]): Promise<number>;
};

export class Strays {
  readonly #parts: StrayParts;
  readonly #unqueued: StepSize;
  readonly #queued: StepSize;
  readonly #workspaces: StepSize;
  readonly #servedLast = new Map<number, string>();

  constructor(parts: StrayParts) {
    const { slowMs } = parts;
    this.#parts = parts;
    this.#unqueued = new StepSize({ max: BAGS_MAX, slowMs });
    this.#queued = new StepSize({ max: BAGS_MAX, slowMs });
    this.#workspaces = new StepSize({ max: WORKSPACES_MAX, slowMs });
  }

  /** Says whether there is more to put in line, and room for it. */
  async queue(shard: number): Promise<boolean> {
    const { sql, line } = this.#parts;
    const epoch = await line.openEpoch(shard);
    while (await this.#unqueued.full((most) => unqueueOtherEpochs(sql, shard, epoch, most))) {}
    const workspaceIds = await this.#next(shard);
    if (workspaceIds.length === 0) return false;
    const rooms = await line.rooms(shard, workspaceIds);
    let left = rooms.shard;
    let isMore = false;
    for (const [n, workspaceId] of workspaceIds.entries()) {
      if (left <= 0) return false;
      // what earlier ones did not need is divided among the later ones
      const share = Math.max(1, Math.min(this.#queued.most, Math.floor(left / (workspaceIds.length - n))));
      const room = Math.min(share, rooms.each[n] ?? 0);
      this.#servedLast.set(shard, workspaceId);
      if (room === 0) continue;
      const queued = await this.#queueSome(shard, workspaceId, room);
      left -= queued;
      isMore ||= queued === share;
    }
    return isMore && left > 0;
  }

  /** The workspaces with strays, from the one after the last served, and around. */
  async #next(shard: number): Promise<string[]> {
    const { sql } = this.#parts;
    const after = this.#servedLast.get(shard) ?? null;
    return this.#workspaces.take(
      async (most) => {
        const later = await workspacesWithStrays(sql, shard, after, most);
        if (after === null || later.length >= most) return later;
        const earlier = await workspacesWithStrays(sql, shard, null, most - later.length);
        return [...later, ...earlier.filter((id) => id <= after)];
      },
      (found) => found.length,
    );
  }

  #queueSome(shard: number, workspaceId: string, room: number): Promise<number> {
    const { sql, clock, queueBags } = this.#parts;
    const before = new Date(clock.now() - GRACE_MS);
    return this.#queued.take(
      async () => queueBags(await strays(sql, shard, workspaceId, before, room)),
      (queued) => queued,
    );
  }
}
