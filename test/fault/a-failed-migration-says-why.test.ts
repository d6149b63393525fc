import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { isMigrated, migrate } from "../../src/record/db/migrate.ts";
import { databaseAt, dropDatabase } from "../rig/database.ts";
import { startProcess } from "../rig/process.ts";
import { services } from "../rig/services.ts";
import { terminateBackends } from "../rig/terminate.ts";

const TIMEOUT_MS = 5_000;
const LOCK = 7_165_001;

let url: string;
let sql: Sql;
let other: Sql;
beforeAll(async () => {
  const name = `empty_${randomUUID().replaceAll("-", "")}`;
  await createDatabase(databaseAt(services().databaseUrl, "postgres"), name);
  url = databaseAt(services().databaseUrl, name);
  sql = connectRecord(url, "setup", TIMEOUT_MS);
  other = connectRecord(url, "setup", TIMEOUT_MS);
});
afterAll(async () => {
  await Promise.all([sql.end({ timeout: 1 }), other.end({ timeout: 1 })]);
  await dropDatabase(url);
});

/** Others migrate in the same Postgres. */
const isWaitedFor = async () => {
  const waiting = await other`
    select from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`;
  return waiting.length > 0;
};

test("the error is that of the migration, and the lock is free for whoever tries next", async () => {
  await other`create table email (mine text)`;
  await expect(migrate(sql, Date.now())).rejects.toMatchObject({
    code: "42P07",
    message: 'relation "email" already exists',
  });
  const [free] =
    await other`select pg_try_advisory_lock(${LOCK}) as lock, pg_advisory_unlock(${LOCK}) as unlock`;
  expect(free).toEqual({ lock: true, unlock: true });
  await other`drop table email`;
  await migrate(sql, Date.now());
  expect(await isMigrated(sql)).toBe(true);
});

test("a connection that is lost in the middle is an error, and the next try starts afresh", async () => {
  await other`select pg_advisory_lock(${LOCK})`;
  const migrating = migrate(sql, Date.now());
  migrating.catch(() => {});
  await expect.poll(isWaitedFor).toBe(true);
  await terminateBackends(other, 0, 1);
  await expect(migrating).rejects.toThrow();
  await other`select pg_advisory_unlock(${LOCK})`;
  await migrate(sql, Date.now());
});

test("a process that starts while its connections are ended starts all the same", async () => {
  await other`select pg_advisory_lock(${LOCK})`;
  const starting = startProcess(["api"], { databaseUrl: url });
  await expect.poll(isWaitedFor, { timeout: 20_000 }).toBe(true);
  await terminateBackends(other, 0, 1);
  await expect.poll(isWaitedFor, { timeout: 20_000 }).toBe(true);
  await other`select pg_advisory_unlock(${LOCK})`;
  const api = await starting;
  expect(await api.stop()).toBe(0);
});
