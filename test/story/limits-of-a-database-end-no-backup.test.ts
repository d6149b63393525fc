/**
 * A database may limit how long statements and transactions take, wait for locks and are idle. Migrations,
 * backups, restores and commands take as long as they take all the same; all others have limits of their own.
 */
import { Writable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectRecord, POOLS, type PoolName, type Sql } from "../../src/record/db/connect.ts";
import { dump } from "../../src/record/db/dump.ts";
import { majorVersion } from "../../src/record/db/version.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const LIMIT_MS = 300;
const LONGER = "select pg_sleep(0.6)";
let stage: Stage;
const opened: Sql[] = [];
const served = (Object.keys(POOLS) as PoolName[]).filter((pool) => pool !== "setup");

function open(pool: PoolName): Sql {
  const sql = connectRecord(stage.databaseUrl, pool, 20_000);
  opened.push(sql);
  return sql;
}

/** Of connections that are made from now on. */
const limit = (setting: string) => alter(`set ${setting} = ${LIMIT_MS}`);
const lift = (setting: string) => alter(`reset ${setting}`);

async function alter(change: string): Promise<void> {
  const sql = open("setup");
  await sql.unsafe(`alter database "${new URL(stage.databaseUrl).pathname.slice(1)}" ${change}`);
  await sql.end();
}

beforeAll(async () => {
  stage = await openStage();
  for (const setting of ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"])
    await limit(setting);
});
afterAll(async () => {
  await Promise.all(opened.map((sql) => sql.end({ timeout: 1 })));
  await stage.close();
});

async function migrateSlowly(): Promise<void> {
  const other = open("setup");
  await open("setup").begin(async (tx) => {
    await tx.unsafe(LONGER);
    await other.unsafe(LONGER);
    await tx.unsafe(LONGER);
  });
}

test("a migration may take longer, and pause", migrateSlowly);

test("a statement of a command may take longer, too", async () => {
  await open("setup").unsafe(LONGER);
});

async function backUpSlowly(): Promise<void> {
  const other = open("setup");
  let pieces = 0;
  const slow = new Writable({
    highWaterMark: 1,
    async write(_piece, _encoding, done) {
      if (pieces++ < 3) await other.unsafe(LONGER);
      done();
    },
  });
  const written = dump(stage.databaseUrl, slow);
  await expect(written).resolves.toMatchObject({ migrations: expect.any(Number) });
}

test("a backup is written to what takes it slowly", backUpSlowly);

test.each(Object.keys(POOLS) as PoolName[])("the pool `%s` does not have these limits", async (pool) => {
  const sql = open(pool);
  await sql.begin(async (tx) => {
    await tx.unsafe(LONGER);
    const [row] = (await tx.unsafe("select current_setting('lock_timeout') as lock")) as { lock: string }[];
    expect(row?.lock).not.toBe(`${LIMIT_MS}ms`);
  });
});

describe("idle", () => {
  beforeAll(() => limit("idle_session_timeout"));
  // commands end their connections themselves
  afterAll(() => lift("idle_session_timeout"));

  test.each(served)("a connection of the pool `%s` is kept", async (pool) => {
    const [sql, other] = [open(pool), open("setup")];
    const backend = () => sql.unsafe<{ pid: number }[]>("select pg_backend_pid() as pid");
    const before = await backend();
    await other.unsafe(LONGER);
    expect([...(await backend())]).toEqual([...before]);
  });
});

test("transactions may take longer than transaction_timeout, of Postgres 17 and newer", async () => {
  if ((await majorVersion(open("setup"))) < 17) return;
  await limit("transaction_timeout");
  const [row] = await open("keeper").unsafe<{ set: string }[]>(
    "select current_setting('transaction_timeout') as set",
  );
  expect(row?.set).toBe(`${LIMIT_MS}ms`);
  await migrateSlowly();
  await backUpSlowly();
});
