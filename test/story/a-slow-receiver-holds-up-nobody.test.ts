/**
 * A worker full of mail for one slow receiver: the others' mail goes all the same, and what finds no room
 * costs no attempt.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, type World } from "../rig/direct.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import type { Sink } from "../rig/sink.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const ROOM = 50;
const DOT_MS = 5_000;

let world: World;
let slow: Sink;
let quick: Sink;
let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  [world, stage] = await Promise.all([openWorld(), openStage()]);
  world.name({ "slow.test": { addresses: ["127.1.4.1"] }, "quick.test": { addresses: ["127.1.4.2"] } });
  [slow, quick] = await Promise.all([world.sinkAt("127.1.4.1"), world.sinkAt("127.1.4.2")]);
  slow.turn({ dotDelayMs: DOT_MS });
  engine = await startEngine(["api", "deliver", "keeper"], {
    databaseUrl: stage.databaseUrl,
    redisUrl: stage.redisUrl,
    settings: { ...world.settings, DELIVERY_CONCURRENCY: String(ROOM), DIRECT_CONNECTIONS_MAX: "2" },
  });
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([world.end(), stage.close()]);
});

const above = (least: number) => expect.toSatisfy((given: number) => given > least);

test("the mail of a quick receiver overtakes what is there for a slow one, which comes back when its turn is due", async () => {
  const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
  const batch = (domain: string) =>
    ws.client.post(
      "/emails/batch",
      Array.from({ length: 100 }, () => mail({ to: `one@${domain}` })),
    );
  for (let n = 0; n < 3; n++) await batch("slow.test");
  await expect.poll(() => slow.openConnections, { timeout: 15_000 }).toBeGreaterThan(0);
  await batch("quick.test");
  await quick.ledger.received(100, undefined, 30_000);
  expect(slow.ledger.mails.length).toBeLessThan(100);
  const putBack = async () => {
    const [row] = await engine.sql<{ back: number; attempts: number; turns: number }[]>`
      select count(*)::int as back, max(e.attempts) as attempts, count(distinct d.at)::int as turns
      from email e join due d on d.workspace_id = e.workspace_id and d.email_id = e.id
      where e.workspace_id = ${ws.id} and e.status = 'deferred'`;
    return row;
  };
  // they are noted a moment after there was no room for them
  await expect
    .poll(putBack, { timeout: 15_000 })
    .toMatchObject({ attempts: 0, back: above(ROOM), turns: above(ROOM) });
  expect(engine.complaints).toEqual([]);
});
