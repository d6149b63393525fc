/**
 * A worker is asked to end while Postgres is slow to answer: whatever a receiver has taken is written before
 * the process ends, since the next worker would send it again.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const MAILS = 20;
const TEST_MS_MAX = 90_000;
/** Longer than everything else of the end may take. */
const SLOW_MS = 9_000;

let stage: Stage;
let toPostgres: TcpProxy;
let worker: EngineProcess;
let others: Engine;
beforeEach(async () => {
  stage = await openStage();
  const { port, username, password, pathname } = new URL(stage.databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  const stores = { redisUrl: stage.redisUrl, smtpUrl: stage.smtpUrl };
  worker = await startProcess(["deliver"], {
    ...stores,
    databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
  });
  others = await startEngine(["api", "keeper"], stage);
});
afterEach(async () => {
  toPostgres.flow();
  await Promise.all([worker.kill(), others.stop()]);
  await Promise.all([toPostgres.close(), stage.close()]);
});

test("what was delivered is written, however long that takes", () => holdsOut(MAILS, 500), TEST_MS_MAX);

test(
  "so is what the receiver answers last of all, while the worker ends",
  () => holdsOut(1, 1_500),
  TEST_MS_MAX,
);

async function holdsOut(mails: number, dotDelayMs: number): Promise<void> {
  const ws = await others.workspace();
  stage.sink.turn({ dotDelayMs });
  const ids = await ws.client.send(Array(mails).fill(mail()));
  await expect.poll(() => stage.sink.openConnections, { interval: 10 }).toBeGreaterThan(0);
  // nothing is noted yet: the first answer comes some time after the first final dot
  toPostgres.stall();
  await stage.sink.ledger.received(mails);
  process.kill(worker.pid, "SIGTERM");
  const until = performance.now() + SLOW_MS;
  await expect.poll(() => performance.now() > until, { timeout: 2 * SLOW_MS, interval: 200 }).toBe(true);
  expect(worker.isRunning()).toBe(true);
  toPostgres.flow();
  await expect.poll(() => worker.isRunning(), { timeout: 20_000 }).toBe(false);
  expect(await settled(others.sql, ws.id, 30_000)).toEqual({ delivered: mails });
  const messageIds = ids.map((id) => `${id}@example.com`);
  expect(stage.sink.ledger.compare(messageIds)).toMatchObject({ missing: [], repeated: [] });
}
