/**
 * Postgres' time, which decides what processes compare with each other: ledgers, claims, due times. A
 * transaction has one time, that of its start. A test may give another (`given`, in ms); 0 means Postgres'
 * own.
 */
import type { Sql, Tx } from "./connect.ts";
import { float, onlyRow, timestamp, typed } from "./rowshape.ts";

/** Inside of a statement: the time of its transaction. */
export function nowIn(sql: Sql | Tx, given: number) {
  return given === 0 ? sql`now()` : sql`${new Date(given)}::timestamptz`;
}

/** The time of the transaction, in ms. */
export async function transactionTime(tx: Sql | Tx, given: number): Promise<number> {
  if (given !== 0) return given;
  return onlyRow(await typed(tx, { now: timestamp })`select now() as now`).now.getTime();
}

/** Postgres' clock at this moment, in ms. */
export async function clockTime(sql: Sql): Promise<number> {
  const asked = typed(sql, { ms: float })`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`;
  return onlyRow(await asked).ms;
}
