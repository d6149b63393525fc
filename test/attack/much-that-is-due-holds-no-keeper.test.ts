/**
 * As much as a keeper ever takes on together: mail that comes due, workspaces with bags that nobody queued,
 * leases that end, events that wait for their number. Its event loop is asked for the work that it did in one
 * turn.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { keyspace } from "../../src/redis/keyspace.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const MAILS = 5_000;
const WORKSPACES = 100_000;

let stage: Stage;
let engine: Engine;
let keeper: EngineProcess;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
  keeper = await startProcess(["keeper"], { ...stage, watchesLoop: true });
  ws = await engine.workspace("pro", { cap_hour: 10_000_000, cap_day: 10_000_000 });
});
afterAll(async () => {
  await keeper?.stop();
  await engine?.stop();
  await stage?.close();
});

async function until(what: () => Promise<{ n: number }[]>): Promise<void> {
  await expect.poll(async () => (await what())[0]?.n, { timeout: 60_000, interval: 50 }).toBe(0);
}

async function scheduled(): Promise<void> {
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  for (let n = 0; n < MAILS; n += 100)
    await ws.client.send(Array.from({ length: 100 }, () => mail({ scheduled_at })));
}

test("mail that comes due at once", async () => {
  const again = async () => {
    await scheduled();
    await engine.sql`update due set at = now() where why = 'scheduled'`;
    await until(() => engine.sql`select count(*)::int as n from due`);
  };
  expect(await workedBy(keeper, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("bags that are queued nowhere", async () => {
  const again = async () => {
    await engine.sql`update bag set epoch = null, created_at = now() - interval '1 hour'`;
    await until(() => engine.sql`select count(*)::int as n from bag where epoch is null`);
  };
  expect(await workedBy(keeper, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("bags of very many workspaces that the queue has lost", async () => {
  await engine.sql`
    insert into workspace (id, handle, name, plan, changed_at, created_at)
    select gen_random_uuid(), 'h' || n, 'one of many', 'free', now(), now()
    from generate_series(1, ${WORKSPACES}) n`;
  const again = async () => {
    await engine.sql`delete from bag`;
    await engine.sql`
      insert into bag (workspace_id, id, shard, email_ids, bytes, epoch, created_at)
      select id, gen_random_uuid(), 0, array[gen_random_uuid()], 1, ${await engine.redis.get(keyspace.shardEpoch(0))},
        now() - interval '1 hour'
      from workspace where handle like 'h%'`;
    // the queue is told twice how many it holds
    await expect
      .poll(async () => (await engine.sql`select from bag where epoch is null limit 2500`).length, {
        timeout: 60_000,
        interval: 50,
      })
      .toBeGreaterThanOrEqual(2_000);
  };
  expect(await workedBy(keeper, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("mail of thousands of workspaces that comes due at once", async () => {
  const [emailId] = await ws.client.send([
    mail({ scheduled_at: new Date(Date.now() + 3_600_000).toISOString() }),
  ]);
  await engine.sql`delete from bag`;
  await engine.sql`
    insert into ledger (workspace_id, cap_day, cap_hour, reserved_share)
    select id, 1000, 1000, 0.1 from workspace where handle like 'h%' order by handle limit ${MAILS}
    on conflict do nothing`;
  const again = async () => {
    await engine.sql`
      with copied as (
        insert into email (workspace_id, id, key_id, bulk, head, weight, bytes, status, created_at, updated_at)
        select l.workspace_id, e.id, null, e.bulk, e.head, e.weight, e.bytes, 'scheduled', e.created_at, e.updated_at
        from email e, ledger l where e.id = ${emailId as string} and l.cap_day = 1000
        on conflict (workspace_id, id) do update set status = 'scheduled', bag_id = null
        returning workspace_id, id)
      insert into due (workspace_id, email_id, at, why, bulk, weight, bytes)
      select workspace_id, id, now(), 'scheduled', false, 1, 100 from copied`;
    await until(() => engine.sql`select count(*)::int as n from due where why = 'scheduled' and at <= now()`);
  };
  expect(await workedBy(keeper, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
