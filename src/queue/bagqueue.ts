/**
 * The queue ("line") of bags that can be sent now, as small BullMQ jobs that contain only the bag's id.
 * Contents and outcomes of bags are in Postgres alone, so everything here may be lost.
 *
 * Promises: a bag is queued at most once per generation (both are in the job id); order is fair between
 * workspaces. A bag that finds no room in the queue stays in Postgres, and the keeper queues it when there is
 * room.
 */
import { randomBytes } from "node:crypto";
import { Queue } from "bullmq";
import { keyspace } from "../redis/keyspace.ts";
import { loadScript, type RedisClient } from "../redis/scripts.ts";

export const WORKSPACE_BAGS_MAX = 1_000;
export const SHARD_BAGS_MAX = 50_000;
const EVENTS_KEPT = 100;
/** Each workspace has two. */
const SCANNED_FIELDS = 2_000;
/** Of a workspace, in the hash of a shard: how many of its bags are queued. */
const COUNT_FIELD = "n:";

export type BagRef = { workspaceId: string; id: string; generation: number; shard: number };
/** A bag to queue. The number of its e-mails decides when the workspace has its next turn. */
export type BagToQueue = BagRef & { emails: number };
/**
 * As it stands in Redis, where workers of this version and the next must read it: workspace, bag, generation.
 */
export type BagJob = { w: string; b: string; g: number };
export type Queued = { epoch: string; queued: BagToQueue[]; heldBack: BagToQueue[] };

const enqueueScript = loadScript(
  "enqueue",
  ["epoch", "fairness", "line"],
  ["new_epoch", "workspace_max", "shard_max", "bags"],
);
const stepOutScript = loadScript("step_out", ["fairness"], ["workspaces"]);
const recountScript = loadScript("recount", ["epoch", "fairness"], ["counted_epoch", "counts"]);

export function queueName(shard: number): string {
  return `{bags-${shard}}`;
}

export class BagQueue {
  readonly #redis: RedisClient;
  readonly #queues = new Map<number, Queue<BagJob>>();

  constructor(redis: RedisClient) {
    this.#redis = redis;
  }

  /**
   * Queues bags: per shard one script call, then one job for each bag, and `note`. A shard whose server is
   * away holds up no other: it fails when all are through.
   */
  async enqueue(
    bags: readonly BagToQueue[],
    note: (queued: Queued) => Promise<void> = async () => {},
  ): Promise<Queued[]> {
    const shards = [...byShard(bags)].map(async ([shard, some]) => {
      const queued = await this.#enqueue(shard, some);
      await note(queued);
      return queued;
    });
    await Promise.allSettled(shards);
    return Promise.all(shards);
  }

