/**
 * However many rows one call is about, no transaction changes more than a few thousand of them: neither does
 * it run into the statement timeout, and so fail for ever, nor do others wait for its locks until it is done.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { stopRuns } from "../../src/record/automations/runs.ts";
import { contactCommit } from "../../src/record/contacts/commit.ts";
import {
  beginErasure,
  emptyDeletedAudience,
  eraseSizes,
  eraseStep,
} from "../../src/record/contacts/erasures.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { cancelDeferred, retryDeferred } from "../../src/record/mail/queueview.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import { type SharedContact, SharedRows, type SharedWorkspace } from "../rig/sharedrows.ts";

const MANY = 5_000;
const VERY_MANY = 25_000;
const STEP_MAX = 10_000;
const STORE_MS_MAX = 30_000;

let database: OwnDatabase;
let rows: SharedRows;
let sql: Sql;
let ws: SharedWorkspace;
beforeEach(async () => {
  database = await ownDatabase();
  rows = await SharedRows.make(database.url, 1, "small tables");
  await rows.refill();
  sql = connectRecord(database.url, "setup", STORE_MS_MAX);
  ws = rows.workspaces[0] as SharedWorkspace;
  await sql`drop function linger cascade`;
  await sql`create table step (transaction xid8, name text, changed bigint)`;
});
afterEach(async () => {
  await sql.end({ timeout: 1 });
  await rows.close();
  await database.drop();
});

test("a contact who did very much is erased, and nothing of it stays", async () => {
  const contact = ws.contacts[0] as SharedContact;
  await sql`
    insert into event (workspace_id, contact_id, id, audience_id, name, created_at)
    select ${ws.id}, ${contact.id}, n::text, ${contact.audienceId}, 'visit', now() from generate_series(1, ${VERY_MANY}) n`;
  await insertRuns(contact);
  await countSteps("event", "delete");
  await countSteps("run", "update");
  const commits = connectRecord(database.url, "commits", STORE_MS_MAX);
  const commit = contactCommit({ connect: () => commits, timeoutMs: STORE_MS_MAX }, Buffer.from);
  const verdict = await commit.submit({
    workspaceId: ws.id,
    audienceId: contact.audienceId,
    who: { id: contact.id },
    change: { kind: "erase" },
    keyId: null,
    given: 0,
    bytes: 1,
  });
  await commit.close();
  expect(verdict.kind).toBe("changed");
  const sizes = eraseSizes(STORE_MS_MAX);
  for (let left = await beginErasure(sql, ws.id); left; left = await beginErasure(sql, ws.id))
    for (let more: typeof left | null = left; more; ) more = await eraseStep(sql, more, rows.date, sizes);

  expect(await sql`select from event where contact_id = ${contact.id} limit 1`).toHaveLength(0);
  expect(await sql`select from run where contact_id = ${contact.id} and wake_at is not null`).toHaveLength(0);
  expect(await sql`select from entry where contact_id = ${contact.id}`).toHaveLength(0);
  expect(await sql`select from erased_contact where workspace_id = ${ws.id}`).toHaveLength(0);
  await expectSteps("event", VERY_MANY);
  await expectSteps("run", MANY);
});

test("what a deleted audience must not be written to goes with it", async () => {
  const audienceId = ws.audiences[2]?.id as string;
  await sql`
    insert into suppression (workspace_id, audience_id, address_hash, reason, since)
    select ${ws.id}, ${audienceId}, decode(md5(n::text), 'hex'), 'unsubscribed', now() from generate_series(1, ${VERY_MANY}) n`;
  await countSteps("suppression", "delete");
  while ((await emptyDeletedAudience(sql, rows.date, STEP_MAX)) !== null) {}
  expect(await sql`select from suppression where audience_id = ${audienceId}`).toHaveLength(0);
  expect(await sql`select from audience where id = ${audienceId}`).toHaveLength(0);
  await expectSteps("suppression", VERY_MANY);
});

test("all runs of an automation are stopped", async () => {
  const contact = ws.contacts[0] as SharedContact;
  await insertRuns(contact);
  await countSteps("run", "update");
  const automationId = ws.automations[0]?.id as string;
  expect(await stopRuns(sql, ws.id, { automationId }, "stopped", rows.date)).toBeGreaterThan(MANY);
  expect(
    await sql`select from run where automation_id = ${automationId} and wake_at is not null`,
  ).toHaveLength(0);
  await expectSteps("run", MANY);
});

test.each(["retried", "canceled"])("all deferred mail is %s", async (what) => {
  await insertDeferred();
  await countSteps("due", what === "retried" ? "update" : "delete");
  const later = new Date(rows.now + STORE_MS_MAX);
  const count =
    what === "retried"
      ? await retryDeferred(sql, { workspaceId: null, destination: "example.org" }, later)
      : await cancelDeferred(sql, ws.id, "example.org", later);
  expect(count).toBe(MANY);
  await expectSteps("due", MANY);
});

test("deferred mail whose e-mail is gone does not keep a cancellation going", async () => {
  await insertDeferred();
  await sql`delete from email where workspace_id = ${ws.id}`;
  expect(await cancelDeferred(sql, ws.id, null, rows.date)).toBe(0);
});

async function insertRuns(contact: SharedContact): Promise<void> {
  await sql`
    insert into run (workspace_id, id, automation_id, version, audience_id, contact_id, event_id, position, wake_at, created_at)
    select ${ws.id}, gen_random_uuid(), ${ws.automations[0]?.id as string}, 1, ${contact.audienceId}, ${contact.id}, 'e', '0',
           now() + interval '1 day', now()
    from generate_series(1, ${MANY})`;
}

async function insertDeferred(): Promise<void> {
  await sql`
    with email as (
      insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at)
      select workspace_id, (left(id::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, false, 'deferred', head, 1, 1, now(), now()
      from email, generate_series(1, ${MANY}) n where id = ${ws.emails[0]?.id as string} returning workspace_id, id
    )
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes, domain)
    select workspace_id, id, now(), 'deferred', false, 1, 1, 'example.org' from email`;
}

/** Writes down how many rows of a table each transaction changes. */
async function countSteps(table: string, change: "update" | "delete"): Promise<void> {
  await sql.unsafe(`
    create function count_${table}() returns trigger language plpgsql as
      'begin insert into step select pg_current_xact_id(), ''${table}'', count(*) from changed; return null; end';
    create trigger count_steps after ${change} on ${table} referencing old table as changed
      for each statement execute function count_${table}()`);
}

/** All of them, and few at a time. */
async function expectSteps(table: string, least: number): Promise<void> {
  const steps = await sql<{ changed: number }[]>`
    select sum(changed)::int as changed from step where name = ${table} group by transaction`;
  const changed = steps.map((step) => step.changed);
  expect(changed.reduce((sum, one) => sum + one, 0)).toBeGreaterThanOrEqual(least);
  expect(Math.max(...changed)).toBeLessThanOrEqual(Math.min(STEP_MAX, least / 2));
}
