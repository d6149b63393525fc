/**
 * The clock of Postgres was a month ahead for a while, as after a failover to a server that is set wrong.
 * What endpoints were told then is of a day without a partition: it is told again, once.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { DAY_MS } from "../../src/clock.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const POLL = { timeout: 40_000, interval: 100 };

let stage: Stage;
let api: Engine;
let receiver: Receiver;
let workspace: TestWorkspace;
beforeAll(async () => {
  [stage, receiver] = await Promise.all([openStage(), openReceiver()]);
  api = await startEngine(["api"], { ...stage, settings: TO_LOOPBACK });
  workspace = await api.workspace();
  expect((await workspace.client.post("/webhooks", { endpoint: receiver.url() })).status).toBe(201);
});
afterAll(async () => {
  await api.stop();
  await receiver.close();
  await stage.close();
});

test("what cannot be written down of a lost day is told again, once", async () => {
  let aheadMs = 0;
  const clock = { now: () => Date.now() + aheadMs, given: () => 0 };
  const worker = await startEngine(["webhooks"], {
    ...stage,
    settings: TO_LOOPBACK,
    clock,
  });
  try {
    aheadMs = 30 * DAY_MS;
    const [first = ""] = await workspace.client.send([mail()]);
    await receiver.until(() => receiver.about(first).length === 1);
    await expect.poll(() => worker.complaints.length, POLL).toBeGreaterThan(0);
    aheadMs = 0;
    await expect.poll(() => receiver.about(first).length, POLL).toBe(2);
    const cursor = async () => (await api.sql`select cursor::int from webhook`)[0]?.cursor;
    await expect.poll(cursor, POLL).toBe(1);
  } finally {
    await worker.stop();
  }
});
