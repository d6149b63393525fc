/**
 * What a process with a fast clock left behind before ledgers went by Postgres' time: windows eight hours
 * ahead.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BUCKET_MS, HOUR_BUCKETS } from "../../src/rules/ledger.ts";
import { MovableClock } from "../rig/clock.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const FAST_MS = 8 * 3_600_000;
const MIGRATION = new URL("../../src/record/migrations/0010_clocks.sql", import.meta.url);

const clock = new MovableClock(Date.now());
let stage: Stage;
let api: TestApi;
let hand: HandKeeper;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  hand = handKeeper(stage, clock);
});
afterAll(async () => {
  await hand.close();
  await api.stop();
  await stage.close();
});

async function send(ws: TestWorkspace, count: number): Promise<void> {
  expect((await ws.client.post("/emails/batch", Array(count).fill(mail()))).status).toBe(200);
}

async function statuses(ws: TestWorkspace): Promise<Record<string, number>> {
  const rows = await api.sql<{ status: string; count: number }[]>`
    select status, count(*)::int from email where workspace_id = ${ws.id} group by status`;
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}

test("they come back to the present, count what was used for an hour, and then let go", async () => {
  const ws = await api.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  clock.advance(FAST_MS);
  await send(ws, 60);
  clock.set(Date.now());
  await api.sql.unsafe(readFileSync(MIGRATION, "utf8"));
  clock.set(Date.now() + 1_000);

  await hand.keeper.release();
  expect(await statuses(ws)).toEqual({ accepted: 50, waiting: 10 });
  clock.advance(HOUR_BUCKETS * BUCKET_MS);
  await hand.keeper.release();
  expect(await statuses(ws)).toEqual({ accepted: 60 });
});

test("a commit brings them back too, and has them looked at", async () => {
  const ws = await api.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  clock.advance(FAST_MS);
  await send(ws, 60);
  clock.advance(-FAST_MS);
  await send(ws, 1);
  clock.advance(HOUR_BUCKETS * BUCKET_MS);
  await hand.keeper.release();
  expect(await statuses(ws)).toEqual({ accepted: 61 });
});
