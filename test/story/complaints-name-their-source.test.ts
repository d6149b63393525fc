/**
 * Complaints are counted with the domain they come from: strangers at one provider stop no sender, and are
 * shown.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { dailyCounts, listCapChanges } from "../../src/record/workspaces/caps.ts";
import { MovableClock } from "../rig/clock.ts";
import { commandLine } from "../rig/command.ts";
import { handKeeper } from "../rig/keeping.ts";
import type { Mail } from "../rig/ledger.ts";
import { FEEDBACK, ReportLoop } from "../rig/loop.ts";
import { arf, handIn } from "../rig/reports.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const clock = new MovableClock(TODAY * DAY_MS + DAY_MS / 4);
let stage: Stage;
let api: TestApi;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
});
afterAll(async () => {
  await api.stop();
  await stage.close();
});

test("a delivery and a complaint are counted with the reader's domain", async () => {
  const loop = await ReportLoop.open();
  try {
    const { id, copies } = await loop.send(["one@yahoo.com", "two@aol.com", "three@example.net"]);
    await loop.once(id, ({ status }) => status === "delivered");
    const [copy] = copies as [Mail, ...Mail[]];
    const header = String(copy.raw).split("\r\n\r\n", 1)[0]?.split("\r\n") ?? [];
    await handIn(
      loop.port,
      FEEDBACK,
      arf({ recipient: "one@yahoo.com", header: [`Return-Path: <${copy.from}>`, ...header] }),
    );
    await loop.once(id, ({ status }) => status === "complained");
    const rows = await loop.engine.sql`
      select source, sum(complained)::int as complained, sum(fbl_delivered)::int as delivered from cap_source
      where workspace_id = ${loop.ws.id} group by source order by source`;
    expect(rows).toEqual([
      { source: "aol.com", complained: 0, delivered: 1 },
      { source: "yahoo.com", complained: 1, delivered: 1 },
    ]);
    const [day] = await dailyCounts(loop.engine.sql, [loop.ws.id], Date.now(), 2);
    expect(day?.sources).toEqual([
      { name: "yahoo.com", attempted: 0, bounced: 0, complained: 1, fblDelivered: 1 },
    ]);
  } finally {
    await loop.close();
  }
});

const SPREAD = [
  { source: "yahoo.com", delivered: 400 },
  { source: "hotmail.com", delivered: 400 },
  { source: "aol.com", delivered: 20 },
];

test("forged complaints of one provider, on both sides of midnight, freeze nothing and are shown", async () => {
  const ws = await lived();
  for (const day of [TODAY - 1, TODAY]) await complain(ws, day, "aol.com", 6);
  await judge();
  expect(await levelOf(ws)).toBe("normal");
  const line = commandLine(stage);
  const { suspicious } = await line.json<{ suspicious: object[] }>("caps", "status", "--workspace", ws.id);
  expect(suspicious).toHaveLength(2);
  expect(suspicious[0]).toMatchObject({ source: "aol.com", measure: "complaint", events: 6, counted: 3 });
  const { out } = await line.postrider("caps", "status", "--workspace", ws.id);
  expect(out).toMatch(/suspicious: 6 complaints from aol\.com on \S+, of which 3 count/);
});

test("as many complaints from all providers freeze", async () => {
  const ws = await lived();
  for (const day of [TODAY - 1, TODAY]) for (const { source } of SPREAD) await complain(ws, day, source, 6);
  await judge();
  expect(await levelOf(ws)).not.toBe("normal");
});

test("complaints of the provider that takes most of the mail count in full", async () => {
  const ws = await lived([{ source: "yahoo.com", delivered: 800 }]);
  for (const day of [TODAY - 1, TODAY]) await complain(ws, day, "yahoo.com", 9);
  await judge();
  expect(await levelOf(ws)).not.toBe("normal");
});

async function lived(spread = SPREAD): Promise<TestWorkspace> {
  const ws = await api.workspace();
  for (const day of [TODAY - 1, TODAY])
    for (const { source, delivered } of spread) {
      await api.sql`
        insert into tally as t (workspace_id, day, worker, attempted, delivered, fbl_delivered)
        values (${ws.id}, ${day}, 'test', ${delivered}, ${delivered}, ${delivered})
        on conflict (workspace_id, day, worker) do update set attempted = t.attempted + excluded.attempted,
          delivered = t.delivered + excluded.delivered, fbl_delivered = t.fbl_delivered + excluded.fbl_delivered`;
      await api.sql`
        insert into cap_source (workspace_id, day, source, worker, fbl_delivered)
        values (${ws.id}, ${day}, ${source}, 'test', ${delivered})`;
    }
  return ws;
}

async function complain(ws: TestWorkspace, day: number, source: string, count: number): Promise<void> {
  await api.sql`
    update tally set complained = complained + ${count} where workspace_id = ${ws.id} and day = ${day}`;
  await api.sql`
    update cap_source set complained = complained + ${count}
    where workspace_id = ${ws.id} and day = ${day} and source = ${source}`;
}

async function judge(): Promise<void> {
  const hand = handKeeper(stage, clock);
  while (await hand.keeper.caps()) {}
  await hand.close();
}

async function levelOf(ws: TestWorkspace): Promise<string> {
  return (await listCapChanges(api.sql, ws.id, 1))[0]?.level ?? "normal";
}
