import { afterAll, beforeAll, expect, test } from "vitest";
import { floorId } from "../../src/ids.ts";
import { connectRecord, type Sql } from "../../src/record/connect.ts";
import { dayName, makePartitions } from "../../src/record/partitions.ts";
import { dropOldAttachments, dropOldPartitions } from "../../src/record/retention.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const WORKSPACE = "00000000-0000-7000-8000-000000000001";

let database: OwnDatabase;
let sql: Sql;
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "setup", 10_000);
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
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
  await sql.begin((tx) => dropOldPartitions(tx, { emails: 30, bodies: 7 }, TODAY * DAY_MS));
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
  await sql.begin((tx) => dropOldPartitions(tx, { emails: 30, bodies: 7 }, TODAY * DAY_MS));
  expect(await left()).toEqual([0]);
});
