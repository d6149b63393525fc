/**
 * How many bags a worker has in hand does not limit it: what is on its way to slow receivers leaves room for
 * other mail.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import type { Sink } from "../rig/sink.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

/** Ten times as many as a worker claims at once. */
const SLOW_BAGS = 240;
const DOT_MS = 240_000;
const QUICK_MS_MAX = 60_000;

let world: World;
let quick: Sink;
let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  [world, stage] = await Promise.all([openWorld(), openStage()]);
  world.name({ "slow.test": { addresses: ["127.1.5.1"] }, "quick.test": { addresses: ["127.1.5.2"] } });
  const slow = await world.sinkAt("127.1.5.1");
  quick = await world.sinkAt("127.1.5.2");
  slow.turn({ dotDelayMs: DOT_MS });
  engine = await startEngine(["api", "deliver"], {
    databaseUrl: stage.databaseUrl,
    redisUrl: stage.redisUrl,
    settings: world.settings,
  });
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([world.end(), stage.close()]);
});

test("the last of many single mails does not wait for those before it", async () => {
  const { client } = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  for (let n = 0; n < SLOW_BAGS; n++) await client.post("/emails", mail({ to: "one@slow.test" }));
  await client.post("/emails", mail({ to: "one@quick.test" }));
  await quick.ledger.received(1, undefined, QUICK_MS_MAX);
  expect(engine.complaints).toEqual([]);
});
