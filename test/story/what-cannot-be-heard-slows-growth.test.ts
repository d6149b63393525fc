/**
 * Caps grow on health that is heard: not while receivers throttle or refuse, and slowly where nobody would
 * tell us.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Heard } from "../../src/capacity/policy.ts";
import { listCapChanges } from "../../src/record/workspaces/caps.ts";
import { MovableClock } from "../rig/clock.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const YESTERDAY = Math.floor(Date.now() / DAY_MS) - 1;
const clock = new MovableClock((YESTERDAY + 1) * DAY_MS + DAY_MS / 2);
const NOTHING_HEARD: Heard = { refusals: false, reports: false, complaints: false };
let stage: Stage;
let api: TestApi;
let line: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  line = commandLine(stage);
});
afterAll(async () => {
  await api.stop();
  await stage.close();
});

const HEALTHY = { attempted: 300, delivered: 298, fbl_delivered: 90, hard_bounced: 2 };

test("a healthy day that is heard of grows at the full factor", async () => {
  const ws = await lived(HEALTHY);
  await judge();
  expect(await changeOf(ws)).toMatchObject({ dayAfter: 420 });
});

test.each([
  ["nothing was delivered", { attempted: 140, throttled: 140, deferred: 140, delivered: 0 }],
  ["the delivered share is too small", { ...HEALTHY, delivered: 150, fbl_delivered: 50 }],
  ["a fifth was throttled for reputation", { ...HEALTHY, throttled: 60 }],
  ["a tenth was refused softly", { ...HEALTHY, delivered: 268, soft_bounced: 30 }],
  ["a tenth was blocked", { ...HEALTHY, delivered: 268, blocked: 30 }],
])("no growth where %s", async (_, counts) => {
  const ws = await lived(counts);
  await judge();
  expect(await changeOf(ws)).toBeUndefined();
});

test("a smarthost that accepts everything, without a return path, is unknown: growth is slow and says so", async () => {
  const ws = await lived({ attempted: 300, delivered: 300, fbl_delivered: 90 });
  await judge(NOTHING_HEARD);
  const change = await changeOf(ws);
  expect(change).toMatchObject({ dayAfter: 360 });
  expect(change?.reason).toContain("slowly, since bounces and complaints are unknown");
  expect(change?.reason).toContain("Bounces and complaints after delivery are not received");
  const shown = await line.json("caps", "status", "--workspace", ws.id);
  expect(shown).toMatchObject({ unknown: ["bounce", "complaint"] });
  const { out } = await line.postrider("caps", "status", "--workspace", ws.id);
  expect(out).toContain("unknown: bounces, complaints");
});

test("mail that goes where nobody reports complaints leaves them unknown", async () => {
  const ws = await lived({ attempted: 300, delivered: 300, fbl_delivered: 2 });
  await judge();
  expect(await changeOf(ws)).toMatchObject({
    dayAfter: 360,
    reason: expect.stringContaining("slowly, since complaints are unknown"),
  });
});

/** A workspace that used its cap yesterday, with this outcome. */
async function lived(counts: Record<string, number>): Promise<TestWorkspace> {
  const ws = await api.workspace();
  await api.sql`insert into cap_use (workspace_id, day, used, delayed) values (${ws.id}, ${YESTERDAY}, 300, 0)`;
  const none = {
    attempted: 0,
    deferred: 0,
    throttled: 0,
    delivered: 0,
    hard_bounced: 0,
    soft_bounced: 0,
    blocked: 0,
  };
  // so that enough was delivered for growth at all
  const before = { ...none, attempted: 110, delivered: 110, fbl_delivered: counts.fbl_delivered ? 3 : 0 };
  for (const [day, of] of [
    [YESTERDAY - 3, before],
    [YESTERDAY, { ...none, fbl_delivered: 0, ...counts }],
  ] as const)
    await api.sql`
      insert into tally (workspace_id, day, worker, attempted, deferred, throttled, delivered, hard_bounced, soft_bounced,
                         blocked, fbl_delivered)
      values (${ws.id}, ${day}, 'test', ${of.attempted}, ${of.deferred}, ${of.throttled}, ${of.delivered},
              ${of.hard_bounced}, ${of.soft_bounced}, ${of.blocked}, ${of.fbl_delivered})`;
  return ws;
}

async function judge(heard?: Heard): Promise<void> {
  const hand = handKeeper(stage, clock, undefined, heard ? { heard } : {});
  while (await hand.keeper.caps()) {}
  await hand.close();
}

async function changeOf(ws: TestWorkspace) {
  const [change] = await listCapChanges(api.sql, ws.id, 1);
  return change;
}
