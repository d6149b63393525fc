/**
 * A database or a role may have a search path of its own. Then the tables are in its first schema, and a
 * backup or a move between cells finds them there.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { workspaceTables } from "../../src/record/cells/tables.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { commandLine } from "../rig/command.ts";
import { databaseAt, dropDatabase } from "../rig/database.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const ASK_MS_MAX = 20_000;
let stage: Stage;
let folder: string;
let before: { tables: number; sequences: number };
let restoredUrl: string;
const opened: Sql[] = [];

function open(url: string): Sql {
  const sql = connectRecord(url, "setup", ASK_MS_MAX);
  opened.push(sql);
  return sql;
}

async function giveSchema(url: string): Promise<void> {
  const sql = open(url);
  await sql`alter schema public rename to "Mail of us"`;
  await sql`create schema public`;
  await sql`alter database ${sql(nameOf(url))} set search_path = "Mail of us"`;
}

const nameOf = (url: string) => new URL(url).pathname.slice(1);

async function sequencesIn(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int from pg_sequences`;
  return row?.count ?? 0;
}

beforeAll(async () => {
  stage = await openStage();
  folder = mkdtempSync(join(tmpdir(), "postrider-schema-"));
  const sql = open(stage.databaseUrl);
  before = { tables: (await workspaceTables(sql)).length, sequences: await sequencesIn(sql) };
  await giveSchema(stage.databaseUrl);
  restoredUrl = databaseAt(stage.databaseUrl, `${nameOf(stage.databaseUrl)}_restored`);
  await createDatabase(stage.databaseUrl, nameOf(restoredUrl), "template0");
  await giveSchema(restoredUrl);
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await Promise.all(opened.map((sql) => sql.end({ timeout: 1 })));
  await stage.close();
  await dropDatabase(restoredUrl);
});

test("a backup has them, and is restored into such a schema once", async () => {
  const file = join(folder, "postrider.gz");
  const from = commandLine(stage);
  const into = commandLine({ ...stage, databaseUrl: restoredUrl });
  await from.json("workspace", "create", "--name", "Acme", "--plan", "pro");
  const saved = await from.json<{ tables: number; rows: number }>("backup", file);
  expect(saved.rows).toBeGreaterThan(0);
  expect(await into.json("restore", file)).toMatchObject({ tables: saved.tables, rows: saved.rows });
  const sql = open(restoredUrl);
  expect(await sql`select name from workspace`).toMatchObject([{ name: "Acme" }]);
  expect(await sequencesIn(sql)).toBe(before.sequences);
  const again = await into.postrider("restore", file);
  expect(again.status).not.toBe(0);
  expect(again.err).toContain("The database is not empty.");
});

test("a move between cells has them", async () => {
  expect(await workspaceTables(open(stage.databaseUrl))).toHaveLength(before.tables);
});
