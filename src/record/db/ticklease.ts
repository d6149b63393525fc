/**
 * Leases on the keeper's ticks: one row per tick, taken, extended and given back by one statement each, on
 * the clock of Postgres. A holder that died is succeeded when its lease has run out.
 */

import type { TickName } from "../mail/keeperwork.ts";
import type { Sql } from "./connect.ts";

/** False while another process holds it. */
export async function takeTickLease(sql: Sql, tick: TickName, token: string, ms: number): Promise<boolean> {
  // an end further ahead than any lease lasts was written under another clock: before a failover, for example
  const rows = await sql`
    insert into tick_lease as held (name, token, until)
    values (${tick}, ${token}, clock_timestamp() + ${ms} * interval '1 ms')
    on conflict (name) do update set token = excluded.token, until = excluded.until
    where held.until < clock_timestamp() or held.until > clock_timestamp() + ${ms} * interval '1 ms'
    returning 1`;
  return rows.length > 0;
}

/** False when another process has taken it meanwhile. One that ran out and that nobody took is held again. */
export async function extendTickLease(sql: Sql, tick: TickName, token: string, ms: number): Promise<boolean> {
  const rows = await sql`
    update tick_lease set until = clock_timestamp() + ${ms} * interval '1 ms'
    where name = ${tick} and token = ${token} returning 1`;
  return rows.length > 0;
}

/** The row goes, so that an extension that is still under way finds nothing to extend. */
export async function endTickLease(sql: Sql, tick: TickName, token: string): Promise<void> {
  await sql`delete from tick_lease where name = ${tick} and token = ${token}`;
}
