/**
 * What a standby answers is at most 5 s old, also right after this process stood still: it has not looked at
 * the standby meanwhile, and is asked before it does.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type Postgres, startPostgres } from "../../src/embedded/postgres.ts";
import { connectRecord, type PoolName, type Sql } from "../../src/record/db/connect.ts";
import { Replica } from "../../src/record/db/replica.ts";
import { services } from "../rig/services.ts";
import { type Standby, startStandby } from "../rig/standby.ts";

const ANSWER_MS_MAX = 20_000;
const STOOD_STILL_MS = 10_000;

const opened: Sql[] = [];
let primary: Postgres;
let standby: Standby;
beforeAll(async () => {
  const folder = join(services().folder, "with-an-old-standby");
  primary = await startPostgres({ folder, durable: false, log: () => {} });
  standby = await startStandby(primary);
});
afterAll(async () => {
  vi.restoreAllMocks();
  await Promise.all(opened.map((sql) => sql.end({ timeout: 1 })));
  await standby.stop();
  await primary.stop();
});

function connect(url: string, pool: PoolName): Sql {
  const sql = connectRecord(url, pool, ANSWER_MS_MAX);
  opened.push(sql);
  return sql;
}

test("the primary answers what is asked before the standby was looked at again", async () => {
  let isUsed = () => {};
  const used = new Promise<void>((resolve) => {
    isUsed = resolve;
  });
  const replica = new Replica({
    primary: connect(primary.url, "reads"),
    standby: connect(standby.url, "lists"),
    behindPooler: () => connect(standby.url, "lists"),
    looks: connect(primary.url, "reads"),
    answerMsMax: 1_000,
    onChange: (trouble) => trouble === null && isUsed(),
  });
  replica.start();
  await used;
  const whoAnswers = async () => {
    const [row] = await replica.reads()`select pg_is_in_recovery() as "isStandby"`;
    return row?.isStandby ? "standby" : "primary";
  };
  expect(await whoAnswers()).toBe("standby");
  // nobody looks while a process stands still
  replica.stop();
  const now = performance.now() + STOOD_STILL_MS;
  vi.spyOn(performance, "now").mockReturnValue(now);
  expect(await whoAnswers()).toBe("primary");
});
