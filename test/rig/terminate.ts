/** Postgres ends connections of the engine, as an administrator, a failover or a fast shutdown does. */
import type { Sql } from "../../src/record/db/connect.ts";

/** Ends all backends of this database but the one that is asked, `times` times; with how many ended. */
export async function terminateBackends(sql: Sql, everyMs: number, times: number): Promise<number> {
  let ended = 0;
  for await (const _ of ticks(everyMs, times)) {
    const rows = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`;
    ended += rows.length;
  }
  return ended;
}

/** One turn every so often. A turn that takes longer delays the next. */
export async function* ticks(everyMs: number, times = Number.POSITIVE_INFINITY): AsyncGenerator<number> {
  for (let n = 0; n < times; n++) {
    const dueAt = performance.now() + everyMs;
    yield n;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueAt - performance.now())));
  }
}
