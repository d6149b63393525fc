/** Makes a database when it is not there: for development and tests, where we own the server. */
import { connectRecord } from "./connect.ts";

const CREATE_MS_MAX = 30_000;

/** `template` clones another database, which nobody may be connected to. */
export async function createDatabase(serverUrl: string, name: string, template = "template1"): Promise<void> {
  const sql = connectRecord(serverUrl, "setup", CREATE_MS_MAX);
  try {
    const known = await sql`select 1 from pg_database where datname = ${name}`;
    if (known.length > 0) return;
    const connection = await sql.reserve(); // not in a transaction
    await connection`create database ${sql(name)} template ${sql(template)}`.finally(connection.release);
  } finally {
    await sql.end({ timeout: 1 });
  }
}
