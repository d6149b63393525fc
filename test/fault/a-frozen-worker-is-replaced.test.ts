import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

/** A lease lasts 20 s; a keeper that stood still ends none before it has seen Postgres for as long again. */
const MOVES_AGAIN_MS = 90_000;

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

test("the bags of a worker that stands still move again when their leases have run out, and it sends none of them when it wakes up", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const options = { ...stage, smtpUrl: `${stage.smtpUrl}?pool=2` };
  stage.sink.turn({ dotDelayMs: 200 });
  const frozen: EngineProcess = await startProcess(["deliver"], options);
  const ids = await ws.client.send(Array(100).fill(mail()));
  await stage.sink.ledger.received(4);
  frozen.freeze();
  const before = stage.sink.connections;
  const held = await engine.sql<{ messageId: string; leaseUntil: number }[]>`
    select e.id || '@example.com' as "messageId", (extract(epoch from lease_until) * 1000)::float8 as "leaseUntil"
    from bag join email e on e.workspace_id = bag.workspace_id and e.id = any(email_ids)
    where bag.workspace_id = ${ws.id} and token is not null and e.status = 'accepted'`;
  expect(held.length).toBeGreaterThan(0);
  stage.sink.clearUp();
  const other = await startProcess(["deliver"], options);
  expect(await settled(engine.sql, ws.id, MOVES_AGAIN_MS)).toEqual({ delivered: 100 });
  const moved = stage.sink.ledger.mails.filter(({ connection }) => connection > before);
  const again = held.flatMap(({ messageId, leaseUntil }) =>
    moved.filter((one) => one.messageId === messageId).map(({ at }) => at > leaseUntil),
  );
  // but for the few whose outcome was on its way when it stood still
  expect(again.length).toBeGreaterThan(held.length / 2);
  expect(again).not.toContain(false);
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
});
