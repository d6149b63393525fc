/** A backup of a version that did not have all of today's tables: it is restored, and migrated. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { dump, restore } from "../../src/record/db/dump.ts";
import { isMigrated, migrate } from "../../src/record/db/migrate.ts";
import { dayNumber, listPartitions, makePartition } from "../../src/record/db/partitions.ts";
import { databaseAt, dropDatabase } from "../rig/database.ts";
import { services } from "../rig/services.ts";

const MIGRATIONS = new URL("../../src/record/migrations/", import.meta.url);
/** Makes the table `email_ending`, which has partitions. */
const FIRST_MISSING = "0038_search.sql";
const DAY = "20251103";
const STATEMENT_MS_MAX = 60_000;

const opened: Sql[] = [];
const names: string[] = [];
async function emptyDatabase(name: string): Promise<{ url: string; sql: Sql }> {
  const own = `${name}_${process.pid}`;
  await createDatabase(databaseAt(services().databaseUrl, "postgres"), own, "template0");
  names.push(own);
  const url = databaseAt(services().databaseUrl, own);
  const sql = connectRecord(url, "setup", STATEMENT_MS_MAX);
  opened.push(sql);
  return { url, sql };
}

let before: { url: string; sql: Sql };
let after: { url: string; sql: Sql };
beforeAll(async () => {
  before = await emptyDatabase("older");
  after = await emptyDatabase("newer");
});
afterAll(async () => {
  await Promise.all(opened.map((sql) => sql.end({ timeout: 1 })));
  for (const name of names) await dropDatabase(databaseAt(services().databaseUrl, name));
});

test("its tables are made as they were, filled, and migrated", async () => {
  const applied = readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith(".sql") && name < FIRST_MISSING)
    .sort()
    .map((name) => {
      const text = readFileSync(new URL(name, MIGRATIONS), "utf8");
      return { name, checksum: createHash("sha256").update(text).digest("hex") };
    });
  await migrate(before.sql, Date.now(), {}, applied);
  await makePartition(before.sql, "email", dayNumber(DAY));
  await before.sql`insert into secret_check (digest) values ('of a secret')`;
  const file = new PassThrough();
  const [, bytes] = await Promise.all([dump(before.url, file).then(() => file.end()), buffer(file)]);

  const input = new PassThrough();
  input.end(bytes);
  const { migrations } = await restore(after.url, after.sql, input, Date.now());
  expect(migrations).toBe(applied.length);
  expect(await isMigrated(after.sql)).toBe(true);
  expect(await after.sql`select convert_from(digest, 'UTF8') as text from secret_check`).toEqual([
    { text: "of a secret" },
  ]);
  const partitions = (await listPartitions(after.sql)).filter(({ day }) => day === DAY);
  expect(partitions.map(({ table }) => table)).toEqual(["email", "email_ending"]);
});
