/**
 * The steps by which retention drops expired partitions. Each is short, and no send waits for one. A
 * partition is detached while sends go on, checked once more when it can no longer change, and dropped as a
 * separate table. The catalog shows where an interrupted run stopped, so that any process can continue.
 */

import { DAY_MS } from "../../clock.ts";
import { fencedNow } from "../cells/moving.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { attachingOf, dayNumber, oldestDay, type Partition } from "../db/partitions.ts";
import { text, typed } from "../db/rowshape.ts";

/** The transactions that use a table now. Whoever is named again some time later is in a long one. */
export async function holdersOf(sql: Sql, table: string): Promise<string[]> {
  const rows = await typed(sql, { holder: text })`
    select distinct virtualtransaction as holder from pg_locks
    where locktype = 'relation' and granted and pid <> pg_backend_pid()
      and relation = to_regclass(${table})::oid
      and database = (select oid from pg_database where datname = current_database())`;
  return rows.map(({ holder }) => holder);
}

/**
 * Waits for every transaction that uses the parent, each for the lock timeout at most, and locks out none.
 */
export async function detachPartition(sql: Sql, { name, table }: Partition): Promise<void> {
  await sql.unsafe(`alter table ${table} detach partition ${name} concurrently`);
}

/** After a detaching that was broken off: this time it waits for older snapshots. */
export async function finishDetaching(sql: Sql, { name, table }: Partition): Promise<void> {
  await sql.unsafe(`alter table ${table} detach partition ${name} finalize`);
}

export async function attachAgain(sql: Sql, { table, day }: Partition): Promise<void> {
  await sql.unsafe(attachingOf(table, dayNumber(day)));
}

/**
 * Never a table that is a partition: to drop one locks the parent, and nobody has checked it out of reach.
 */
export async function dropDetached(sql: Sql, { name }: Partition): Promise<void> {
  await sql.unsafe(`do $$ begin
    lock table ${name} in access exclusive mode;
    if exists (select from pg_inherits where inhrelid = '${name}'::regclass) then
      raise exception '${name} is a partition again';
    end if;
    drop table ${name};
  end $$`);
}

/** Says how many it dropped. A day more than must be: the clocks of two processes may differ. */
export async function dropOldAttachments(tx: Sql | Tx, most: number): Promise<number> {
  const before = new Date(((await oldestDay(tx, "body")) - 1) * DAY_MS);
  const fenced = await fencedNow(tx);
  const dropped = await tx`
    with old as (
      select workspace_id, hash from attachment
      where last_used_at < ${before} and workspace_id <> all(${fenced}::uuid[])
      limit ${most} for update skip locked
    )
    delete from attachment a using old where a.workspace_id = old.workspace_id and a.hash = old.hash`;
  return dropped.count;
}
