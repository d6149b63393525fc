/**
 * The hourly cap is about what receivers see. Mail of several hours that a smarthost's outage has held up
 * leaves at the pace of the cap when the smarthost is back, not at once.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { BUCKET_MS, HOUR_BUCKETS } from "../../src/rules/ledger.ts";
import { MovableClock } from "../rig/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const CAP = 50;
const WINDOW_MS = HOUR_BUCKETS * BUCKET_MS;
const PATIENCE_MS = 30_000;

let stage: Stage;
let engine: Engine;
let clock: MovableClock;
beforeEach(async () => {
  stage = await openStage();
  clock = new MovableClock();
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...stage,
    clock,
    settings: { RETRY_SCHEDULE: "3600" },
  });
});
afterEach(async () => {
  await engine.stop();
  await stage.close();
});

test("mail of three hours leaves in three windows after the smarthost was away", async () => {
  const ws = await engine.workspace("pro", { cap_hour: CAP, cap_day: 1_000 });
  await stage.sink.down();
  const ids: string[] = [];
  for (let hour = 0; hour < 3; hour++) {
    ids.push(...(await sendBatch(ws)));
    clock.advance(WINDOW_MS);
  }
  await stage.sink.up();
  for (let window = 1; window <= 3; window++) {
    await stage.sink.ledger.received(window * CAP, undefined, PATIENCE_MS);
    await onlyWaitingLeft(ws);
    expect(stage.sink.ledger.mails).toHaveLength(window * CAP);
    clock.advance(WINDOW_MS);
  }
  const { missing, repeated } = stage.sink.ledger.compare(ids.map((id) => `${id}@example.com`));
  expect({ missing, repeated }).toEqual({ missing: [], repeated: [] });
});

test("a retry after its hour takes its place among what leaves then", async () => {
  const ws = await engine.workspace("pro", { cap_hour: CAP, cap_day: 1_000 });
  const deferred = await sendBatch(ws, (n) => `once-451+${n}@example.net`);
  await onlyDeferredLeft(ws);
  clock.advance(WINDOW_MS);
  const retried = stage.sink.ledger.received(CAP, undefined, PATIENCE_MS);
  await retried;
  const later = await sendBatch(ws);
  await onlyWaitingLeft(ws);
  expect(stage.sink.ledger.mails).toHaveLength(CAP);
  clock.advance(WINDOW_MS);
  await stage.sink.ledger.received(2 * CAP, undefined, PATIENCE_MS);
  const { missing, repeated } = stage.sink.ledger.compare(
    [...deferred, ...later].map((id) => `${id}@example.com`),
  );
  expect({ missing, repeated }).toEqual({ missing: [], repeated: [] });
});

async function sendBatch(ws: TestWorkspace, to = (n: number) => `p${n}@example.net`): Promise<string[]> {
  const batch = Array.from({ length: CAP }, (_, n) => mail({ to: to(n) }));
  const { status, body } = await ws.client.post<{ data: { id: string }[] }>("/emails/batch", batch);
  expect(status).toBe(200);
  return body.data.map(({ id }) => id);
}

const onlyWaitingLeft = (ws: TestWorkspace) => onlyLeft(ws, "waiting");
const onlyDeferredLeft = (ws: TestWorkspace) => onlyLeft(ws, "deferred");

/** Whatever may leave now has left. */
async function onlyLeft(ws: TestWorkspace, status: string): Promise<void> {
  const others = () =>
    engine.sql`select 1 from email where workspace_id = ${ws.id} and status not in (${status}, 'delivered') limit 1`;
  await expect.poll(async () => (await others()).length, { timeout: PATIENCE_MS }).toBe(0);
  const bags = () => engine.sql`select 1 from bag where workspace_id = ${ws.id} limit 1`;
  await expect.poll(async () => (await bags()).length, { timeout: PATIENCE_MS }).toBe(0);
}
