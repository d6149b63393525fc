/**
 * Postgres compiles statements whose estimates are high (`jit`, on by default), anew each time. Ours run a
 * thousand times a minute, and their estimates are high where a scan is discouraged: on a Postgres as Debian
 * has it, an engine without mail took two cores for compiling. So no connection of the engine has it done.
 */
import { afterAll, expect, test } from "vitest";
import { connectRecord, POOLS, type PoolName, type Sql } from "../../src/record/db/connect.ts";
import { services } from "../rig/services.ts";

const opened: Sql[] = [];
afterAll(() => Promise.all(opened.map((sql) => sql.end())));

const served = (Object.keys(POOLS) as PoolName[]).filter((pool) => pool !== "setup");

const connect = (pool: PoolName, url = services().databaseUrl): Sql => {
  const sql = connectRecord(url, pool, 20_000);
  opened.push(sql);
  return sql;
};

test.each(served)("of the pool %s", async (pool) => {
  const rows = await connect(pool)`select setting, source from pg_settings where name = 'jit'`;
  expect([...rows]).toEqual([{ setting: "off", source: "client" }]);
});

test("behind a pooler, in each transaction", async () => {
  const url = new URL(services().databaseUrl);
  url.searchParams.set("prepare", "false");
  const rows = await connect("commits", url.href).begin(
    (tx) => tx`select setting, source from pg_settings where name = 'jit'`,
  );
  expect([...rows]).toEqual([{ setting: "off", source: "session" }]);
});
