/**
 * Brings the schema up to date: numbered files, each in a transaction of its own, under an advisory lock, so that any
 * number of processes may start at once. A file that was changed after it was applied stops the start. If no migration
 * is missing, no statement needs the owner of the tables.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import type { Sql, Tx } from "./connect.ts";
import { isThere, makePartitions } from "./partitions.ts";
import type { Reserved } from "./statement.ts";

const MIGRATIONS_FOLDER = new URL("../../../src/record/migrations/", import.meta.url);
const MIGRATION_LOCK = 7_165_001;

type Migration = { name: string; text: string; checksum: string };

/** A migration is missing, and our role may not apply it. */
export class NotOwner extends Error {}
const INSUFFICIENT_PRIVILEGE = "42501";

export async function migrate(
  sql: Sql,
  now: number,
  said: (applied: string) => void = () => {},
): Promise<void> {
  const connection = await sql.reserve();
  try {
    await connection`select pg_advisory_lock(${MIGRATION_LOCK})`;
    await applyMissing(connection, said);
    await makePartitions(connection, now);
    await unlock(connection);
  } catch (error) {
    // a file that failed left its transaction open; a connection that cannot be tidied up frees its locks by its end
    const tidied = connection`rollback`.then(() => unlock(connection));
    await tidied.catch(() => connection.drop());
    throw (error as { code?: string }).code === INSUFFICIENT_PRIVILEGE ? notOwner(error as Error) : error;
  }
}

async function applyMissing(connection: Tx, said: (applied: string) => void): Promise<void> {
  if (!(await isThere(connection, "migration")))
    await connection`create table migration (
      name text primary key, checksum text not null, applied_at timestamptz not null default now())`;
  const applied = new Map(
    (await connection<{ name: string; checksum: string }[]>`select name, checksum from migration`).map(
      (row) => [row.name, row.checksum],
    ),
  );
  const files = migrations();
  await followRenamed(connection, files, applied);
  for (const { name, text, checksum } of files) {
    const known = applied.get(name);
    if (known === checksum) continue;
    if (known)
      throw new Error(
        `The migration ${name} was changed after it had been applied. Install the version of Postrider that matches the database.`,
      );
    await connection.unsafe(
      `begin; ${text}; insert into migration (name, checksum) values ('${name}', '${checksum}'); commit`,
    );
    said(name);
  }
}

/** A file that was renamed and not changed has been applied: the number in its name is no part of it. */
async function followRenamed(
  connection: Tx,
  files: Migration[],
  applied: Map<string, string>,
): Promise<void> {
  const named = new Set(files.map(({ name }) => name));
  for (const [former, checksum] of [...applied]) {
    const file = named.has(former) ? undefined : files.find((one) => one.checksum === checksum);
    if (!file || applied.has(file.name)) continue;
    await connection`update migration set name = ${file.name} where name = ${former}`;
    applied.delete(former);
    applied.set(file.name, checksum);
  }
}

function notOwner({ message }: Error): NotOwner {
  return new NotOwner(
    `The schema is not up to date, and the role of DATABASE_URL may not change it (${message}). ` +
      "Run `postrider migrate` with the url of the role that owns the tables.",
  );
}

async function unlock(connection: Reserved): Promise<void> {
  await connection`select pg_advisory_unlock(${MIGRATION_LOCK})`;
  connection.release();
}

/** Whether every migration of this build is applied: part of readiness. */
export async function isMigrated(sql: Sql): Promise<boolean> {
  const rows = await sql<{ name: string }[]>`select name from migration`;
  const names = new Set(rows.map((row) => row.name));
  return migrations().every(({ name }) => names.has(name));
}

function migrations(): Migration[] {
  return readdirSync(MIGRATIONS_FOLDER)
    .filter((file) => file.endsWith(".sql"))
    .sort()
    .map((name) => {
      const text = readFileSync(new URL(name, MIGRATIONS_FOLDER), "utf8");
      return { name, text, checksum: createHash("sha256").update(text).digest("hex") };
    });
}
