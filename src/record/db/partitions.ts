/**
 * Partitions of `email`, `email_ending`, `body` and `request` by the day of the id's time, of `outbox` by the
 * day of writing and of `webhook_attempt` by the day of the attempt (UTC): made ahead by any role, dropped by
 * retention. An id outside every partition cannot be written, so the days ahead are made long before they are
 * needed.
 *
 * Promises: making or dropping one does not wait for readers or writers of the parent, and they do not wait
 * for it. `create table ... partition of` and a plain `detach` would lock the parent exclusively: while they
 * wait for one reader, every send waits behind them. Attaching, and detaching concurrently, only keep out
 * other changes of the schema.
 */

import { DAY_MS } from "../../clock.ts";
import { floorId } from "../../ids.ts";
import type { Sql, Tx } from "./connect.ts";
import { boolean, oneOf, type RowOf, text, typed } from "./rowshape.ts";

const PARTITION_DAYS_AHEAD = 7;
/** Yesterday too: ids never run backwards in one process, but clocks of two may differ. */
const PARTITION_DAYS_BEHIND = 1;
const PARTITION_LOCK = 7_165_002;

const TABLES = ["email", "email_ending", "body", "outbox", "request", "webhook_attempt"] as const;
/** By a time, and not by an id. */
const BY_TIME: readonly string[] = ["outbox", "webhook_attempt"];
/**
 * A table that only grows looks the same when it is half as large again: at a tenth, analysing it took 3% of
 * all CPU while mail came fast.
 */
const STORAGE = {
  email:
    "with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.5)",
  email_ending: "with (fillfactor = 100, autovacuum_analyze_scale_factor = 0.5)",
  body: "with (autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_analyze_scale_factor = 0.5)",
  outbox: "with (fillfactor = 90)",
  request: "with (fillfactor = 100)",
  webhook_attempt: "with (autovacuum_vacuum_insert_scale_factor = 0.5)",
} as const;

export const partitionRow = {
  /** `email_20261118` */
  name: text,
  table: oneOf(...TABLES),
  /** `20261118` */
  day: text,
  /** `pending`: its detaching was begun and broken off; queries of the parent do not see it any more. */
  state: oneOf("attached", "pending", "detached"),
};
export type Partition = RowOf<typeof partitionRow>;

/** All that there are, and those that are no partitions any more and wait to be dropped; oldest first. */
export async function listPartitions(sql: Sql | Tx): Promise<Partition[]> {
  return typed(sql, partitionRow)`
    select relname as name, left(relname, -9) as table, right(relname, 8) as day,
           case when inhrelid is null then 'detached' when inhdetachpending then 'pending'
             else 'attached' end as state
    from pg_class c left join pg_inherits on inhrelid = c.oid
    where relkind = 'r' and pg_table_is_visible(c.oid)
      and relname ~ '^(email|email_ending|body|outbox|request|webhook_attempt)_[0-9]{8}$'
    order by 3, 1`;
}

/** Whether there is a table of this name, attached or not. */
export async function isThere(sql: Sql | Tx, name: string): Promise<boolean> {
  const [row] = await typed(sql, { found: boolean })`select to_regclass(${name}) is not null as found`;
  return row?.found ?? false;
}

/** Of the tables that are there, those into which nothing of this day can be written. */
export async function tablesWithout(sql: Sql | Tx, day: number): Promise<string[]> {
  const rows = await typed(sql, { table: text })`
    select t as table from unnest(${[...TABLES]}::text[]) as t
    where to_regclass(t) is not null and not exists (
      select from pg_inherits where inhparent = to_regclass(t) and not inhdetachpending
        and inhrelid = to_regclass(t || ${`_${dayName(day)}`}::text))`;
  return rows.map(({ table }) => table);
}

/** Makes the partitions of the days around `now` that are not there yet; says how many it made. */
export async function makePartitions(sql: Sql | Tx, now: number): Promise<number> {
  const today = Math.floor(now / DAY_MS);
  const attached = new Set(
    (await listPartitions(sql)).filter(({ state }) => state === "attached").map(({ name }) => name),
  );
  let made = 0;
  for (let day = today - PARTITION_DAYS_BEHIND; day <= today + PARTITION_DAYS_AHEAD; day++) {
    for (const table of TABLES) {
      if (attached.has(`${table}_${dayName(day)}`)) continue;
      await sql.unsafe(makingOf(table, day));
      made++;
    }
  }
  return made;
}

export async function makePartition(sql: Sql, table: Partition["table"], day: number): Promise<void> {
  await sql.unsafe(makingOf(table, day));
}

/** Another process that makes it at the same time waits for us, and then finds it. */
function makingOf(table: Partition["table"], day: number): string {
  const name = `${table}_${dayName(day)}`;
  return `do $$ begin
    perform pg_advisory_xact_lock(${PARTITION_LOCK});
    create table if not exists ${name} (like ${table} including all) ${STORAGE[table]};
    if not exists (select from pg_inherits where inhrelid = '${name}'::regclass) then
      ${attachingOf(table, day)};
    end if;
  end $$`;
}

export function attachingOf(table: Partition["table"], day: number): string {
  const bound = BY_TIME.includes(table) ? (ms: number) => new Date(ms).toISOString() : floorId;
  const [from, to] = [bound(day * DAY_MS), bound((day + 1) * DAY_MS)];
  return `alter table ${table} attach partition ${table}_${dayName(day)} for values from ('${from}') to ('${to}')`;
}

export function dayName(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll("-", "");
}

/** In days since 1970. */
export function dayNumber(name: string): number {
  return Date.UTC(Number(name.slice(0, 4)), Number(name.slice(4, 6)) - 1, Number(name.slice(6))) / DAY_MS;
}

/** The first day of which there is a partition of the table. */
export async function oldestDay(sql: Sql | Tx, table: Partition["table"]): Promise<number> {
  const oldest = (await listPartitions(sql)).find((one) => one.table === table && one.state === "attached");
  return dayNumber(oldest?.day ?? "20000101");
}
