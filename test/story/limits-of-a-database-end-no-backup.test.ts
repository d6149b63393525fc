/**
 * A database may limit how long statements take, wait for locks and leave transactions idle. Migrations,
 * backups and restores take as long as they take all the same; all others have limits of their own.
 */
import { Writable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, POOLS, type PoolName, type Sql } from "../../src/record/db/connect.ts";
import { dump } from "../../src/record/db/dump.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const LIMIT_MS = 100;
const LONGER = "select pg_sleep(0.3)";
let stage: Stage;
const opened: Sql[] = [];

function open(pool: PoolName): Sql {
  const sql = connectRecord(stage.databaseUrl, pool, 20_000);
  opened.push(sql);
  return sql;
}

beforeAll(async () => {
  stage = await openStage();
  const sql = open("setup");
  const name = new URL(stage.databaseUrl).pathname.slice(1);
  for (const setting of ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"])
    await sql.unsafe(`alter database "${name}" set ${setting} = ${LIMIT_MS}`);
  await sql.end();
});
afterAll(async () => {
  await Promise.all(opened.map((sql) => sql.end({ timeout: 1 })));
  await stage.close();
});

test("a migration may take longer, and pause", async () => {
  const other = open("retention");
  await open("setup").begin(async (tx) => {
    await tx.unsafe(LONGER);
    await other.unsafe(LONGER);
    await tx.unsafe(LONGER);
  });
});

test("a backup is written to what takes it slowly", async () => {
  const other = open("retention");
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
});

test.each(Object.keys(POOLS) as PoolName[])("the pool `%s` does not have these limits", async (pool) => {
  const sql = open(pool);
  await sql.begin(async (tx) => {
    await tx.unsafe(LONGER);
    const [row] = (await tx.unsafe("select current_setting('lock_timeout') as lock")) as { lock: string }[];
    expect(row?.lock).not.toBe(`${LIMIT_MS}ms`);
  });
});
