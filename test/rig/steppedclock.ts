/**
 * The clock of Postgres, set by a test while everything runs, as NTP sets it after a machine was resumed, or
 * a failover to a server whose clock is wrong. Of one database: `now()` and `clock_timestamp()` of everybody
 * who connects to it from then on are found before those of Postgres, and are as far off as a row says.
 */
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";

const SETUP_MS_MAX = 10_000;

/** Before anything else connects. */
export async function makeSteppable(databaseUrl: string): Promise<void> {
  const sql = connectRecord(databaseUrl, "setup", SETUP_MS_MAX);
  await sql.unsafe(`
    create schema stepped;
    create table stepped.off (by interval not null);
    insert into stepped.off values ('0');
    create function stepped.now() returns timestamptz language sql stable
      as 'select pg_catalog.now() + (select by from stepped.off)';
    create function stepped.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.clock_timestamp() + (select by from stepped.off)';
    do $$ begin
      execute format('alter database %I set search_path = stepped, public, pg_catalog', current_database());
    end $$`);
  await sql.end();
}

/** From now on it is off by this much. */
export async function setClockOfPostgres(sql: Sql, offMs: number): Promise<void> {
  await sql`update stepped.off set by = ${offMs} * interval '1 ms'`;
}
