import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const MOVES_AGAIN_MS = 25_000;

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api", "keeper"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

test("the bags of a worker that stands still move again within 25 s, and it sends none of them when it wakes up", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const options = { ...stage, smtpUrl: `${stage.smtpUrl}?pool=2` };
  stage.sink.turn({ dotDelayMs: 200 });
  const frozen: EngineProcess = await startProcess(["deliver"], options);
  const ids = await ws.client.send(Array(100).fill(mail()));
  await stage.sink.ledger.received(4);
  frozen.freeze();
  const frozenAt = performance.now();
  const before = stage.sink.ledger.mails.length;
  stage.sink.clearUp();
  const other = await startProcess(["deliver"], options);
  await stage.sink.ledger.received(before + 1, undefined, MOVES_AGAIN_MS + 5_000);
  expect(performance.now() - frozenAt).toBeLessThan(MOVES_AGAIN_MS);
  expect(await settled(engine.sql, ws.id, 30_000)).toEqual({ delivered: 100 });
  const taken = stage.sink.ledger.mails.length;
  frozen.thaw();
  await frozen.stop();
  await other.stop();
  // it may have stood still between asking for its lease and writing, with one mail in hand; never with more
  expect(stage.sink.ledger.mails.length - taken).toBeLessThanOrEqual(1);
  const { missing, repeated } = stage.sink.ledger.compare(ids.map((id) => `${id}@example.com`));
  expect(missing).toEqual([]);
  // what each of the two conversations had in hand, and what they took from it before it stood still
  expect(repeated.length).toBeLessThanOrEqual(5);
}, 120_000);
