/**
 * A database in another encoding than UTF8 refuses texts in the middle of a send. No tables are made in one,
 * and `postrider doctor` fails where they were made before this was checked.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { commandLine } from "../rig/command.ts";
import { databaseAt, dropDatabase } from "../rig/database.ts";
import { outsideTransactions } from "../rig/outside.ts";
import { services } from "../rig/services.ts";

const url = databaseAt(services().databaseUrl, `latin_${randomUUID().slice(0, 8)}`);
const line = commandLine({ databaseUrl: url, redisUrl: services().redisUrl });

let sql: Sql;
beforeAll(async () => {
  const name = new URL(url).pathname.slice(1);
  const server = connectRecord(databaseAt(url, "postgres"), "setup", 30_000);
  await outsideTransactions(
    server,
    `create database ${name} encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`,
  );
  await server.end();
  sql = connectRecord(url, "setup", 30_000);
});
afterAll(async () => {
  await sql.end();
  await dropDatabase(url);
});

test("without tables it is refused, with the command that makes another one", async () => {
  expect(await line.postrider("migrate")).toEqual({
    status: 1,
    out: "",
    err: "Postgres (DATABASE_URL): the encoding of the database is LATIN1; UTF8 is needed. Create another one: createdb --encoding=UTF8 --locale=C.UTF-8 --template=template0 NAME\n",
  });
  expect([...(await sql`select relname from pg_class where relnamespace = 'public'::regnamespace`)]).toEqual(
    [],
  );
});

test("the doctor says so", async () => {
  const { status, out } = await line.postrider("doctor");
  expect(status).toBe(1);
  expect(out).toMatch(/^fail +encoding +the encoding of the database is LATIN1; UTF8 is needed$/m);
});
