/**
 * The clock of Postgres is set while mail is on its way. A step forward makes every lease look as if it had
 * run out, and a step back makes those of dead workers look as if they went on for long. Nobody who lives
 * loses a lease by it, and what a dead worker had goes on within a minute.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { makeSteppable, setClockOfPostgres } from "../rig/steppedclock.ts";
import { mail } from "../rig/workspace.ts";

const MAILS = 10;
/** A lease lasts 20 s, and the keeper ends none before it has seen Postgres for as long. */
const LEASE_MS = 20_000;
/** Until the test says so. */
const DOT_MS = 600_000;
/** For longer than the keeper needs to end a lease, and another worker to begin what it was for. */
const CARRIED_MS = 10_000;
const HOUR_MS = 3_600_000;
const PATIENCE_MS = 60_000;

let stage: Stage;
let engine: Engine;
let workers: EngineProcess[];
beforeEach(async () => {
  stage = await openStage();
  await makeSteppable(stage.databaseUrl);
  engine = await startEngine(["api", "keeper"], stage);
  workers = [];
});
afterEach(async () => {
  stage.sink.clearUp();
  for (const worker of workers) await worker.kill();
  await engine.stop();
  await stage.close();
});

test("a step forward: no other worker begins what is being carried", async () => {
  await startWorker();
  await passed(LEASE_MS);
  stage.sink.turn({ dotDelayMs: DOT_MS });
  const { workspaceId, messageIds } = await carried();
  await startWorker();
  await afterRenewal();
  await setClockOfPostgres(engine.sql, 30_000);
  await passed(CARRIED_MS);
  taken();
  expect(await settled(engine.sql, workspaceId, PATIENCE_MS)).toEqual({ delivered: MAILS });
  await allOnce(messageIds);
});

test("a step back: what a dead worker had goes on, and what a living one has is not begun again", async () => {
  const dying = await startWorker();
  await passed(LEASE_MS);
  stage.sink.turn({ dotDelayMs: DOT_MS });
  const ofDead = await carried();
  await dying.kill();
  await setClockOfPostgres(engine.sql, -HOUR_MS);
  stage.sink.clearUp();
  await startWorker();
  expect(await settled(engine.sql, ofDead.workspaceId, PATIENCE_MS)).toEqual({ delivered: MAILS });

  stage.sink.turn({ dotDelayMs: DOT_MS });
  const ofLiving = await carried();
  await startWorker();
  await setClockOfPostgres(engine.sql, -2 * HOUR_MS);
  await passed(CARRIED_MS);
  taken();
  expect(await settled(engine.sql, ofLiving.workspaceId, PATIENCE_MS)).toEqual({ delivered: MAILS });
  await allOnce(ofLiving.messageIds);
}, 240_000);

async function startWorker(): Promise<EngineProcess> {
  const worker = await startProcess(["deliver"], { ...stage, smtpUrl: `${stage.smtpUrl}?pool=20` });
  workers.push(worker);
  return worker;
}

/** In the hands of a worker, a bag each. */
async function carried(): Promise<{ workspaceId: string; messageIds: string[] }> {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const messageIds: string[] = [];
  for (let n = 0; n < MAILS; n++) {
    const { body } = await ws.client.post<{ id: string }>("/emails", mail());
    messageIds.push(`${body.id}@example.com`);
  }
  const held = () => engine.sql`select 1 from bag where token is not null and workspace_id = ${ws.id}`;
  await expect.poll(async () => (await held()).length, { timeout: PATIENCE_MS }).toBe(MAILS);
  return { workspaceId: ws.id, messageIds };
}

/** The receiver takes what is being carried. */
function taken(): void {
  stage.sink.clearUp();
  stage.sink.answerNow();
}

/** Whoever began one a second time has ended it by then. */
async function allOnce(messageIds: readonly string[]): Promise<void> {
  await passed(2_000);
  const { missing, repeated } = stage.sink.ledger.compare(messageIds);
  expect({ missing, repeated }).toEqual({ missing: [], repeated: [] });
}

/** The next one is then further away than the keeper's next look. */
async function afterRenewal(): Promise<void> {
  const until = async () => {
    const [row] = await engine.sql<{ until: Date }[]>`select max(lease_until) as until from bag`;
    return row?.until.getTime();
  };
  const before = await until();
  await expect.poll(until, { timeout: PATIENCE_MS, interval: 20 }).not.toBe(before);
}

/** Real time is what this is about. */
async function passed(ms: number): Promise<void> {
  const until = performance.now() + ms;
  await expect.poll(() => performance.now() > until, { timeout: 2 * ms, interval: 500 }).toBe(true);
}
