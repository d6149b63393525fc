/**
 * Partitions of `email` and `body`: one per UTC day of the id's time, made ahead by any role, dropped by retention.
 * An id outside every partition cannot be written, so the days ahead are made long before they are needed.
 */
import { floorId } from "../ids.ts";
import type { Sql, Tx } from "./connect.ts";

export const PARTITION_DAYS_AHEAD = 7;
const DAY_MS = 86_400_000;
/** Yesterday too: ids never run backwards in one process, but clocks of two may differ. */
const PARTITION_DAYS_BEHIND = 1;

const EMAIL_STORAGE = "with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1)";
const BODY_STORAGE = "with (autovacuum_vacuum_insert_scale_factor = 0.5)";

/** Makes the partitions of the days around `now` that are not there yet; says how many it made. */
export async function makePartitions(sql: Sql | Tx, now: number): Promise<number> {
  const today = Math.floor(now / DAY_MS);
  const there = new Set(
    (
      await sql<{ name: string }[]>`select relname as name from pg_class
    where relkind = 'r' and relname ~ '^(email|body)_[0-9]{8}$'`
    ).map((row) => row.name),
  );
  let made = 0;
  for (let day = today - PARTITION_DAYS_BEHIND; day <= today + PARTITION_DAYS_AHEAD; day++) {
    for (const [table, storage] of [
      ["email", EMAIL_STORAGE],
      ["body", BODY_STORAGE],
    ] as const) {
      const name = `${table}_${dayName(day)}`;
      if (there.has(name)) continue;
      await sql.unsafe(
        `create table if not exists ${name} partition of ${table}
         for values from ('${floorId(day * DAY_MS)}') to ('${floorId((day + 1) * DAY_MS)}') ${storage}`,
      );
      made++;
    }
  }
  return made;
}

export function dayName(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll("-", "");
}

/** The first day of which there is a partition of the table. */
export async function oldestDay(sql: Sql | Tx, table: "email" | "body"): Promise<number> {
  const [row] = await sql<{ name: string | null }[]>`
    select min(relname) as name from pg_class where relkind = 'r' and relname ~ ${`^${table}_[0-9]{8}$`}`;
  const day = row?.name?.slice(table.length + 1) ?? "20000101";
  return Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)) - 1, Number(day.slice(6))) / DAY_MS;
}
