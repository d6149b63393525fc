/**
 * Brings the schema up to date: numbered files, each in a transaction of its own, under an advisory lock, so
 * that any number of processes may start at once. A file that was changed after it was applied stops the
 * start. If no migration is missing, no statement needs the owner of the tables.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { codeOf } from "../../caught.ts";
import type { Sql, Tx } from "./connect.ts";
import { isThere, makePartitions } from "./partitions.ts";
import { boolean, onlyRow, type RowOf, text, typed } from "./rowshape.ts";
import { expectEncoding, expectSupported, majorVersion } from "./version.ts";

const MIGRATIONS_FOLDER = new URL("../../../src/record/migrations/", import.meta.url);
const MIGRATION_LOCK = 7_165_001;

/** Is told by the names of migrations. */
export type MigrationListener = {
  applied?(name: string): void;
  /** Others use a table that it changes: it waits, and lets others have the table in between. Told once. */
  waits?(name: string): void;
};

type Migration = { name: string; text: string; checksum: string };

/** A migration is missing, or cannot be read, and our role may not do what is needed. */
class NotOwner extends Error {}
const INSUFFICIENT_PRIVILEGE = "42501";
const NO_RIGHTS = "may not read the tables: run ops/postgres-roles.sql in this database.";
const LOCK_TIMEOUT = "55P03";
const LOCK_WAIT_MS = 1_000;
/** For those who waited meanwhile. */
const LOCK_PAUSE_MS = 1_000;

export async function migrate(
  sql: Sql,
  now: number,
  listener: MigrationListener = {},
  only: readonly AppliedMigration[] | null = null,
): Promise<void> {
  try {
    expectSupported(await majorVersion(sql));
    const applied = await sql.begin(readAppliedOrFit);
    for (const file of only === null ? migrations() : filesOf(only))
      if (isMissing(file, applied)) await apply(sql, file, listener);
    // a backup names its own, and an older one may lack a table that has partitions today
    if (only === null) await makePartitions(sql, now);
  } catch (error) {
    throw codeOf(error) === INSUFFICIENT_PRIVILEGE ? notOwner(error as Error) : error;
  }
}

export const appliedMigrationRow = { name: text, checksum: text };
export type AppliedMigration = RowOf<typeof appliedMigrationRow>;

/** Of a backup, whose rows fit the tables that these made. */
function filesOf(only: readonly AppliedMigration[]): Migration[] {
  const files = new Map(migrations().map((file) => [file.checksum, file]));
  return only.map(({ name, checksum }) => {
    const file = files.get(checksum);
    if (!file)
      throw new Error(
        `The backup needs the migration ${name}, which this version of Postrider does not have.`,
      );
    return file;
  });
}

type Applied = Map<string, string>;

/**
 * By name, with their checksums. The lock is that of a transaction: a pooler may give the connection to
 * another.
 */
async function readApplied(tx: Tx): Promise<Applied> {
  await tx`select pg_advisory_xact_lock(${MIGRATION_LOCK})`;
  if (!(await isThere(tx, "migration")))
    await tx`create table migration (
      name text primary key, checksum text not null, applied_at timestamptz not null default now())`;
  if (!(await mayRead(tx))) throw new NotOwner(`The role of DATABASE_URL ${NO_RIGHTS}`);
  const rows = await typed(tx, { name: text, checksum: text })`select name, checksum from migration`;
  const applied = new Map(rows.map((row) => [row.name, row.checksum]));
  await followRenamed(tx, migrations(), applied);
  return applied;
}

/** A database without tables has to hold every text; one that has some goes on as it is. */
async function readAppliedOrFit(tx: Tx): Promise<Applied> {
  const applied = await readApplied(tx);
  if (applied.size === 0) await expectEncoding(tx);
  return applied;
}

function isMissing({ name, checksum }: Migration, applied: Applied): boolean {
  const known = applied.get(name);
  if (known !== undefined && known !== checksum)
    throw new Error(
      `The migration ${name} was changed after it had been applied. Install the version of Postrider that matches the database.`,
    );
  return known === undefined;
}

/** Unless another process has applied it meanwhile. */
async function apply(sql: Sql, file: Migration, listener: MigrationListener): Promise<void> {
  const write = () =>
    sql.begin(async (tx) => {
      if (!isMissing(file, await readApplied(tx))) return false;
      await tx`select set_config('lock_timeout', ${String(LOCK_WAIT_MS)}, true)`;
      await tx.unsafe(file.text);
      await tx`insert into migration (name, checksum) values (${file.name}, ${file.checksum})`;
      return true;
    });
  const isApplied = await untilLocked(write, () => listener.waits?.(file.name));
  if (isApplied) listener.applied?.(file.name);
}

/**
 * Behind a migration that waits for a table everybody else waits for it too, and a backup may read it for
 * hours.
 */
async function untilLocked<T>(work: () => Promise<T>, onWait: () => void): Promise<T> {
  for (let waits = 0; ; waits++) {
    try {
      return await work();
    } catch (error) {
      if (codeOf(error) !== LOCK_TIMEOUT) throw error;
      if (waits === 0) onWait();
      await new Promise((resolve) => setTimeout(resolve, LOCK_PAUSE_MS));
    }
  }
}

/** A file that was renamed and not changed has been applied: the number in its name is no part of it. */
async function followRenamed(tx: Tx, files: Migration[], applied: Applied): Promise<void> {
  const named = new Set(files.map(({ name }) => name));
  for (const [former, checksum] of [...applied]) {
    const file = named.has(former) ? undefined : files.find((one) => one.checksum === checksum);
    if (!file || applied.has(file.name)) continue;
    await tx`update migration set name = ${file.name} where name = ${former}`;
    applied.delete(former);
    applied.set(file.name, checksum);
  }
}

function notOwner({ message }: Error): NotOwner {
  return new NotOwner(
    `The schema is not up to date, and the role of DATABASE_URL may not change it (${message}). ` +
      "Run `postrider migrate` with the url of the role that owns the tables. " +
      "If this is that role, run ops/postgres-roles.sql in this database first.",
  );
}

async function mayRead(sql: Sql | Tx): Promise<boolean> {
  const asked = typed(sql, { may: boolean })`
    select coalesce(has_table_privilege(to_regclass('migration'), 'select'), true) as may`;
  return onlyRow(await asked).may;
}

/** What keeps a process from the schema, or null: for the operator who asks. */
export async function schemaTrouble(sql: Sql): Promise<string | null> {
  if (!(await mayRead(sql))) return `the role of DATABASE_URL ${NO_RIGHTS}`;
  return (await isMigrated(sql).catch(() => false)) ? null : "missing: run `postrider migrate`";
}

/** Is refused where Postgres accepts no writes, as a standby does. */
export async function tryToWrite(sql: Sql): Promise<void> {
  await sql`delete from migration where false`;
}

/** Whether every migration of this build is applied: part of readiness. */
export async function isMigrated(sql: Sql): Promise<boolean> {
  const rows = await typed(sql, { name: text })`select name from migration`;
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
