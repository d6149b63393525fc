/**
 * Postgres stands still for longer than a lease lasts, for the worker and for the keeper alike. The leases
 * that ran out meanwhile say nothing about their holder, and nothing that it carries may be sent a second
 * time.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const MAILS = 100;
/** A lease lasts 20 s. */
const PAUSE_MS = 24_000;
const TICKS_MS = 4_000;
const PATIENCE_MS = 60_000;

let stage: Stage;
let ofWorker: TcpProxy;
let ofKeeper: TcpProxy;
let worker: Engine;
let others: Engine;
beforeEach(async () => {
  stage = await openStage();
  const { port, username, password, pathname } = new URL(stage.databaseUrl);
  [ofWorker, ofKeeper] = await Promise.all([
    openProxy({ port: Number(port) }),
    openProxy({ port: Number(port) }),
  ]);
  const through = (proxy: TcpProxy) => ({
    databaseUrl: `postgres://${username}:${password}@127.0.0.1:${proxy.port}${pathname}`,
    redisUrl: stage.redisUrl,
    smtpUrl: `${stage.smtpUrl}?pool=2`,
  });
  worker = await startEngine(["deliver"], through(ofWorker));
  others = await startEngine(["api", "keeper"], through(ofKeeper));
});
afterEach(async () => {
  for (const proxy of [ofWorker, ofKeeper]) proxy.flow();
  await Promise.all([worker.stop(), others.stop()]);
  await Promise.all([ofWorker.close(), ofKeeper.close(), stage.close()]);
});

test("the keeper sees Postgres again before the worker does, and nothing is sent twice", async () => {
  const { workspaceId, messageIds } = await halfSent();
  ofWorker.stall();
  ofKeeper.stall();
  await passed(PAUSE_MS);
  ofKeeper.flow();
  await passed(TICKS_MS);
  ofWorker.flow();
  await allOnce(workspaceId, messageIds);
});

test("a worker that gets its own bags again sends nothing that it already carries", async () => {
  const { workspaceId, messageIds } = await halfSent();
  ofWorker.stall();
  // the keeper sees Postgres all the time, and ends the leases
  await passed(PAUSE_MS + TICKS_MS);
  ofWorker.flow();
  await allOnce(workspaceId, messageIds);
});

async function halfSent(): Promise<{ workspaceId: string; messageIds: string[] }> {
  const ws = await others.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  stage.sink.turn({ dotDelayMs: 300 });
  const ids = await ws.client.send(Array(MAILS).fill(mail()));
  // a claim whose answer comes too late is made again after the 20 s of its lease
  await stage.sink.ledger.received(6, () => true, PATIENCE_MS);
  return { workspaceId: ws.id, messageIds: ids.map((id) => `${id}@example.com`) };
}

async function allOnce(workspaceId: string, messageIds: readonly string[]): Promise<void> {
  expect(await settled(others.sql, workspaceId, PATIENCE_MS)).toEqual({ delivered: MAILS });
  const { missing, repeated } = stage.sink.ledger.compare(messageIds);
  expect({ missing, repeated }).toEqual({ missing: [], repeated: [] });
}

/** Real time is what this is about: leases run by the clock of Postgres. */
async function passed(ms: number): Promise<void> {
  const until = performance.now() + ms;
  await expect.poll(() => performance.now() > until, { timeout: 2 * ms, interval: 500 }).toBe(true);
}
