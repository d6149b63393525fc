/**
 * A Postgres that was read-only when connections were made, as a standby to which a name led after a
 * failover: they are replaced, and sends succeed, although nobody ends them.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 20_000, interval: 100 };

let stage: Stage;
let engine: Engine;
let shop: TestWorkspace;
let sql: Sql;
let database: string;
beforeAll(async () => {
  stage = await openStage();
  database = new URL(stage.databaseUrl).pathname.slice(1);
  sql = connectRecord(stage.databaseUrl, "setup", 20_000);
  engine = await startEngine(["api", "deliver", "keeper"], stage);
  shop = await engine.workspace();
});
afterAll(async () => {
  await engine?.stop();
  await sql.end({ timeout: 1 });
  await stage.close();
});

const sent = async () => (await shop.client.post("/emails", mail())).status;
const ready = async () => (await fetch(`${engine.url}/readyz`)).status;

/** Connections that are made from now on are read-only, and all are made anew. */
async function misled(): Promise<void> {
  await sql.unsafe(`alter database "${database}" set default_transaction_read_only = on`);
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${database} and pid <> pg_backend_pid()`;
}

/** Connections that are made from now on are of the primary; the others stay what they are. */
async function led(): Promise<void> {
  await sql.unsafe(
    `set default_transaction_read_only = off; alter database "${database}" reset default_transaction_read_only`,
  );
}

test("sends succeed again", async () => {
  await misled();
  await expect.poll(sent, POLL).toBe(503);
  await led();
  await expect.poll(sent, POLL).toBe(200);
  const all = async () => Number((await sql`select from email where status <> 'delivered'`).length);
  await expect.poll(all, POLL).toBe(0);
});

test("a pool of one connection, which refused its write when it was young", async () => {
  await misled();
  const own = connectRecord(stage.databaseUrl, "settling", 20_000);
  await expect(own`delete from claim where false`).rejects.toMatchObject({ code: "25006" });
  await led();
  const [{ at: young } = { at: 0 }] = await sql<
    { at: number }[]
  >`select extract(epoch from now())::float8 as at`;
  const isOld = async () => {
    const [row] = await sql<{ at: number }[]>`select extract(epoch from now())::float8 as at`;
    return Number(row?.at) - young > 1.5;
  };
  await expect.poll(isOld, POLL).toBe(true);
  expect(await own`delete from claim where false returning 1`).toHaveLength(0);
  await own.end({ timeout: 1 });
});

test("a process that nobody asks to send is ready again", async () => {
  await misled();
  await expect.poll(ready, POLL).toBe(503);
  await led();
  await expect.poll(ready, POLL).toBe(200);
});
