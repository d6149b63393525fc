/**
 * One statement may change an audience of any size: its contacts stay listed by their tags, and that takes no
 * minute.
 */
import { expect, test } from "vitest";
import { cpuSeconds } from "../../bench/meter.ts";
import { newId } from "../../src/ids.ts";
import { connectRecord, type Sql, type Tx } from "../../src/record/db/connect.ts";
import { ownDatabase } from "../rig/services.ts";

const CONTACTS = 20_000;
/** Of CPU. One to two seconds; compared row by row it was over a minute. */
const STATEMENT_S_MAX = 15;
const SETUP_MS_MAX = 120_000;
const WORKSPACE = newId(Date.now());
const AUDIENCE = newId(Date.now());

test("20,000 contacts are changed in one statement", { timeout: 2 * SETUP_MS_MAX }, async () => {
  const database = await ownDatabase();
  const sql = connectRecord(database.url, "setup", SETUP_MS_MAX);
  try {
    await fill(sql);
    expect(await listed(sql)).toEqual({ all: CONTACTS, odd: CONTACTS / 2 });
    await sql.begin(async (tx) => {
      // a connection that has served for a while has its plans: they were made for a few rows
      await inTime(tx, 5, "{all,few}");
      expect(await listed(tx)).toEqual({ all: CONTACTS, odd: CONTACTS / 2 - 2, few: 5 });
      await inTime(tx, CONTACTS, "{all,new}");
      expect(await listed(tx)).toEqual({ all: CONTACTS, new: CONTACTS });
      await archive(tx, true);
      expect(await listed(tx)).toEqual({});
      await archive(tx, false);
      expect(await listed(tx)).toEqual({ all: CONTACTS, new: CONTACTS });
      await metered(tx, () => tx`delete from contact where workspace_id = ${WORKSPACE}`);
      expect(await listed(tx)).toEqual({});
    });
  } finally {
    await sql.end();
    await database.drop();
  }
});

function inTime(tx: Tx, first: number, tags: string): Promise<void> {
  return metered(
    tx,
    () => tx`
      update contact set tags = ${tags}::text[]
      where workspace_id = ${WORKSPACE} and substr(identity, 1, 5)::int < ${first}`,
  );
}

function archive(tx: Tx, isGone: boolean): Promise<void> {
  return metered(
    tx,
    () => tx`
      update contact set archived_at = case when ${isGone} then now() end where workspace_id = ${WORKSPACE}`,
  );
}

async function metered(tx: Tx, statement: () => PromiseLike<unknown>): Promise<void> {
  const [{ pid = 0 } = {}] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
  const before = cpuSeconds(pid);
  await statement();
  expect(cpuSeconds(pid) - before).toBeLessThan(STATEMENT_S_MAX);
}

/** How many are listed under each tag. */
async function listed(sql: Sql | Tx): Promise<Record<string, number>> {
  const rows = await sql<{ tag: string; count: number }[]>`
    select tag, count(*)::int as count from contact_tag where audience_id = ${AUDIENCE} group by tag`;
  return Object.fromEntries(rows.map(({ tag, count }) => [tag, count]));
}

async function fill(sql: Sql): Promise<void> {
  const at = new Date();
  await sql`
    insert into workspace (id, handle, name, plan, changed_at, created_at)
    values (${WORKSPACE}, 'tagged', 'Tagged', 'pro', ${at}, ${at})`;
  await sql`
    insert into audience (workspace_id, id, name, created_at) values (${WORKSPACE}, ${AUDIENCE}, 'All', ${at})`;
  await sql`
    insert into contact (workspace_id, id, audience_id, identity, email, tags, status, created_at, updated_at)
    select ${WORKSPACE}, gen_random_uuid(), ${AUDIENCE}, address, address,
           case when n % 2 = 1 then '{all,odd}' else '{all}' end::text[], 'subscribed', ${at}, ${at}
    from generate_series(0, ${CONTACTS - 1}) as n
    cross join lateral (select lpad(n::text, 5, '0') || '@example.net' as address) as named`;
}
