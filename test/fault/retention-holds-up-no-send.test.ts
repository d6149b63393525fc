/**
 * Two days of many old e-mails go while others send; whatever is in the way of a partition, sends do not
 * notice.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { floorId } from "../../src/ids.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { dayName, makePartitions } from "../../src/record/db/partitions.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { longestLockWaitMs } from "../rig/lockwaits.ts";
import { outsideTransactions } from "../rig/outside.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const EMAILS_OF_A_DAY = 500_000;
/** For a lock. What else a busy machine does to a send tells nothing about retention. */
const WAIT_MS_MAX = 500;

let stage: Stage;
let ws: TestWorkspace;
let engine: Engine;
let sql: Sql;
/** Looks at the locks meanwhile. */
let watcher: Sql;
let hand: HandKeeper;
let faults: Error[];
const readers: Sql[] = [];
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  sql = connectRecord(stage.databaseUrl, "setup", 60_000);
  watcher = connectRecord(stage.databaseUrl, "setup", 60_000);
  hand = handKeeper(stage, { now: () => Date.now(), given: () => 0 }, undefined, {
    storeMs: 2_000,
    onFault: (error) => faults.push(error as Error),
  });
});
afterAll(async () => {
  await hand.close();
  await Promise.all([sql, watcher].map((one) => one.end({ timeout: 1 })));
  await engine.stop();
  await stage.close();
});
beforeEach(() => {
  faults = [];
});
afterEach(async () => {
  for (const reader of readers.splice(0)) await reader.end();
});

test("days with many e-mails are checked and dropped, and no send waits half a second for it", async () => {
  await anOldDay(42, 1_000); // a drop locks the parent until the end of its transaction
  await anOldDay(41, EMAILS_OF_A_DAY);
  await anOldDay(40, EMAILS_OF_A_DAY);
  await expectNoWaitingSends(hand.keeper.retention());
  expect(await there(42, 41, 40)).toEqual([]);
  expect(faults).toEqual([]);
}, 240_000);

test("a long transaction on the parents delays what is dropped, and no send", async () => {
  await anOldDay(39, 1_000);
  const reader = await readerOf("email", "body");
  await expectNoWaitingSends(hand.keeper.retention());
  expect(await there(39)).toEqual(["body_39", "email_39"]);
  // a day is made ahead: that does not lock the parents either
  await expectNoWaitingSends(makePartitions(sql, (TODAY + 30) * DAY_MS));
  await reader.end();
  await hand.keeper.retention();
  expect(await there(39)).toEqual([]);
});

test("a partition that somebody uses keeps no other", async () => {
  for (const daysAgo of [38, 37, 36]) await anOldDay(daysAgo, 1_000);
  const reader = await readerOf(partition("email", 37));
  await hand.keeper.retention();
  expect(await there(38, 37, 36)).toEqual(["email_37"]);
  expect(faults.map(({ message }) => message).join()).toContain(partition("email", 37));
  await reader.end();
  await hand.keeper.retention();
  expect(await there(37)).toEqual([]);
});

test("a detaching that was broken off is finished", async () => {
  for (const daysAgo of [36, 35]) await anOldDay(daysAgo, 1_000);
  const broken = connectRecord(stage.databaseUrl, "retention", 5_000);
  const reader = await readerOf("email");
  const detaching = broken.unsafe(
    `alter table email detach partition ${partition("email", 35)} concurrently`,
  );
  await expect(detaching).rejects.toThrow("lock timeout");
  await reader.end();
  await broken.end();
  await hand.keeper.retention();
  expect(await there(36, 35)).toEqual([]);
  expect(faults).toEqual([]);
});

test("a day that was taken out comes back when something in it is open after all", async () => {
  await anOldDay(34, 1_000);
  const [first] = await sql<
    { id: string }[]
  >`select id from ${sql(partition("email", 34))} order by id limit 1`;
  const id = first?.id as string;
  await sql`update email set status = 'deferred' where id = ${id}`;
  await sql.unsafe(`alter table email detach partition ${partition("email", 34)}`);
  await hand.keeper.retention();
  expect(await sql`select status from email where id = ${id}`).toEqual([{ status: "deferred" }]);
  expect(await there(34)).toEqual(["body_34", "email_34"]);
  await sql`update email set status = 'bounced' where id = ${id}`;
  await hand.keeper.retention();
  expect(await there(34)).toEqual([]);
  expect(faults).toEqual([]);
});

function partition(table: "email" | "body", daysAgo: number): string {
  return `${table}_${dayName(TODAY - daysAgo)}`;
}

/** Whatever is left of these days, attached or not, as `email_41`. */
async function there(...daysAgo: number[]): Promise<string[]> {
  const names = new Map(
    daysAgo.flatMap((ago) =>
      (["body", "email"] as const).map((table) => [partition(table, ago), `${table}_${ago}`] as const),
    ),
  );
  const rows = await sql<{ name: string }[]>`
    select relname as name from pg_class where relkind = 'r' and relname::text = any(${[...names.keys()]}::text[]) order by 1`;
  return rows.map(({ name }) => names.get(name) as string).sort();
}

/** E-mails of a day long ago, settled on that day. */
async function anOldDay(daysAgo: number, count: number): Promise<void> {
  const from = (TODAY - daysAgo) * DAY_MS;
  await makePartitions(sql, from);
  const prefix = floorId(from).slice(0, 24); // the first millisecond of the day
  const at = new Date(from);
  await sql`
    insert into ${sql(partition("email", daysAgo))}
      (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at, marks)
    select ${ws.id}, (${prefix} || lpad(to_hex(n), 12, '0'))::uuid, false, 'delivered',
      json_build_object('subject', repeat('an old e-mail ', 20)), 1, 500, ${at}, ${at}, 'd'
    from generate_series(1, ${count}::int) n`;
  await sql`
    insert into body (workspace_id, id, html)
    select workspace_id, id, '<p>old</p>' from ${sql(partition("email", daysAgo))} order by id limit 1000`;
  await outsideTransactions(sql, `vacuum analyze ${partition("email", daysAgo)}`);
}

/** A transaction that has read these tables and goes on until its connection ends. */
async function readerOf(...tables: string[]): Promise<Sql> {
  const reader = connectRecord(stage.databaseUrl, "hints", 60_000); // one connection
  readers.push(reader);
  await reader`begin`;
  for (const table of tables) await reader`select from ${reader(table)} limit 1`;
  return reader;
}

async function expectNoWaitingSends(work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const done = work.finally(() => {
    isOver = true;
  });
  const sending = (async () => {
    do expect((await ws.client.post("/emails", mail())).status).toBe(200);
    while (!isOver);
  })();
  expect(await longestLockWaitMs(watcher, Promise.all([done, sending]))).toBeLessThan(WAIT_MS_MAX);
}
