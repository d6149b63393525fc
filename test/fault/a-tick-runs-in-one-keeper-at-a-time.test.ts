/**
 * Ticks of several transactions: whoever runs one is alone, however long it takes, and is succeeded when it
 * dies.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Keyring } from "../../src/admission/keyring.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { handKeeper } from "../rig/keeping.ts";
import { startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";

/** Of one statement, where the machine stands still, too; a transaction may be idle for twice as long. */
const STORE_MS = 3_000;
const PATIENCE_MS = 30_000;
const CLOCK = { now: Date.now, given: () => 0 };

let stage: Stage;
let sql: Sql;
let client: RedisClient;
let keyring: Keyring;
beforeAll(async () => {
  stage = await openStage();
  sql = connectRecord(stage.databaseUrl, "reads", PATIENCE_MS);
  client = connectRedis(stage.redisUrl, "admission", STORE_MS);
  keyring = new Keyring({ redis: client, sql, serverSecret: "a secret of the tests", clock: CLOCK });
});
afterAll(async () => {
  client.disconnect();
  await sql.end({ timeout: 1 });
  await stage.close();
});

test("a tick that takes longer than a transaction may be idle finishes, and runs once", async () => {
  const ids = [await unjudged(), await unjudged()];
  let running = 0;
  let begun = () => {};
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const atOnce: number[] = [];
  const onCaps = async () => {
    atOnce.push(++running);
    begun();
    await sql`select pg_sleep(${(2.5 * STORE_MS) / 1_000})`;
    running--;
  };
  const [first, second] = [hand({ onCaps }), hand({ onCaps })];
  let isOver = false;
  const ticking = first.keeper.caps().finally(() => {
    isOver = true;
  });
  await hasBegun;
  while (!isOver) {
    await second.keeper.caps();
    expect(await idleInTransaction()).toBe(0);
  }
  await ticking;
  expect(atOnce).toEqual([1, 1]);
  for (const id of ids) expect(await isJudged(id)).toBe(true);
  await Promise.all([first.close(), second.close()]);
});

test("a lease that was written under a clock far ahead holds up nobody", async () => {
  const id = await unjudged();
  await sql`
    insert into tick_lease (name, token, until) values ('caps', gen_random_uuid(), clock_timestamp() + interval '8 hours')`;
  const { keeper, close } = hand({});
  await keeper.caps();
  expect(await isJudged(id)).toBe(true);
  expect(await sql`select from tick_lease`).toHaveLength(0);
  await close();
});

test("a keeper that is killed in the middle of a tick is succeeded", async () => {
  const id = await unjudged();
  const options = {
    ...stage,
    settings: { CAPS_EVERY_SECONDS: "1" },
  };
  const doomed = await startProcess(["keeper"], options);
  await sql.begin(async (tx) => {
    await tx`select from ledger where workspace_id = ${id} for update`;
    await until(async () => (await holders()).includes("caps") && (await waitsForLock()));
    await doomed.kill();
  });
  expect(await holders()).toContain("caps");
  expect(await isJudged(id)).toBe(false);
  const successor = await startProcess(["keeper"], options);
  await until(() => isJudged(id));
  await successor.stop();
});

function hand(parts: Parameters<typeof handKeeper>[3]) {
  return handKeeper(stage, CLOCK, undefined, { storeMs: STORE_MS, ...parts });
}

/** A workspace whose caps are not those of the policy. */
async function unjudged(): Promise<string> {
  const { id } = await keyring.createWorkspace("test", "pro", {});
  await sql`update ledger set cap_day = 1 where workspace_id = ${id}`;
  return id;
}

async function isJudged(id: string): Promise<boolean> {
  return (await sql`select from ledger where workspace_id = ${id} and cap_day > 1`).length > 0;
}

async function holders(): Promise<string[]> {
  return (await sql<{ name: string }[]>`select name from tick_lease`).map(({ name }) => name);
}

/** Whether a keeper stands before the lock of a ledger. Others have keepers in the same Postgres. */
async function waitsForLock(): Promise<boolean> {
  const rows = await sql`
    select from pg_stat_activity
    where datname = current_database() and application_name = 'postrider keeper' and wait_event_type = 'Lock' and query like '%ledger%'`;
  return rows.length > 0;
}

async function idleInTransaction(): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from pg_stat_activity
    where datname = current_database() and application_name = 'postrider keeper' and state = 'idle in transaction'
      and state_change < clock_timestamp() - ${STORE_MS} * interval '1 ms'`;
  return row?.n ?? 0;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const since = performance.now();
  while (!(await holds()))
    if (performance.now() - since > PATIENCE_MS) throw new Error(`not within ${PATIENCE_MS} ms: ${holds}`);
}
