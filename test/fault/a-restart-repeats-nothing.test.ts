/**
 * An e-mail that was deferred travels on in another bag, while a straggler keeps its first bag alive. Whoever
 * takes the first bag over must leave alone what has left it.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { startProcess } from "../rig/process.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const DEFERRED = 19;
const CONNECTIONS = 2;
const STRAGGLER = "slow-12000@example.net";
const PATIENCE_MS = 60_000;

let stage: Stage;
let engine: Engine;
let ws: TestWorkspace;
beforeEach(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], stage);
  ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
});
afterEach(async () => {
  await engine.stop();
  await stage.close();
});

const startWorker = () =>
  startProcess(["deliver"], {
    ...stage,
    // one conversation more than the straggler needs, and another for it
    smtpUrl: `${stage.smtpUrl}?pool=${CONNECTIONS + 1}`,
    settings: { RETRY_SCHEDULE: "1" },
  });

/** All but the straggler are deferred once and then on their way again, slowly, in a bag of their own. */
async function underWayAgain(): Promise<{ straggler: string; others: string[] }> {
  stage.sink.turn({ dotDelayMs: 400 });
  const to = [STRAGGLER, ...Array.from({ length: DEFERRED }, (_, n) => `once-451+${n}@example.net`)];
  const ids = await ws.client.send(to.map((address) => mail({ to: address })));
  await stage.sink.ledger.received(CONNECTIONS, (taken) => !taken.to.includes(STRAGGLER));
  const [straggler, ...others] = ids.map((id) => `${id}@example.com`) as [string, ...string[]];
  return { straggler, others };
}

test("a polite restart sends nothing of it twice, and leaves no lease behind", async () => {
  const first = await startWorker();
  const { straggler, others } = await underWayAgain();
  await first.stop();
  expect(await engine.sql`select 1 from bag where token is not null`).toEqual([]);
  stage.sink.clearUp();
  const second = await startWorker();
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ delivered: DEFERRED + 1 });
  await second.stop();
  const { missing, repeated } = stage.sink.ledger.compare([straggler, ...others]);
  expect([missing, repeated]).toEqual([[], []]);
});

test("what a receiver has all of, and does not answer in time, is deferred and not handed on", async () => {
  const worker = await startWorker();
  const [id] = await ws.client.send([mail({ to: "hang-after-data@example.net" })]);
  await stage.sink.ledger.replied("hang-after-data@example.net", 1);
  await worker.stop();
  const { body } = await ws.client.get<{ status: string; last_event: string }>(`/emails/${id}`);
  expect(body.status).toBe("deferred");
});

test("after a kill only what was at its final dot may come twice", async () => {
  const first = await startWorker();
  const { straggler, others } = await underWayAgain();
  await first.kill();
  stage.sink.clearUp();
  const second = await startWorker();
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ delivered: DEFERRED + 1 });
  await second.stop();
  const { missing, repeated } = stage.sink.ledger.compare([straggler, ...others]);
  expect(missing).toEqual([]);
  // each conversation had one mail at its dot, and another was just noted
  expect(repeated.filter((id) => id !== straggler).length).toBeLessThanOrEqual(2 * (CONNECTIONS + 1));
});
