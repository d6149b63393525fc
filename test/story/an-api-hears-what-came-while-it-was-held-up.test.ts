/**
 * An api that was held up finds an answer of Postgres and the end of the time for it at once. What has come
 * is read first: nobody hears that a store did not answer.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

const TIMEOUT_MS = 6_000;

/**
 * Keeps a table on a thread of its own until it is told to let go, and notes that in memory that this thread
 * can wait for while nothing else runs on it.
 */
const KEEPER = `
  const postgres = require("postgres");
  const { parentPort, workerData: { url, free } } = require("node:worker_threads");
  const sql = postgres(url, { max: 1, fetch_types: false });
  sql.begin(async (tx) => {
    await tx.unsafe("lock table template in access exclusive mode");
    const told = new Promise((go) => parentPort.once("message", go));
    parentPort.postMessage("kept");
    await told;
  }).then(() => {
    Atomics.store(free, 0, 1);
    Atomics.notify(free, 0);
    return sql.end();
  });`;

let database: OwnDatabase;
let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  database = await ownDatabase();
  const settings = { STORE_TIMEOUT_MS: String(TIMEOUT_MS) };
  engine = await startEngine(["api"], { databaseUrl: database.url, settings });
  workspace = await engine.workspace();
}, 60_000);
afterAll(async () => {
  await engine.stop();
  await database.drop();
});

test("a list that was answered during a hold-up is shown", async () => {
  expect((await workspace.client.get("/templates")).status).toBe(200);
  const free = new Int32Array(new SharedArrayBuffer(4));
  const url = new URL(database.url);
  url.searchParams.delete("socket"); // which is ours
  const keeper = new Worker(KEEPER, { eval: true, workerData: { url: url.href, free } });
  await once(keeper, "message");
  const listed = workspace.client.get("/templates");
  await expect.poll(waiting, { timeout: TIMEOUT_MS / 2 }).toBe(1);
  keeper.postMessage("let go");
  Atomics.wait(free, 0, 0);
  Atomics.wait(free, 0, 1, TIMEOUT_MS); // until its time is over
  expect((await listed).status).toBe(200);
  expect(engine.complaints).toEqual([]);
});

async function waiting(): Promise<number> {
  const [row] = await engine.sql<{ count: number }[]>`
    select count(*)::int as count from pg_locks join pg_stat_activity using (pid)
    where not granted and datname = current_database() and application_name = 'postrider reads'`;
  return row?.count ?? 0;
}
