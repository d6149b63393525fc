/**
 * Retention drops whole partitions, and never one that holds unsettled mail: time counts from the final status, so a
 * mail that was scheduled for a month or waited for days keeps its partition until its own time is over. An attachment
 * goes when every body of the days until it was last used is gone.
 */
import type { Tx } from "./connect.ts";
import { dayName, oldestDay } from "./partitions.ts";

const DAY_MS = 86_400_000;

export type RetentionDays = { emails: number; bodies: number };

/** Says which partitions it dropped. */
export async function dropOldPartitions(tx: Tx, days: RetentionDays, now: number): Promise<string[]> {
  const today = Math.floor(now / DAY_MS);
  const names = (
    await tx<{ name: string }[]>`
      select relname as name from pg_class where relkind = 'r' and relname ~ '^(email|body)_[0-9]{8}$' order by relname`
  ).map((row) => row.name);
  const dropped: string[] = [];
  // a reader in the middle of a page may hold the parent for a moment; what cannot be dropped now is dropped later
  await tx`set local lock_timeout = '2s'`;
  for (const name of names) {
    const [table, day] = name.split("_") as ["email" | "body", string];
    const keepDays = table === "email" ? days.emails : days.bodies;
    if (day >= dayName(today - keepDays)) continue;
    const emails = `email_${day}`;
    if (names.includes(emails) && !(await isOver(tx, emails, new Date(now - keepDays * DAY_MS)))) continue;
    await tx`drop table ${tx(name)}`;
    dropped.push(name);
  }
  return dropped;
}

/** Whether everything in a partition of e-mails reached its final status before a time. */
async function isOver(tx: Tx, partition: string, before: Date): Promise<boolean> {
  const [row] = await tx<{ over: boolean }[]>`
    select not exists (
      select from ${tx(partition)}
      where status in ('accepted', 'scheduled', 'waiting', 'deferred') or updated_at >= ${before}) as over`;
  return row?.over ?? false;
}

/** Says how many it dropped. A day more than must be: the clocks of two processes may differ. */
export async function dropOldAttachments(tx: Tx, most: number): Promise<number> {
  const before = new Date(((await oldestDay(tx, "body")) - 1) * DAY_MS);
  const dropped = await tx`
    with old as (
      select workspace_id, hash from attachment where last_used_at < ${before} limit ${most} for update skip locked
    )
    delete from attachment a using old where a.workspace_id = old.workspace_id and a.hash = old.hash`;
  return dropped.count;
}
