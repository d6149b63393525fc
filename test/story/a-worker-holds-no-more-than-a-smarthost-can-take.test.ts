/**
 * To a slow smarthost a worker holds a few hundred e-mails, however many are in line: the rest stays free for
 * others.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

/** So long that the first bag does not end before it is counted, on a busy machine either. */
const DOT_MS = 6_000;
const BAGS = 12;
/** 500 e-mails that wait and 20 that are being sent. */
const BAGS_HELD = 6;

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  stage.sink.turn({ dotDelayMs: DOT_MS });
  engine = await startEngine(["api", "deliver"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("bags in line beyond what the smarthost's connections need are left to other workers", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  for (let n = 0; n < BAGS; n++)
    await ws.client.post(
      "/emails/batch",
      Array.from({ length: 100 }, () => mail()),
    );
  const held = async () => {
    const [row] = await engine.sql<{ held: number }[]>`
      select count(*)::int as held from bag where workspace_id = ${ws.id} and token is not null`;
    return row?.held;
  };
  await expect.poll(held, { timeout: 40_000 }).toBe(BAGS_HELD);
  await stage.sink.ledger.received(40, undefined, 30_000);
  expect(await held()).toBe(BAGS_HELD);
  stage.sink.turn({ dotDelayMs: 0 });
  await stage.sink.ledger.received(BAGS * 100, undefined, 90_000);
});
