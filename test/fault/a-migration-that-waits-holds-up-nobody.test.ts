/**
 * A backup reads a table for as long as it takes; who wants to alter the table waits, and all others would
 * wait behind.
 */
import { expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { isMigrated, migrate } from "../../src/record/db/migrate.ts";
import { ownDatabase } from "../rig/services.ts";

/** Behind a migration that goes on waiting nobody would ever have the table: the backup ends later. */
const WAIT_MS_MAX = 20_000;

test("a table that somebody reads and a migration wants is there for everybody else", async () => {
  const database = await ownDatabase();
  const connect = () => connectRecord(database.url, "setup", 5_000);
  const [sql, other, reader] = [connect(), connect(), connect()];
  const backup = await reader.reserve();
  try {
    await sql`alter table report drop column network`;
    await sql`alter table tls_report_in drop column network`;
    await sql`delete from migration where name like '0042%'`;
    await backup`begin`;
    await backup`lock table report in access share mode`;
    const waiting: string[] = [];
    const migrating = migrate(sql, Date.now(), { waits: (name) => waiting.push(name) });
    const blocked = () => other`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await expect.poll(async () => (await blocked()).length).toBe(1);
    await other.begin(async (tx) => {
      await tx`select set_config('statement_timeout', ${String(WAIT_MS_MAX)}, true)`;
      await tx`select from report`;
    });
    await expect.poll(() => waiting).toEqual([expect.stringMatching(/^0042/)]);
    await backup`rollback`;
    await migrating;
    expect(waiting).toHaveLength(1);
    expect(await isMigrated(sql)).toBe(true);
  } finally {
    backup.release();
    await Promise.all([sql, other, reader].map((one) => one.end({ timeout: 1 })));
    await database.drop();
  }
});
