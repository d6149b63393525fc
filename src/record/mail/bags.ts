/**
 * Bags: up to 100 e-mails and 4 MB of one workspace that travel together now. A row exists only while they
 * travel; the queue carries nothing but its id and generation.
 */
import { shardOf } from "../../rules/shards.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { integer, type RowOf, text } from "../db/rowshape.ts";

export const BAG_EMAILS_MAX = 100;
const BAG_BYTES_MAX = 4 * 1024 * 1024;
/** Two clocks that follow Postgres are not so far apart. */
const AHEAD_MS_MAX = 60_000;

export type Bag = {
  workspaceId: string;
  id: string;
  shard: number;
  emailIds: string[];
  bytes: number;
  /** When the first of its e-mails was given its place in the caps, in ms. */
  grantedAt: number;
};
export type Packable = { id: string; bytes: number; grantedAt: number };
/** How new bags are made: with these ids, spread over so many shards of the queue. */
export type Bagging = { newId(): string; shards: number };

/** Fills bags with e-mails of one workspace, in order. */
export function pack(workspaceId: string, emails: readonly Packable[], { newId, shards }: Bagging): Bag[] {
  const shard = shardOf(workspaceId, shards);
  const bags: Bag[] = [];
  let open: Bag | null = null;
  for (const { id, bytes, grantedAt } of emails) {
    if (!open || open.emailIds.length >= BAG_EMAILS_MAX || open.bytes + bytes > BAG_BYTES_MAX) {
      open = { workspaceId, id: newId(), shard, emailIds: [], bytes: 0, grantedAt };
      bags.push(open);
    }
    open.emailIds.push(id);
    open.bytes += bytes;
    open.grantedAt = Math.min(open.grantedAt, grantedAt);
  }
  return bags;
}

/** In which bag each e-mail travels. */
export function bagOfEach(bags: readonly Bag[]): Map<string, string> {
  const bagOf = new Map<string, string>();
  for (const { id, emailIds } of bags) for (const emailId of emailIds) bagOf.set(emailId, id);
  return bagOf;
}

export function insertBags(tx: Tx | Sql, bags: readonly Bag[], now: Date): Statement {
  return tx`
    insert into bag (workspace_id, id, shard, email_ids, bytes, created_at, granted_at)
    select workspace_id, id, shard, email_ids::uuid[], bytes, ${now}, granted_at
    from unnest(${bags.map((bag) => bag.workspaceId)}::uuid[], ${bags.map((bag) => bag.id)}::uuid[],
                ${bags.map((bag) => bag.shard)}::int[], ${bags.map((bag) => `{${bag.emailIds.join(",")}}`)}::text[],
                ${bags.map((bag) => bag.bytes)}::int[],
                ${bags.map((bag) => new Date(bag.grantedAt).toISOString())}::timestamptz[])
      as b(workspace_id, id, shard, email_ids, bytes, granted_at)`;
}

/**
 * Whether a bag was made before this time: those just made are left to whoever made them. One that was made
 * well after it dates from before the clock was set back.
 */
export function isNotNew(sql: Sql | Tx, before: Date) {
  return sql`(created_at < ${before} or created_at > ${new Date(before.getTime() + AHEAD_MS_MAX)})`;
}

export const bagRow = {
  workspaceId: text,
  id: text,
  generation: integer,
  shard: integer,
};
export type BagRow = RowOf<typeof bagRow>;

/** A new bag, to be queued. */
export function firstRow({ workspaceId, id, shard, emailIds }: Bag): BagRow & { emails: number } {
  return { workspaceId, id, shard, generation: 0, emails: emailIds.length };
}

/** Stores under which epoch bags were queued. */
export async function noteEpoch(sql: Sql, bags: readonly BagRow[], epoch: string): Promise<void> {
  await sql`
    with held as materialized (${lockUnclaimed(sql, bags)})
    update bag b set epoch = ${epoch} from held where b.workspace_id = held.workspace_id and b.id = held.id`;
}

/** These bags are not queued after all. */
export async function unqueue(sql: Sql | Tx, bags: readonly BagRow[]): Promise<void> {
  await sql`
    with held as materialized (${lockUnclaimed(sql, bags)})
    update bag b set epoch = null, generation = b.generation + 1
    from held where b.workspace_id = held.workspace_id and b.id = held.id`;
}

/** Bags of these generations that nobody has claimed. */
function lockUnclaimed(sql: Sql | Tx, bags: readonly BagRow[]) {
  return sql`
    select b.workspace_id, b.id from bag b
    join unnest(${bags.map((bag) => bag.workspaceId)}::uuid[], ${bags.map((bag) => bag.id)}::uuid[],
                ${bags.map((bag) => bag.generation)}::int[]) as q(workspace_id, id, generation)
      on b.workspace_id = q.workspace_id and b.id = q.id and b.generation = q.generation
    where b.token is null order by b.workspace_id, b.id for update of b`;
}
