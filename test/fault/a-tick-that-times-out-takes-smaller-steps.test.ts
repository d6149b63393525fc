/**
 * A store on which a full step of a tick takes many times its timeout: the tick gets through in smaller
 * steps.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { LEASE_SECONDS } from "../../src/record/mail/bagleases.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";

const STORE_MS = 400;
const ROWS = 1_000;
/** Of each row that a statement changes: all together take five times as long as a statement may. */
const ROW_MS = (5 * STORE_MS) / ROWS;
const TICKS_MAX = 100;
const WORKSPACE = randomUUID();

let stage: Stage;
let sql: Sql;
let hand: HandKeeper;
beforeAll(async () => {
  stage = await openStage();
  sql = connectRecord(stage.databaseUrl, "setup", 10_000);
  hand = handKeeper(stage, { now: () => Date.now(), given: () => 0 }, undefined, {
    storeMs: STORE_MS,
    onFault: () => {},
  });
  await sql.unsafe(`
    create function slow() returns trigger language plpgsql as
    $$ begin perform pg_sleep(${ROW_MS / 1_000}); return coalesce(new, old); end $$;
    create trigger slow before delete on due for each row execute function slow();
    create trigger slow before update on bag for each row when (old.token is not null) execute function slow();
    create trigger slow before delete on claim for each row execute function slow();
    create trigger slow before delete on contact for each row execute function slow()`);
});
afterAll(async () => {
  await hand.close();
  await sql.end({ timeout: 1 });
  await stage.close();
});

test("deferred mail is packed", async () => {
  const ids = Array.from({ length: ROWS }, () => newId(Date.now()));
  await sql`
    insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at)
    select ${WORKSPACE}, id, false, 'deferred', '{}', 1, 1, now(), now() from unnest(${ids}::uuid[]) as id`;
  await sql`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes, granted_at)
    select ${WORKSPACE}, id, now() - interval '1 hour', 'deferred', false, 1, 1, now() from unnest(${ids}::uuid[]) as id`;
  await ticksUntilNone(() => hand.keeper.pack(), "select from due");
});

test("leases that ran out are ended", async () => {
  await sql`
    insert into bag (workspace_id, id, shard, email_ids, bytes, token, lease_until, created_at)
    select ${WORKSPACE}, gen_random_uuid(), 0, array[gen_random_uuid()], 1, gen_random_uuid(), now() - interval '1 hour', now()
    from generate_series(1, ${ROWS}::int)`;
  // a keeper ends none before it has seen Postgres for a lease period
  const until = performance.now() + (LEASE_SECONDS + 1) * 1_000;
  const hasSeen = () =>
    hand.keeper.leases().then(
      () => performance.now() > until,
      () => false,
    );
  await expect.poll(hasSeen, { timeout: 60_000, interval: 1_000 }).toBe(true);
  await ticksUntilNone(() => hand.keeper.leases(), "select from bag where token is not null");
});

test("old claims are dropped", async () => {
  await sql`
    insert into claim (workspace_id, scope, key, digest, answer, created_at)
    select ${WORKSPACE}, 'test', n::text, '', '{}', now() - interval '2 days' from generate_series(1, ${ROWS}::int) n`;
  await ticksUntilNone(() => hand.keeper.expiry(), "select from claim");
});

test("the audience that was deleted is emptied", async () => {
  const audience = randomUUID();
  await sql`
    insert into workspace (id, handle, name, plan, changed_at, created_at)
    values (${WORKSPACE}, 'slowslow', 'test', 'pro', now(), now())`;
  await sql`
    insert into audience (workspace_id, id, name, created_at, deleted_at)
    values (${WORKSPACE}, ${audience}, 'test', now(), now())`;
  await sql`
    insert into contact (workspace_id, id, audience_id, email, identity, status, created_at, updated_at)
    select ${WORKSPACE}, gen_random_uuid(), ${audience}, n || '@example.net', n || '@example.net', 'subscribed', now(), now()
    from generate_series(1, ${ROWS}::int) n`;
  await ticksUntilNone(() => hand.keeper.erase(), "select from contact");
});

async function ticksUntilNone(tick: () => Promise<unknown>, query: string): Promise<void> {
  let ticks = 0;
  while ((await sql.unsafe(query)).length > 0) {
    if (++ticks > TICKS_MAX) throw new Error(`rows are left after ${TICKS_MAX} ticks`);
    await tick().catch(() => {}); // it is told to onFault, and tried again
  }
}
