/**
 * A Redis that evicts or accepts no writes, a Postgres that accepts no writes or has no place for those of
 * today, another secret: each is said, by /readyz and the doctor.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { attachingOf, dayName } from "../../src/record/db/partitions.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { setInRedis } from "../rig/wholeredis.ts";

const DAY_MS = 86_400_000;
const OTHER_SECRET = "another secret than that of the tests";

let stage: Stage;
let engine: Engine;
let sql: Sql;
let redis: RedisClient;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  sql = connectRecord(stage.databaseUrl, "setup", 5_000);
  redis = connectRedis(stage.redisUrl, "command", 20_000);
});
afterAll(async () => {
  redis.disconnect();
  await sql.end({ timeout: 1 });
  await engine.stop();
  await stage.close();
});

async function readiness(): Promise<[number, Record<string, string>]> {
  const response = await fetch(`${engine.url}/readyz`);
  return [response.status, ((await response.json()) as { checks: Record<string, string> }).checks];
}

async function doctorSays(settings = {}): Promise<string> {
  return (await commandLine({ ...stage, settings }).postrider("doctor")).out;
}

const config = (name: string, value: string) => setInRedis(redis, name, value);

test("when all is well all is ok", async () => {
  expect(await readiness()).toEqual([200, { postgres: "ok", redis: "ok", migrations: "ok", clock: "ok" }]);
  const said = await doctorSays();
  expect(said).toMatch(/ok +commits +a send can be committed/);
  expect(said).toMatch(/ok +Redis accepts writes/);
  expect(said).toMatch(/ok +secret +POSTRIDER_SECRET is the one/);
});

test("a Redis that evicts keys, and one that is full", async () => {
  await config("maxmemory-policy", "allkeys-lru");
  const trouble = "it drops keys when it is full: set maxmemory-policy to noeviction, not allkeys-lru";
  expect(await readiness()).toEqual([503, expect.objectContaining({ redis: trouble, postgres: "ok" })]);
  expect(await doctorSays()).toContain(trouble);
  await config("maxmemory-policy", "noeviction");
  await config("maxmemory", "1mb");
  const full = "it accepts no writes (OOM): its maxmemory is used up";
  expect(await readiness()).toEqual([503, expect.objectContaining({ redis: full })]);
  expect(await doctorSays()).toContain(full);
  await config("maxmemory", "0");
  expect((await readiness())[0]).toBe(200);
});

test("a Postgres that accepts no writes", async () => {
  const database = new URL(stage.databaseUrl).pathname.slice(1);
  await sql.unsafe(`alter database "${database}" set default_transaction_read_only = on`);
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity where datname = ${database} and pid <> pg_backend_pid()`;
  const trouble = "it accepts no writes: default_transaction_read_only is on for this database or role";
  await expect.poll(readiness).toEqual([503, expect.objectContaining({ postgres: trouble })]);
  expect(await doctorSays()).toMatch(new RegExp(`fail +commits +${trouble}`));
  await sql.unsafe(
    `set default_transaction_read_only = off; alter database "${database}" reset default_transaction_read_only`,
  );
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity where datname = ${database} and pid <> pg_backend_pid()`;
  await expect.poll(async () => (await readiness())[0]).toBe(200);
});

test("a Postgres whose triggers do not fire", async () => {
  const database = new URL(stage.databaseUrl).pathname.slice(1);
  const fresh = () => sql`
    select pg_terminate_backend(pid) from pg_stat_activity where datname = ${database} and pid <> pg_backend_pid()`;
  await sql.unsafe(`alter database "${database}" set session_replication_role = replica`);
  await fresh();
  const trouble = "its triggers do not fire: session_replication_role is replica";
  const told = expect.objectContaining({ postgres: expect.stringContaining(trouble) });
  await expect.poll(readiness).toEqual([503, told]);
  expect(await doctorSays()).toMatch(new RegExp(`fail +commits +${trouble}`));
  await sql.unsafe(`alter database "${database}" reset session_replication_role`);
  await fresh();
  await expect.poll(async () => (await readiness())[0]).toBe(200);
});

test("a day without partitions", async () => {
  const today = Math.floor(Date.now() / DAY_MS);
  const [name, trouble] = [`email_${dayName(today)}`, "the table email has no partition for today"];
  await sql.unsafe(`alter table email detach partition ${name}`);
  expect(await readiness()).toEqual([
    503,
    expect.objectContaining({ postgres: expect.stringContaining(trouble) }),
  ]);
  expect(await doctorSays()).toMatch(new RegExp(`fail +commits +${trouble}`));
  await sql.unsafe(attachingOf("email", today));
  expect((await readiness())[0]).toBe(200);
});

test("a process with another secret does not start", async () => {
  const settings = { POSTRIDER_SECRET: OTHER_SECRET };
  const other = launch(["api"], { ...stage, settings });
  expect(await other.ended).toBe(78);
  expect(other.err()).toBe(
    "POSTRIDER_SECRET is not the secret that this database belongs to. Set the one that its keys were made with.\n",
  );
  expect(await doctorSays(settings)).toMatch(/fail +secret +POSTRIDER_SECRET is not the one/);
});
