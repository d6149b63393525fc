/**
 * The stores of a test run: a migrated database and a Redis to share, and ones of its own for whoever needs
 * them.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { isMigrated } from "../../src/record/db/migrate.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis, services } from "../rig/services.ts";

let database: OwnDatabase;
let redis: OwnRedis;

beforeAll(async () => {
  [database, redis] = await Promise.all([ownDatabase(), ownRedis()]);
});

afterAll(async () => {
  await Promise.all([database.drop(), redis.stop()]);
});

test.each([
  ["shared", () => services().databaseUrl],
  ["own", () => database.url],
])("the %s database is migrated", async (_, url) => {
  const sql = connectRecord(url(), "reads", 10_000);
  expect(await isMigrated(sql)).toBe(true);
  await sql.end();
});

test("what is written to an own database is in no other", async () => {
  const own = connectRecord(database.url, "setup", 10_000);
  const shared = connectRecord(services().databaseUrl, "setup", 10_000);
  await own`create table mine (id int)`;
  expect(await shared`select 1 from pg_class where relname = 'mine'`).toHaveLength(0);
  await Promise.all([own.end(), shared.end()]);
});

test("an own Redis that was killed comes back empty, in the same place", async () => {
  const before = connectRedis(redis.url, "worker", 10_000);
  before.on("error", () => {}); // the kill is seen here
  await before.set("mine", "1");
  before.disconnect();
  await redis.kill();
  await redis.restart();
  const after = connectRedis(redis.url, "worker", 10_000);
  expect(await after.dbsize()).toBe(0);
  after.disconnect();
});
