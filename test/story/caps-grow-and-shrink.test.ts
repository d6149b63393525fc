/**
 * Caps of a real workspace under the policy: they grow, freeze and shrink with reasons, and people may set
 * them.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { overrideOf, setOverride, stateOf } from "../../src/capacity/caps.ts";
import { DEFAULT_POLICY, type Override, startState } from "../../src/capacity/policy.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import {
  type CapacityRow,
  findCapacity,
  listCapChanges,
  saveDecision,
} from "../../src/record/workspaces/caps.ts";
import { MovableClock } from "../rig/clock.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const clock = new MovableClock(Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2);
let stage: Stage;
let api: TestApi;
let hand: HandKeeper;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  hand = handKeeper(stage, clock);
});
afterAll(async () => {
  await api.stop();
  await hand.close();
  await stage.close();
});

const NOBODY: Override = {
  minimum: null,
  maximum: null,
  fixed: null,
  fixedHour: null,
  until: null,
  by: "Ada",
  reason: "a launch",
};

test("a day that used its cap in good health lets it grow, once, whoever judges how often", async () => {
  const ws = await api.workspace();
  await judge();
  expect(await caps(ws)).toEqual({ day: 300, hour: 100 });
  await send(ws, 300);
  await tally(ws, { attempted: 300, delivered: 300, fblDelivered: 100 });
  await judge();
  expect(await caps(ws)).toEqual({ day: 300, hour: 100 });
  await nextDay();
  await Promise.all([judge(), judge()]);
  await judge();
  expect(await caps(ws)).toEqual({ day: 420, hour: 100 });
  const [grown, ...rest] = await listCapChanges(api.sql, ws.id, 10);
  expect(rest).toEqual([]);
  expect(grown).toMatchObject({ dayBefore: 300, dayAfter: 420, level: "normal", by: "policy" });
  expect(grown?.reason).toContain("Grew from 300 to 420 a day");
  expect(grown?.counts).toMatchObject({ used: 100, delayed: 200, delivered: 300, bounced: 0 });
  expect(grown?.policyVersion).toMatch(/^[0-9a-f]{8}$/);
});

test("a Redis that cannot be told of a cap keeps no other workspace from being judged", async () => {
  const faults: unknown[] = [];
  const untold = handKeeper(stage, clock, undefined, {
    onCaps: () => Promise.reject(new Error("Redis is away")),
    onFault: (error) => faults.push(error),
  });
  const both = [await api.workspace(), await api.workspace()];
  for (const ws of both) {
    await send(ws, 300);
    await tally(ws, { attempted: 300, delivered: 300, fblDelivered: 100 });
  }
  await judge();
  await nextDay();
  while (await untold.keeper.caps()) {}
  await untold.close();
  for (const ws of both) expect(await caps(ws)).toEqual({ day: 420, hour: 100 });
  expect(faults.length).toBeGreaterThanOrEqual(2);
});

test("bounces freeze, then leave only transactional mail, then shrink; the reasons are on record", async () => {
  const ws = await api.workspace();
  await tally(ws, { attempted: 1000, delivered: 920, hardBounced: 80 });
  await judge();
  await tally(ws, { attempted: 100, delivered: 60, hardBounced: 40 });
  await judge();
  await tally(ws, { attempted: 200, delivered: 50, hardBounced: 150 });
  await judge();
  const levels = (await listCapChanges(api.sql, ws.id, 10)).map(({ level }) => level).reverse();
  expect(levels).toEqual(["frozen", "paused", "paused"]);
  const [{ share } = { share: 0 }] = await api.sql<{ share: number }[]>`
    select reserved_share as share from ledger where workspace_id = ${ws.id}`;
  expect(share).toBe(1);
});

test("a cap raised by hand lets out what waits, ends when it was said to, and both are on record", async () => {
  const ws = await api.workspace();
  await judge();
  await send(ws, 150);
  expect(await waiting(ws)).toBe(50);
  const until = clock.now() + DAY_MS;
  const by = { name: "Ada", reason: "a launch" };
  await setOverride(
    api.sql,
    DEFAULT_POLICY,
    ws.id,
    { ...NOBODY, fixed: 1_000, fixedHour: 1_000, until },
    by,
    clock.now(),
  );
  await hand.keeper.release();
  expect(await waiting(ws)).toBe(0);
  expect(await caps(ws)).toEqual({ day: 1_000, hour: 1_000 });
  await nextDay();
  await judge();
  expect(await caps(ws)).toEqual({ day: 300, hour: 100 });
  const reasons = (await listCapChanges(api.sql, ws.id, 10)).map(({ reason }) => reason);
  expect(reasons.at(-1)).toMatch(/^Set by hand to 1000 a day, 1000 an hour until .*: a launch$/);
  expect(reasons).toContain("The override by Ada has ended.");
});

test("what was decided before somebody set the caps does not overwrite what they set", async () => {
  const ws = await api.workspace();
  await judge();
  const known = (await findCapacity(api.sql, ws.id)) as CapacityRow;
  const by = { name: "Ada", reason: "a launch" };
  await setOverride(api.sql, DEFAULT_POLICY, ws.id, { ...NOBODY, fixed: 1_000 }, by, clock.now());
  const late = {
    workspaceId: ws.id,
    known,
    state: known.state,
    override: known.override,
    isTroubled: false,
    policyVersion: "test",
    caps: { day: 420, hour: 100, reservedShare: 0.3 },
    parts: null,
    isNew: true,
    changes: [],
  };
  expect(await saveDecision(api.sql, late, new Date(clock.now()))).toEqual({ kind: "overtaken" });
  expect((await caps(ws)).day).toBe(1_000);
  expect((await findCapacity(api.sql, ws.id))?.override).toMatchObject({ fixed: 1_000 });
});

test("a cap that changes holds from the next request on, also where Redis knew the old one", async () => {
  const ws = await api.workspace();
  await send(ws, 1);
  await setOverride(
    api.sql,
    DEFAULT_POLICY,
    ws.id,
    { ...NOBODY, fixed: 50 },
    { name: "Ada", reason: "x" },
    clock.now(),
  );
  await send(ws, 100);
  expect(await waiting(ws)).toBe(51);
});

test("a probe is as wide as it was set, also under a limit of the workspace", async () => {
  const ws = await api.workspace("pro", { cap_day: 10_000 });
  await judge();
  const row = (await findCapacity(api.sql, ws.id)) as CapacityRow;
  const probing = {
    workspaceId: ws.id,
    known: row,
    state: { ...startState(DEFAULT_POLICY, "pro"), level: "probing" as const, probe: 20 },
    override: null,
    isTroubled: true,
    policyVersion: "test",
    caps: { day: 300, hour: 100, reservedShare: 0.3 },
    parts: null,
    isNew: true,
    changes: [],
  };
  expect(await saveDecision(api.sql, probing, new Date(clock.now()))).toMatchObject({ kind: "saved" });
  await judge();
  const [{ share } = { share: 0 }] = await api.sql<{ share: number }[]>`
    select reserved_share as share from ledger where workspace_id = ${ws.id}`;
  expect(share).toBeCloseTo(1 - 20 / 10_000, 5);
});

test("a limit of the hour leaves what a person set for the day", async () => {
  const ws = await api.workspace("pro", { cap_hour: 200 });
  const by = { name: "Ada", reason: "x" };
  await setOverride(api.sql, DEFAULT_POLICY, ws.id, { ...NOBODY, maximum: 310 }, by, clock.now());
  await send(ws, 300);
  await tally(ws, { attempted: 300, delivered: 300, fblDelivered: 100 });
  await judge();
  await nextDay();
  await judge();
  const row = (await findCapacity(api.sql, ws.id)) as CapacityRow;
  expect(overrideOf(row)).toMatchObject({ maximum: 310, fixedHour: 200 });
  expect(stateOf(row, DEFAULT_POLICY).capDay).toBeLessThanOrEqual(310);
});

test("use and delays of a day are known after it, also when nobody looked before midnight", async () => {
  const ws = await api.workspace();
  await send(ws, 140);
  await nextDay();
  await send(ws, 1);
  await tally(ws, { attempted: 1, delivered: 1 });
  await judge();
  const rows = await api.sql`select used, delayed from cap_use where workspace_id = ${ws.id} order by day`;
  expect(rows.slice(0, 2)).toMatchObject([{ used: 100, delayed: 40 }, { delayed: 1 }]);
});

async function judge(): Promise<void> {
  while (await hand.keeper.caps()) {}
}

async function nextDay(): Promise<void> {
  clock.advance(DAY_MS);
  await makePartitions(api.sql, clock.now());
}

async function send(ws: TestWorkspace, count: number): Promise<void> {
  for (let left = count; left > 0; left -= 100)
    await ws.client.post("/emails/batch", Array(Math.min(left, 100)).fill(mail()));
}

async function tally(
  ws: TestWorkspace,
  {
    attempted = 0,
    delivered = 0,
    hardBounced = 0,
    fblDelivered = 0,
  }: { attempted?: number; delivered?: number; hardBounced?: number; fblDelivered?: number },
): Promise<void> {
  const day = Math.floor(clock.now() / DAY_MS);
  await api.sql`
    insert into tally as t (workspace_id, day, worker, attempted, delivered, hard_bounced, fbl_delivered)
    values (${ws.id}, ${day}, 'test', ${attempted}, ${delivered}, ${hardBounced}, ${fblDelivered})
    on conflict (workspace_id, day, worker) do update set attempted = t.attempted + excluded.attempted,
      fbl_delivered = t.fbl_delivered + excluded.fbl_delivered, delivered = t.delivered + excluded.delivered, hard_bounced = t.hard_bounced + excluded.hard_bounced`;
}

async function caps(ws: TestWorkspace): Promise<{ day: number; hour: number }> {
  const [row] = await api.sql<{ day: number; hour: number }[]>`
    select cap_day as day, cap_hour as hour from ledger where workspace_id = ${ws.id}`;
  return row as { day: number; hour: number };
}

async function waiting(ws: TestWorkspace): Promise<number> {
  const [row] = await api.sql<
    { waiting: number }[]
  >`select waiting from ledger where workspace_id = ${ws.id}`;
  return row?.waiting ?? 0;
}
