import { afterAll, beforeAll, expect, test } from "vitest";
import { floorId } from "../../src/ids.ts";
import { Retention } from "../../src/keeper/retention.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { dayName, makePartitions } from "../../src/record/db/partitions.ts";
import { PartitionCheck } from "../../src/record/mail/partitioncheck.ts";
import { dropOldAttachments } from "../../src/record/mail/retention.ts";
import { outsideTransactions } from "../rig/outside.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const WORKSPACE = "00000000-0000-7000-8000-000000000001";

let database: OwnDatabase;
let sql: Sql;
let retentionSql: Sql;
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "setup", 10_000);
  retentionSql = connectRecord(database.url, "retention", 10_000);
});
afterAll(async () => {
  await Promise.all([sql.end({ timeout: 1 }), retentionSql.end({ timeout: 1 })]);
  await database.drop();
});

/** An e-mail accepted some days ago, in a partition of that day. */
async function anEmail(daysAgo: number, status: string, settledDaysAgo: number): Promise<void> {
  await makePartitions(sql, (TODAY - daysAgo) * DAY_MS);
  const id = floorId((TODAY - daysAgo) * DAY_MS + 1);
  const updated = new Date((TODAY - settledDaysAgo) * DAY_MS);
  await sql`insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at)
    values (${WORKSPACE}, ${id}, false, ${status}, '{}', 1, 1, ${updated}, ${updated})`;
  await sql`insert into body (workspace_id, id, html) values (${WORKSPACE}, ${id}, 'x')`;
}

async function drop(): Promise<string[]> {
  const faults: unknown[] = [];
  const retention = new Retention({
    sql: retentionSql,
    days: { emails: 30, bodies: 7, events: 7 },
    onFault: (error) => faults.push(error),
  });
  const dropped = await retention.drop(TODAY * DAY_MS, { isHeld: () => true });
  expect(faults).toEqual([]);
  return dropped;
}

async function there(daysAgo: number): Promise<string[]> {
  const day = dayName(TODAY - daysAgo);
  const rows = await sql<{ name: string }[]>`
    select relname as name from pg_class where relkind = 'r' and relname in (${`email_${day}`}, ${`body_${day}`}) order by 1`;
  return rows.map(({ name }) => name.split("_")[0] as string);
}

test("bodies go after seven days and rows after thirty, from the final status on; what is open stays", async () => {
  await anEmail(100, "delivered", 95);
  await anEmail(60, "scheduled", 60);
  await anEmail(50, "delivered", 20); // it was scheduled for a month, and has settled lately
  await anEmail(40, "waiting", 40);
  await anEmail(20, "bounced", 12);
  await anEmail(12, "delivered", 3);
  await drop();
  expect(await there(100)).toEqual([]);
  expect(await there(60)).toEqual(["body", "email"]);
  expect(await there(50)).toEqual(["email"]);
  expect(await there(40)).toEqual(["body", "email"]);
  expect(await there(20)).toEqual(["email"]);
  expect(await there(12)).toEqual(["body", "email"]);
  expect(await there(0)).toEqual(["body", "email"]);
});

test("an attachment stays as long as any body of its days, and goes then", async () => {
  await anEmail(90, "waiting", 90);
  for (const daysAgo of [95, 88, 0])
    await sql`
      insert into attachment (workspace_id, hash, content, last_used_at)
      values (${WORKSPACE}, ${Buffer.from([daysAgo])}, 'content', ${new Date((TODAY - daysAgo) * DAY_MS)})`;
  const left = async () => {
    while ((await sql.begin((tx) => dropOldAttachments(tx, 1))) > 0) {}
    const rows = await sql<{ hash: Buffer }[]>`select hash from attachment order by last_used_at`;
    return rows.map(({ hash }) => hash[0]);
  };
  expect(await left()).toEqual([88, 0]);
  await sql`update email set status = 'delivered', updated_at = ${new Date(0)}`;
  await drop();
  expect(await left()).toEqual([0]);
});

test("an open row that moves behind what has been looked through is not missed", async () => {
  const ago = 70;
  await anEmail(ago, "delivered", ago);
  const table = `email_${dayName(TODAY - ago)}`;
  const first = floorId((TODAY - ago) * DAY_MS);
  // two of these on a page, so that there are more pages than one step looks at
  const insert = (from: number, to: number, status: string) => sql`
    insert into ${sql(table)} (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at)
    select ${WORKSPACE}, (${first.slice(0, 24)} || lpad(to_hex(n), 12, '0'))::uuid, false, ${status},
      json_build_object('subject', (select string_agg(md5(random()::text), '') from generate_series(1, 58) where n > 0)),
      1, 1, to_timestamp(0), to_timestamp(0)
    from generate_series(${from}::int, ${to}::int) n`;
  await insert(1, 5_000, "delivered");
  await insert(5_001, 5_001, "deferred");
  const pageOf = async () => {
    const [row] = await sql<{ page: number }[]>`
      select (ctid::text::point)[0]::int as page from ${sql(table)} where status = 'deferred'`;
    return row?.page ?? 0;
  };
  const before = await pageOf();
  expect(before).toBeGreaterThan(2_000);

  const check = new PartitionCheck(sql, table, 10_000);
  const now = new Date(TODAY * DAY_MS);
  expect(await check.step(now)).toBe("unfinished");
  await sql`delete from ${sql(table)} where ctid < '(50,0)'`;
  await outsideTransactions(sql, `vacuum ${table}`);
  // what an update does that finds no room on its page
  await sql`delete from ${sql(table)} where status = 'deferred'`;
  await insert(5_001, 5_001, "deferred");
  expect(await pageOf()).toBeLessThan(50);
  let finding = await check.step(now);
  while (finding === "unfinished") finding = await check.step(now);
  expect(finding).toBe("open");

  await sql`update ${sql(table)} set status = 'bounced' where status = 'deferred'`;
  do finding = await check.step(now);
  while (finding === "unfinished");
  expect(finding).toBe("over");
});
