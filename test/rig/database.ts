/** Databases on the server of the test run: migrated once into a template, and cloned from it in 200 ms. */
import { DAY_MS } from "../../src/clock.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { createDatabase } from "../../src/record/db/create.ts";
import { migrate } from "../../src/record/db/migrate.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import { outsideTransactions } from "./outside.ts";

const TEMPLATE = "rig_template";
const SETUP_MS_MAX = 30_000;

/** The url of another database on the same server. */
export function databaseAt(url: string, name: string): string {
  const other = new URL(url);
  other.pathname = name;
  return other.href;
}

export async function makeTemplate(url: string, now: number): Promise<void> {
  await createDatabase(url, TEMPLATE);
  const sql = connectRecord(databaseAt(url, TEMPLATE), "setup", SETUP_MS_MAX);
  await migrate(sql, now);
  // a run may go on after midnight, and not everybody who starts then may make the days ahead
  await makePartitions(sql, now + DAY_MS);
  await sql.end();
}

/** Hands back the url of the new database. */
export async function cloneTemplate(url: string, name: string): Promise<string> {
  await createDatabase(databaseAt(url, "postgres"), name, TEMPLATE);
  return databaseAt(url, name);
}

/** Also when somebody is still connected to it. */
export async function dropDatabase(url: string): Promise<void> {
  const sql = connectRecord(databaseAt(url, "postgres"), "setup", SETUP_MS_MAX);
  await outsideTransactions(sql, `drop database "${new URL(url).pathname.slice(1)}" with (force)`);
  await sql.end();
}
