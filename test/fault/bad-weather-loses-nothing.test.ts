import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { settled } from "../rig/settled.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { emptyRedis } from "../rig/wholeredis.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage({ seed: 7 });
  engine = await startEngine(["api", "deliver", "keeper"], {
    ...stage,
    smtpUrl: `${stage.smtpUrl}?pool=20`,
    settings: { RETRY_SCHEDULE: "1" },
  });
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

async function send(ws: TestWorkspace, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 100) {
    const sent = await ws.client.send(
      // each to somebody else: an address that bounces hard is not written to again
      Array.from({ length: 100 }, (_, k) => mail({ to: `reader-${n + k}@example.net` })),
    );
    ids.push(...sent.map((id) => `${id}@example.com`));
  }
  return ids;
}

const fullCaps = { cap_hour: 1_000_000, cap_day: 1_000_000 };

test("with 20% of 4xx, 2% of 5xx and connections that break in DATA, each mail is delivered once or bounces", async () => {
  const ws = await engine.workspace("pro", fullCaps);
  stage.sink.turn({ deferPercent: 20, refusePercent: 2, dropInDataPercent: 1 });
  const ids = await send(ws, 2_000);
  const counts = await settled(engine.sql, ws.id, 90_000);
  stage.sink.clearUp();
  expect((counts.delivered ?? 0) + (counts.bounced ?? 0)).toBe(ids.length);
  expect(counts.bounced).toBeGreaterThan(0);
  const { missing, repeated } = stage.sink.ledger.compare(ids);
  expect(missing.length).toBe(counts.bounced);
  expect(repeated).toEqual([]);
});

test("a sink that is down for a minute costs time and no mail: no attempt, no bounce, each delivered once", async () => {
  const ws = await engine.workspace("pro", fullCaps);
  await stage.sink.down();
  const ids = await send(ws, 500);
  // given back by the courier, taken up again by the keeper, and given back once more a minute after they
  // were accepted
  const stillTrying = async () => {
    const [row] = await engine.sql<{ count: number; tried: number }[]>`
      select count(*)::int, coalesce(sum(attempts), 0)::int as tried from email
      where workspace_id = ${ws.id} and status = 'deferred' and updated_at > created_at + interval '1 minute'`;
    return row;
  };
  await expect
    .poll(stillTrying, { timeout: 120_000, interval: 500 })
    .toEqual({ count: ids.length, tried: 0 });
  await stage.sink.up();
  expect(await settled(engine.sql, ws.id, 60_000)).toEqual({ delivered: ids.length });
  const { missing, repeated } = stage.sink.ledger.compare(ids);
  expect(missing).toEqual([]);
  expect(repeated).toEqual([]);
});

test("an emptied Redis in the middle loses no mail", async () => {
  const ws = await engine.workspace("pro", fullCaps);
  const before = stage.sink.ledger.mails.length;
  const sending = send(ws, 3_000);
  for (let n = 1; n <= 5; n++) {
    await stage.sink.ledger.received(before + n * 300, undefined, 60_000);
    await emptyRedis(engine.redis);
  }
  const ids = await sending;
  expect(await settled(engine.sql, ws.id, 90_000)).toEqual({ delivered: ids.length });
  expect(stage.sink.ledger.compare(ids).missing).toHaveLength(0);
});
