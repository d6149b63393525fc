import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const BATCHES = 200;
const BATCH = 100;
const KILLS = 5;
/**
 * What one worker may hold whose answers were not noted: twenty conversations, and the notes on their way.
 */
const UNNOTED_MAX = 2_000 + 20;

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

test("a worker killed five times during 20,000 mails loses none, and repeats only what was not noted", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  const options = { ...stage, smtpUrl: `${stage.smtpUrl}?pool=20` };
  let worker: EngineProcess = await startProcess(["deliver"], options);
  const ids: string[] = [];
  const sending = (async () => {
    for (let n = 0; n < BATCHES; n++) {
      const { status, body } = await ws.client.post<{ data: { id: string }[] }>(
        "/emails/batch",
        Array(BATCH).fill(mail()),
      );
      expect(status).toBe(200);
      ids.push(...body.data.map(({ id }) => id));
    }
  })();
  for (let n = 1; n <= KILLS; n++) {
    await stage.sink.ledger.received(n * 2_500, undefined, 60_000);
    await worker.kill();
    worker = await startProcess(["deliver"], options);
  }
  await sending;
  const counts = await settled(engine.sql, ws.id, 90_000);
  await worker.stop();

  expect(counts).toEqual({ delivered: BATCHES * BATCH });
  const { missing, unexpected, repeated } = stage.sink.ledger.compare(ids.map((id) => `${id}@example.com`));
  expect({ missing, unexpected }).toEqual({ missing: [], unexpected: [] });
  expect(repeated.length).toBeLessThan(KILLS * UNNOTED_MAX);
  expect(stage.sink.ledger.faults).toEqual([]);
  expect(await engine.sql`select 1 from bag`).toHaveLength(0);
}, 240_000);
