/**
 * The first statements of a transaction are sent together with its `begin`. If Postgres cancels the `begin`,
 * each of the others would run as its own transaction. So those that write check that their transaction has
 * begun.
 */
import type { Sql, Tx } from "./connect.ts";
import { text, timestamp, typed } from "./rowshape.ts";

const begunRow = { xid: text, now: timestamp, set_config: text };

/**
 * Number and time of a transaction. Its number is also left in the transaction itself, and nowhere when there
 * is none.
 */
export function markBegun(tx: Tx) {
  return typed(tx, begunRow)`
    select pg_current_xact_id()::text as xid, now() as now,
      set_config('postrider.transaction', pg_current_xact_id()::text, true)`;
}

/** Whether the transaction has begun that this statement belongs to. */
export function hasBegun(tx: Tx | Sql) {
  return tx`current_setting('postrider.transaction', true) = pg_current_xact_id()::text`;
}