  async #enqueue(shard: number, bags: readonly BagToQueue[]): Promise<Queued> {
    const queue = this.#queue(shard);
    const [epoch, ...tags] = (await enqueueScript.run(
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
          opts: { jobId: jobId(bag), priority: priorities[n] as number },
        })),
      );
    }
    return { epoch, queued: admitted, heldBack };
  }

  /** The bags have left the queue. */
  async stepOut(shard: number, workspaceIds: readonly string[]): Promise<void> {
    await stepOutScript.run(
      this.#redis,
      { fairness: keyspace.shardFairness(shard) },
      { workspaces: workspaceIds.join(" ") },
    );
  }

  /** The epoch of the queue; one that was lost gets a new epoch. */
  async openEpoch(shard: number): Promise<string> {
    return (await this.#enqueue(shard, [])).epoch;
  }

  /** How many more bags may be queued: in all, and of each workspace. */
  async rooms(shard: number, workspaceIds: readonly string[]): Promise<{ shard: number; each: number[] }> {
    const [inLine, ...counts] = await this.#redis.hmget(
      keyspace.shardFairness(shard),
      "in_line",
      ...workspaceIds.map((id) => `${COUNT_FIELD}${id}`),
    );
    const left = Math.max(0, SHARD_BAGS_MAX - Number(inLine ?? 0));
    const each = counts.map((count) => Math.max(0, Math.min(left, WORKSPACE_BAGS_MAX - Number(count ?? 0))));
    return { shard: left, each };
  }

  /** The workspaces of which the queue counts bags, some at a time; a workspace may come twice. */
  async *counted(shard: number): AsyncGenerator<string[]> {
    let cursor = "0";
    do {
      const [next, found] = await this.#redis.hscan(
        keyspace.shardFairness(shard),
        cursor,
        "MATCH",
        `${COUNT_FIELD}*`,
        "COUNT",
        SCANNED_FIELDS,
      );
      const names = found.filter((_, n) => n % 2 === 0);
      if (names.length > 0) yield names.map((name) => name.slice(COUNT_FIELD.length));
      cursor = next;
    } while (cursor !== "0");
  }

  /** `counts`: of some workspaces; 0: nothing of it is in line. Says whether the epoch is still that one. */
  async recount(shard: number, epoch: string, counts: ReadonlyMap<string, number>): Promise<boolean> {
    const text = [...counts].map(([workspaceId, count]) => `${workspaceId}=${count}`).join(" ");
    const corrected = await recountScript.run(
      this.#redis,
      { epoch: keyspace.shardEpoch(shard), fairness: keyspace.shardFairness(shard) },
      { counted_epoch: epoch, counts: text },
    );
    return corrected === 1;
  }

  /**
   * Which of these bags no worker will be given: they have no job, or it stands in no line. A Redis that lost
   * a part of its keys may have one without the other. Bags that have moved while we looked may be named too.
   */
  async missing(bags: readonly BagRef[]): Promise<BagRef[]> {
    const missing: BagRef[] = [];
    for (const [shard, some] of byShard(bags)) missing.push(...(await this.#missing(shard, some)));
    return missing;
  }

  async #missing(shard: number, bags: readonly BagRef[]): Promise<BagRef[]> {
    const queue = this.#queue(shard);
    const ids = bags.map(jobId);
    const [jobs, places] = await Promise.all([
      this.#existing(ids.map((id) => queue.toKey(id))),
      this.#redis.zmscore(queue.toKey("prioritized"), ...ids),
    ]);
    const isInLine = (n: number) => places[n] !== null;
    const outside = ids.filter((_, n) => jobs[n] && !isInLine(n));
    const taken = new Set(outside.length > 0 ? await this.#taken(queue) : []);
    return bags.filter((_, n) => !jobs[n] || !(isInLine(n) || taken.has(ids[n] as string)));
  }

  /**
   * Which of these keys there are; asked in one write. In a cluster whose slot moves, the client asks all of
   * them of the node that one has moved to, and the rest are not there yet: what is not found is asked alone.
   */
  async #existing(keys: readonly string[]): Promise<boolean[]> {
    const found = await this.#found(keys);
    return Promise.all(keys.map(async (key, n) => found[n] || (await this.#redis.exists(key)) === 1));
  }

  async #found(keys: readonly string[]): Promise<boolean[]> {
    const asking = this.#redis.pipeline();
    for (const key of keys) asking.exists(key);
    const answers = await asking.exec();
    // whoever is not known to be there would be queued again
    if (answers?.length !== keys.length) throw new Error("Redis answered less than it was asked");
    return answers.map(([error, count]) => {
      if (error) throw error;
      return count === 1;
    });
  }

  /** Jobs that workers have, and those that were taken back from one. */
  async #taken(queue: Queue<BagJob>): Promise<string[]> {
    const lists = ["active", "wait"].map((list) => this.#redis.lrange(queue.toKey(list), 0, -1));
    return (await Promise.all(lists)).flat();
  }

  /** Whether there are jobs that no worker has taken. */
  async hasUntaken(shard: number): Promise<boolean> {
    return (await this.#queue(shard).getJobCountByTypes("prioritized", "waiting")) > 0;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }

  #queue(shard: number): Queue<BagJob> {
    const known = this.#queues.get(shard);
    if (known) return known;
    const queue = new Queue<BagJob>(queueName(shard), {
      connection: this.#redis,
      skipVersionCheck: true,
      skipWaitingForReady: true,
      streams: { events: { maxLen: EVENTS_KEPT } },
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1 },
    });
    // when Redis is unreachable the calls fail; the client's own events add nothing
    queue.on("error", () => {});
    this.#queues.set(shard, queue);
    return queue;
  }
}

function jobId({ id, generation }: BagRef): string {
  return `${id}-${generation}`;
}

function byShard<Ref extends BagRef>(bags: readonly Ref[]): Map<number, Ref[]> {
  const shards = new Map<number, Ref[]>();
  for (const bag of bags) {
    const some = shards.get(bag.shard);
    if (some) some.push(bag);
    else shards.set(bag.shard, [bag]);
  }
  return shards;
}
