/**
 * How many shards the queue has. An operator sets the number while everything runs; every process looks once
 * a second, so processes disagree for a moment. That loses nothing: what is above the number and has bags is
 * served until they have left it, and bags there that have no job move to another shard.
 */
import type { Sql, Tx } from "../db/connect.ts";
import type { Looks } from "../db/looks.ts";
import { boolean, integer, json, oneOf, orNull, type RowOf, timestamp, typed } from "../db/rowshape.ts";
import { isNotNew } from "./bags.ts";

const LOOK_EVERY_MS = 1_000;

export class QueueShards {
  /** New bags go to the shards below this number. */
  open = 1;
  /** Only the shards below this number may have jobs. */
  served = 1;
  readonly #sql: Sql;
  readonly #followers = new Set<(served: number) => void>();
  #unfollow = () => {};

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  async look(): Promise<void> {
    const [row] = await typed(this.#sql, {
      shards: orNull(json<ShardsInUse>()),
    })`select ${shardsInUse(this.#sql)} as shards`;
    this.#take(row?.shards ?? null);
  }

  /** Looks once a second from now on. */
  keepLooking(looks: Looks): void {
    this.#unfollow = looks.ask(LOOK_EVERY_MS, shardsInUse, (shards: ShardsInUse | null) =>
      this.#take(shards),
    );
  }

  #take(shards: ShardsInUse | null): void {
    const { open, queued } = shards ?? { open: 1, queued: -1 };
    this.open = open;
    const served = Math.max(open, queued + 1);
    if (served === this.served) return;
    this.served = served;
    for (const follow of this.#followers) follow(served);
  }

  /**
   * Calls `onServed` now and whenever another number of shards has to be served, until what is returned is
   * called.
   */
  follow(onServed: (served: number) => void): () => void {
    this.#followers.add(onServed);
    onServed(this.served);
    return () => void this.#followers.delete(onServed);
  }

  stop(): void {
    this.#unfollow();
  }
}

/** The number, and the highest shard with queued bags; -1: none has any. */
type ShardsInUse = { open: number; queued: number };

function shardsInUse(sql: Sql) {
  return sql`(
    select jsonb_build_object('open', shards,
      'queued', coalesce((select max(shard) from bag where token is null and epoch is not null), -1))
    from queue_shards)`;
}

export async function setShards(sql: Sql, shards: number): Promise<void> {
  await sql`
    insert into queue_shards (shards) values (${shards})
    on conflict (is_only) do update set shards = excluded.shards`;
}

const shardViewRow = {
  shard: integer,
  /** Draining: its bags leave it, and no new ones come. */
  state: oneOf("open", "draining"),
  queued: integer,
  held_back: integer,
  leased: integer,
  oldest: orNull(timestamp),
};
export type ShardView = RowOf<typeof shardViewRow>;

/** The open shards, and those that still have bags. */
export async function viewShards(sql: Sql): Promise<ShardView[]> {
  return typed(sql, shardViewRow)`
    with open as (select generate_series(0, shards - 1) as shard from queue_shards), has as (
      select shard::int,
             count(*) filter (where token is null and epoch is not null)::int as queued,
             count(*) filter (where token is null and epoch is null)::int as held_back,
             count(*) filter (where token is not null)::int as leased,
             min(created_at) as oldest
      from bag group by shard
    )
    select shard, case when open.shard is null then 'draining' else 'open' end as state,
           coalesce(queued, 0) as queued, coalesce(held_back, 0) as held_back, coalesce(leased, 0) as leased,
           oldest
    from open full join has using (shard) order by shard`;
}

/**
 * Moves bags without a job from shards above the number to the others: the same as `shardOf` gives. Those
 * just made are left to whoever made them. Returns how many there were.
 */
export async function leaveClosedShards(
  sql: Sql | Tx,
  shards: number,
  before: Date,
  most: number,
): Promise<number> {
  const moved = await sql`
    with closed as materialized (
      select workspace_id, id from bag
      where shard >= ${shards} and token is null and epoch is null and ${isNotNew(sql, before)}
      order by shard, workspace_id, id limit ${most} for update skip locked
    )
    update bag b set shard = ('x' || right(b.workspace_id::text, 4))::bit(16)::int % ${shards}
    from closed where b.workspace_id = closed.workspace_id and b.id = closed.id`;
  return moved.count;
}

/** Whether a bag has been queued there since before this time, and nobody has taken it. */
export async function isWaitedIn(sql: Sql, shard: number, before: Date): Promise<boolean> {
  const [row] = await typed(sql, { waits: boolean })`
    select exists (select from bag where shard = ${shard} and token is null and epoch is not null
                     and created_at < ${before}) as waits`;
  return row?.waits ?? false;
}
