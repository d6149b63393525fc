/**
 * How long sends wait for locks while something else goes on: that a busy machine makes all slower tells
 * nothing about who stands in whose way.
 */
import type { Sql } from "../../src/record/db/connect.ts";

/** The longest wait for a lock of something that a send needs, until `work` is over. */
export async function longestLockWaitMs(watcher: Sql, work: Promise<unknown>): Promise<number> {
  let isOver = false;
  const done = work.finally(() => {
    isOver = true;
  });
  let longestMs = 0;
  do longestMs = Math.max(longestMs, await waitedMs(watcher));
  while (!isOver);
  await done;
  return longestMs;
}

/** How long something that a send needs has been waiting for a lock now. */
async function waitedMs(watcher: Sql): Promise<number> {
  const [row] = await watcher<{ ms: number }[]>`
    select coalesce(max(1000 * extract(epoch from clock_timestamp() - waitstart)), 0)::float8 as ms
    from pg_locks join pg_stat_activity using (pid)
    where not granted and datname = current_database() and application_name in ('postrider commits', 'postrider reads', 'postrider hints')`;
  return row?.ms as number;
}
