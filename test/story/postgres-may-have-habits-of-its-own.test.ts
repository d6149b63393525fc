/**
 * A server, a database or a role may prefer another time zone, and another way to write times and bytes: the
 * engine says to each of its connections what it needs, or reads either.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, POOLS, type PoolName, type Sql } from "../../src/record/db/connect.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const opened: Sql[] = [];
let database: OwnDatabase;
beforeAll(async () => {
  database = await ownDatabase();
  const sql = connect("setup", database.url);
  const name = sql(new URL(database.url).pathname.slice(1));
  await sql`alter database ${name} set timezone = 'Pacific/Kiritimati'`;
  await sql`alter database ${name} set datestyle = 'SQL, DMY'`;
  await sql`alter database ${name} set bytea_output = 'escape'`;
});
afterAll(async () => {
  await Promise.all(opened.map((sql) => sql.end()));
  await database.drop();
});

function connect(pool: PoolName, url: string): Sql {
  const sql = connectRecord(url, pool, 20_000);
  opened.push(sql);
  return sql;
}

/** One o'clock on the island, where the next day has begun. */
const AT = new Date("2026-11-26T11:00:00.000Z");
const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

test.each(Object.keys(POOLS) as PoolName[])("for the pool %s", async (pool) => {
  const pooled = new URL(database.url);
  pooled.searchParams.set("prepare", "false");
  for (const url of [database.url, pooled.href]) {
    const [row] = await connect(pool, url)`
      select ${AT}::timestamptz as at, array[${AT}::timestamptz] as ats,
        ${AT}::timestamptz::date::text as day, ${ALL_BYTES}::bytea as bytes`;
    expect(row).toEqual({ at: AT, ats: [AT], day: "2026-11-26", bytes: ALL_BYTES });
  }
});
