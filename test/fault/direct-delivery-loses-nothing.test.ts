import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { settled } from "../rig/settled.ts";
import type { Sink } from "../rig/sink.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const BATCHES = 40;
const BATCH = 100;
const KILLS = 2;
const DOMAINS = 20;
/** What one worker may hold whose answers were not noted: its conversations, and the notes on their way. */
const UNNOTED_MAX = 2_000 + DOMAINS * 20;

let world: World;
let sinks: Sink[];
let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  [world, stage] = await Promise.all([openWorld(), openStage()]);
  engine = await startEngine(["api", "keeper"], stage);
  sinks = await Promise.all([1, 2, 3, 4].map((n) => world.sinkAt(`127.1.2.${n}`, { seed: n })));
  for (let n = 1; n <= 5; n++) world.name({ [`mx${n}.test`]: { addresses: [`127.1.2.${n}`] } });
  // nobody is at mx5, the first choice of every fourth domain
  for (let n = 0; n < DOMAINS; n++)
    world.name({
      [`d${n}.test`]: {
        mx: [
          [10, n % 4 === 0 ? "mx5.test" : `mx${(n % 4) + 1}.test`],
          [20, "mx1.test"],
        ],
      },
    });
  world.name({ "unknown.test": "is silent", "null.test": { mx: [[0, ""]] } });
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([world.end(), stage.close()]);
});

test("a worker killed while it delivers to twenty domains, with broken connections and silent DNS, loses nothing", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 1_000_000, cap_day: 1_000_000 });
  const settings = { ...world.settings, RETRY_SCHEDULE: "1" };
  const { databaseUrl, redisUrl } = stage;
  const options = { databaseUrl, redisUrl, settings };
  for (const sink of sinks) sink.turn({ dropInDataPercent: 1, deferPercent: 2 });
  let worker: EngineProcess = await startProcess(["deliver"], options);
  const ids: string[] = [];
  const send = async (mails: unknown[]) => {
    const { status, body } = await ws.client.post<{ data: { id: string }[] }>("/emails/batch", mails);
    expect(status).toBe(200);
    return body.data.map(({ id }) => `${id}@example.com`);
  };
  const bounced = await send([mail({ to: "one@gone.test" }), mail({ to: "one@null.test" })]);
  ids.push(...(await send([mail({ to: "one@unknown.test" })])));
  for (let n = 0; n < BATCHES; n++)
    ids.push(
      ...(await send(
        Array.from({ length: BATCH }, (_, k) => mail({ to: `one@d${(n + k) % DOMAINS}.test` })),
      )),
    );
  const taken = () => sinks.reduce((sum, { ledger }) => sum + ledger.mails.length, 0);
  for (let n = 1; n <= KILLS; n++) {
    await expect
      .poll(taken, { timeout: 60_000, interval: 20 })
      .toBeGreaterThan((n * ids.length) / (KILLS + 2));
    await worker.kill();
    if (n === KILLS) world.name({ "unknown.test": { addresses: ["127.1.2.1"] } });
    worker = await startProcess(["deliver"], options);
  }
  for (const sink of sinks) sink.clearUp();
  // a job that the last one killed had fetched and not claimed yet comes back when BullMQ finds it stalled:
  // within a minute
  const counts = await settled(engine.sql, ws.id, 150_000);
  expect(await worker.stop()).toBe(0);

  expect(counts).toEqual({ delivered: ids.length, bounced: bounced.length });
  const copies = new Map<string, number>();
  for (const { messageId } of sinks.flatMap(({ ledger }) => ledger.mails))
    copies.set(messageId, (copies.get(messageId) ?? 0) + 1);
  expect(ids.filter((id) => !copies.has(id))).toEqual([]);
  expect(copies.size).toBe(ids.length);
  expect([...copies.values()].filter((count) => count > 1).length).toBeLessThan(KILLS * UNNOTED_MAX);
  expect(sinks.flatMap(({ ledger }) => ledger.faults)).toEqual([]);
  expect(await engine.sql`select 1 from bag`).toHaveLength(0);
}, 300_000);
