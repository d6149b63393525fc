import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { isMigrated, migrate } from "../../src/record/db/migrate.ts";
import { cloneTemplate, dropDatabase } from "../rig/database.ts";
import { services } from "../rig/services.ts";

const TIMEOUT_MS = 5_000;

let url: string;
let sql: Sql;
beforeAll(async () => {
  url = await cloneTemplate(services().databaseUrl, `renamed_${randomUUID().replaceAll("-", "")}`);
  sql = connectRecord(url, "setup", TIMEOUT_MS);
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await dropDatabase(url);
});

test("a file that only got another number is not applied again", async () => {
  await sql`update migration set name = '0017_senders.sql' where name = '0014_senders.sql'`;
  await sql`update migration set name = '0018_suspension.sql' where name = '0015_suspension.sql'`;
  const applied: string[] = [];
  await migrate(sql, Date.now(), { applied: (name) => applied.push(name) });
  expect(applied).toEqual([]);
  expect(await isMigrated(sql)).toBe(true);
});

test("the numbers of the files have no holes", async () => {
  const names = await sql<{ name: string }[]>`select name from migration order by name`;
  expect(names.map(({ name }) => Number(name.slice(0, 4)))).toEqual(names.map((_, n) => n + 1));
});
