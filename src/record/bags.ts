/**
 * Bags: up to 100 e-mails and 4 MB of one workspace that travel together now. A row exists only while they travel;
 * the queue carries nothing but its id and generation.
 */
import type { Sql, Statement, Tx } from "./connect.ts";

export const BAG_EMAILS_MAX = 100;
export const BAG_BYTES_MAX = 4 * 1024 * 1024;

export type Bag = { workspaceId: string; id: string; shard: number; emailIds: string[]; bytes: number };
export type Packable = { id: string; bytes: number };

/** Fills bags with e-mails of one workspace, in order. */
export function pack(
  workspaceId: string,
  shard: number,
  emails: readonly Packable[],
  newId: () => string,
): Bag[] {
  const bags: Bag[] = [];
  let open: Bag | null = null;
  for (const { id, bytes } of emails) {
    if (!open || open.emailIds.length >= BAG_EMAILS_MAX || open.bytes + bytes > BAG_BYTES_MAX) {
      open = { workspaceId, id: newId(), shard, emailIds: [], bytes: 0 };
      bags.push(open);
    }
    open.emailIds.push(id);
    open.bytes += bytes;
  }
  return bags;
}

export function insertBags(tx: Tx | Sql, bags: readonly Bag[], now: Date): Statement {
  return tx`
    insert into bag (workspace_id, id, shard, email_ids, bytes, created_at)
    select workspace_id, id, shard, email_ids::uuid[], bytes, ${now}
    from unnest(${bags.map((bag) => bag.workspaceId)}::uuid[], ${bags.map((bag) => bag.id)}::uuid[],
                ${bags.map((bag) => bag.shard)}::int[], ${bags.map((bag) => `{${bag.emailIds.join(",")}}`)}::text[],
                ${bags.map((bag) => bag.bytes)}::int[]) as b(workspace_id, id, shard, email_ids, bytes)`;
}

export type BagRow = { workspaceId: string; id: string; generation: number; shard: number };

/** A bag as it was just made, for the line. */
export function firstRow({ workspaceId, id, shard, emailIds }: Bag): BagRow & { emails: number } {
  return { workspaceId, id, shard, generation: 0, emails: emailIds.length };
}

/** Notes under which epoch bags were put in line. */
export async function noteEpoch(sql: Sql, bags: readonly BagRow[], epoch: string): Promise<void> {
  await sql`
    update bag b set epoch = ${epoch}
    from unnest(${bags.map((bag) => bag.workspaceId)}::uuid[], ${bags.map((bag) => bag.id)}::uuid[],
                ${bags.map((bag) => bag.generation)}::int[]) as q(workspace_id, id, generation)
    where b.workspace_id = q.workspace_id and b.id = q.id and b.generation = q.generation and b.token is null`;
}
