/**
 * The line: bags that can go now, as small BullMQ jobs that carry nothing but which bag. Postgres alone knows what a
 * bag holds and what became of it, so nothing is kept here after the end and everything here may be lost.
 *
 * Promises: a bag is queued at most once per generation (the job id says both); order is fair between workspaces.
 * What finds no room in line stays in the record, and the keeper brings it when there is room.
 */
import { randomBytes } from "node:crypto";
import { Queue } from "bullmq";
import { keyspace } from "../redis/keyspace.ts";
import { loadScript, type RedisClient } from "../redis/scripts.ts";

export const WORKSPACE_BAGS_MAX = 1_000;
export const SHARD_BAGS_MAX = 50_000;
const EVENTS_KEPT = 100;

export type BagRef = { workspaceId: string; id: string; generation: number; shard: number };
/** A bag that is to stand in line: how many e-mails it holds decides how long it takes its turn. */
export type Lining = BagRef & { emails: number };
export type BagJob = { w: string; b: string; g: number };
export type Queued = { epoch: string; queued: Lining[]; heldBack: Lining[] };

const lineUpScript = loadScript(
  "line_up",
  ["epoch", "fairness", "line"],
  ["new_epoch", "workspace_max", "shard_max", "bags"],
);
const stepOutScript = loadScript("step_out", ["fairness"], ["workspaces"]);
const recountScript = loadScript("recount", ["epoch", "fairness"], ["counted_epoch", "counts"]);

export function queueName(shard: number): string {
  return `{bags-${shard}}`;
}

export class Line {
  readonly #redis: RedisClient;
  readonly #queues: Queue<BagJob>[];

  constructor(redis: RedisClient, shards: number) {
    this.#redis = redis;
    this.#queues = Array.from(
      { length: shards },
      (_, shard) =>
        new Queue<BagJob>(queueName(shard), {
          connection: redis,
          skipVersionCheck: true,
          skipWaitingForReady: true,
          streams: { events: { maxLen: EVENTS_KEPT } },
          defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1 },
        }),
    );
    // a Redis that is away shows in the calls that fail; the client's own events say nothing more
    for (const queue of this.#queues) queue.on("error", () => {});
  }

  /** Puts bags in line: one script and one job each, per shard. */
  async lineUp(bags: readonly Lining[]): Promise<Queued[]> {
    const queued: Queued[] = [];
    for (const [shard, some] of byShard(bags)) queued.push(await this.#lineUp(shard, some));
    return queued;
  }

  async #lineUp(shard: number, bags: readonly Lining[]): Promise<Queued> {
    const queue = this.#queues[shard] as Queue<BagJob>;
    const [epoch, ...tags] = (await lineUpScript.run(
      this.#redis,
      {
        epoch: keyspace.shardEpoch(shard),
        fairness: keyspace.shardFairness(shard),
        line: queue.toKey("prioritized"),
      },
      {
        new_epoch: randomBytes(9).toString("base64url"),
        workspace_max: WORKSPACE_BAGS_MAX,
        shard_max: SHARD_BAGS_MAX,
        bags: bags.map(({ workspaceId, emails }) => `${workspaceId}=${emails}`).join(" "),
      },
    )) as [string, ...number[]];
    const admitted = bags.filter((_, n) => tags[n] !== 0);
    const heldBack = bags.filter((_, n) => tags[n] === 0);
    const priorities = tags.filter((tag) => tag !== 0);
    if (admitted.length > 0) {
      await queue.addBulk(
        admitted.map((bag, n) => ({
          name: "bag",
          data: { w: bag.workspaceId, b: bag.id, g: bag.generation },
          opts: { jobId: `${bag.id}-${bag.generation}`, priority: priorities[n] as number },
        })),
      );
    }
    return { epoch, queued: admitted, heldBack };
  }

  /** The bags have left the line. */
  async stepOut(shard: number, workspaceIds: readonly string[]): Promise<void> {
    await stepOutScript.run(
      this.#redis,
      { fairness: keyspace.shardFairness(shard) },
      { workspaces: workspaceIds.join(" ") },
    );
  }

  /** The epoch of the line as it is; a line that was lost begins a new one. */
  async openEpoch(shard: number): Promise<string> {
    return (await this.#lineUp(shard, [])).epoch;
  }

  /** How many more bags may stand in line: in all, and of each workspace. */
  async rooms(shard: number, workspaceIds: readonly string[]): Promise<{ shard: number; each: number[] }> {
    const [inLine, ...counts] = await this.#redis.hmget(
      keyspace.shardFairness(shard),
      "in_line",
      ...workspaceIds.map((id) => `n:${id}`),
    );
    const left = Math.max(0, SHARD_BAGS_MAX - Number(inLine ?? 0));
    const each = counts.map((count) => Math.max(0, Math.min(left, WORKSPACE_BAGS_MAX - Number(count ?? 0))));
    return { shard: left, each };
  }

  async recount(shard: number, epoch: string, counts: ReadonlyMap<string, number>): Promise<boolean> {
    const text = [...counts].map(([workspaceId, count]) => `${workspaceId}=${count}`).join(" ");
    const corrected = await recountScript.run(
      this.#redis,
      { epoch: keyspace.shardEpoch(shard), fairness: keyspace.shardFairness(shard) },
      { counted_epoch: epoch, counts: text },
    );
    return corrected === 1;
  }

  /** Which of these bags have no job: found by looking at the jobs themselves. */
  async missing(bags: readonly BagRef[]): Promise<BagRef[]> {
    const found = await Promise.all(
      bags.map((bag) =>
        this.#redis.exists((this.#queues[bag.shard] as Queue<BagJob>).toKey(`${bag.id}-${bag.generation}`)),
      ),
    );
    return bags.filter((_, n) => found[n] === 0);
  }

  async depth(shard: number): Promise<number> {
    return (await this.#queues[shard]?.getJobCountByTypes("prioritized", "waiting", "active")) ?? 0;
  }

  async close(): Promise<void> {
    await Promise.all(this.#queues.map((queue) => queue.close()));
  }
}

function byShard(bags: readonly Lining[]): Map<number, Lining[]> {
  const shards = new Map<number, Lining[]>();
  for (const bag of bags) {
    const some = shards.get(bag.shard);
    if (some) some.push(bag);
    else shards.set(bag.shard, [bag]);
  }
  return shards;
}
