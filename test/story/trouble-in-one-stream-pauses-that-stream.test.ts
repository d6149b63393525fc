/**
 * Evidence by stream and by provider: what is in trouble is held back, and the rest of the workspace goes on.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import { listCapChanges } from "../../src/record/workspaces/caps.ts";
import { senderLimitsOf } from "../../src/record/workspaces/senderlimits.ts";
import { countShadowSteps, putShadow } from "../../src/record/workspaces/shadow.ts";
import { changeStreams } from "../../src/record/workspaces/streams.ts";
import { MovableClock } from "../rig/clock.ts";
import { commandLine } from "../rig/command.ts";
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

test("a bad list pauses its stream; other bulk mail and transactional mail go on at once", async () => {
  const ws = await workspace();
  await count(ws, "news", "", { attempted: 200, delivered: 140, bounced: 60 });
  await count(ws, "", "", { attempted: 3_000, delivered: 3_000, bounced: 0 });
  await judge();
  expect(await level(ws)).toBe("normal");
  await send(ws, 10, "news");
  await send(ws, 10, "bulk");
  await send(ws, 10, "transactional");
  expect(await counts(ws)).toEqual({
    news: { waiting: 10 },
    bulk: { accepted: 10 },
    transactional: { accepted: 10 },
  });
  const { body } = await ws.client.get<{ data: { reason: string | null }[] }>("/emails?stream=news");
  expect(body.data[0]?.reason).toContain("Its stream is paused");
  const [change, ...rest] = await listCapChanges(api.sql, ws.id, 10);
  expect(rest).toEqual([]);
  expect(change?.reason).toMatch(/^The stream news is paused: 60 bounces of 200 are surely over the limit/);
  expect(change?.counts).toMatchObject({ part: "news", events: 60, of: 200, limit: 0.06 });
  const line = commandLine(stage);
  const told = (await line.postrider("caps", "history", "--workspace", ws.id)).out;
  expect(told).toMatch(
    /^1 change: the cap went from 300 to 300 a day; a part of its mail was held back once\.\n/,
  );
  const why = (await line.postrider("caps", "why", "--workspace", ws.id)).out;
  expect(why).toMatch(/The stream news is paused\. Held back at \S+ 10 e-mails wait in it\./);
  expect(why).toMatch(
    /The stream news is paused\. After 3 more clean days, at the earliest on \S+, it is probed/,
  );
  const { out } = await line.postrider("caps", "show", "--workspace", ws.id);
  expect(out).toContain("held back: The stream news is paused.\n");
});

test("a paused stream is probed after clean days, and goes as before when the probe is healthy", async () => {
  const ws = await workspace();
  await count(ws, "news", "", { attempted: 200, delivered: 140, bounced: 60 });
  await judge();
  await send(ws, 90, "news");
  for (let day = 0; day < 4; day++) await nextDay(ws);
  expect(await shares(ws)).toEqual({ news: expect.closeTo(50 / 300) });
  await hand.keeper.release();
  expect((await counts(ws)).news).toEqual({ accepted: 50, waiting: 40 });
  for (let day = 0; day < 3; day++) {
    await count(ws, "news", "", { attempted: 50, delivered: 50, bounced: 0 });
    await nextDay(ws);
  }
  expect(await shares(ws)).toEqual({});
  await hand.keeper.release();
  expect((await counts(ws)).news).toEqual({ accepted: 90 });
  const reasons = (await listCapChanges(api.sql, ws.id, 20)).map(({ reason }) => reason);
  expect(reasons[0]).toContain("The stream news goes as before");
});

test("trouble at one provider slows the mail to that provider, in that stream, and nothing else", async () => {
  const ws = await workspace();
  await count(ws, "bulk", "google", { attempted: 200, delivered: 140, bounced: 60 });
  await count(ws, "bulk", "yahoo", { attempted: 200, delivered: 200, bounced: 0 });
  await count(ws, "transactional", "google", { attempted: 2_000, delivered: 2_000, bounced: 0 });
  await judge();
  expect(await level(ws)).toBe("normal");
  expect(await shares(ws)).toEqual({});
  expect(await senderLimitsOf(api.sql, ws.id)).toEqual([
    { stream: "bulk", provider: "google", perDay: 50, reason: expect.stringContaining("slowed down to 50") },
  ]);
  for (let day = 0; day < 4; day++) await nextDay(ws);
  expect(await senderLimitsOf(api.sql, ws.id)).toMatchObject([{ perDay: 50 }]);
  await count(ws, "bulk", "google", { attempted: 50, delivered: 50, bounced: 0 });
  await nextDay(ws);
  expect(await senderLimitsOf(api.sql, ws.id)).toMatchObject([{ perDay: 150 }]);
  await count(ws, "bulk", "google", { attempted: 150, delivered: 150, bounced: 0 });
  await nextDay(ws);
  expect(await senderLimitsOf(api.sql, ws.id)).toEqual([]);
});

test("what many parts hide is found in all of them together", async () => {
  const ws = await workspace();
  for (let n = 0; n < 20; n++) await count(ws, "bulk", `p${n}`, { attempted: 60, delivered: 54, bounced: 6 });
  await judge();
  expect(await level(ws)).toBe("paused");
});

test("a shadow policy judges the rest as the policy in force does, when a stream is held back", async () => {
  const ws = await workspace();
  const other = { ...DEFAULT_POLICY, growth: 1.1 };
  const shadow = { text: JSON.stringify(other), digest: "d", author: "Ada", since: new Date(clock.now()) };
  await putShadow(api.sql, shadow);
  await count(ws, "news", "", { attempted: 200, delivered: 140, bounced: 60 });
  await judge();
  expect(await level(ws)).toBe("normal");
  expect(await countShadowSteps(api.sql, [ws.id])).toEqual({ freezes: 0, pauses: 0, shrinks: 0 });
  await putShadow(api.sql, null);
});

async function workspace(): Promise<TestWorkspace> {
  const ws = await api.workspace();
  const news = { bulk: true, reserved_share: 0, pool: null };
  const changed = await changeStreams(api.sql, ws.id, () => ({ news }), new Date(clock.now()));
  await api.keyring.forget(ws.handle, changed?.version ?? 0);
  return ws;
}

type Counts = { attempted: number; delivered: number; bounced: number };

/** As settling counts mail: of its workspace, and of its stream and provider if they are known. */
async function count({ id }: TestWorkspace, stream: string, provider: string, counts: Counts): Promise<void> {
  const { attempted, delivered, bounced } = counts;
  const day = Math.floor(clock.now() / DAY_MS);
  await api.sql`
    insert into tally as t (workspace_id, day, worker, attempted, delivered, hard_bounced)
    values (${id}, ${day}, 'test', ${attempted}, ${delivered}, ${bounced})
    on conflict (workspace_id, day, worker) do update set attempted = t.attempted + excluded.attempted,
      delivered = t.delivered + excluded.delivered, hard_bounced = t.hard_bounced + excluded.hard_bounced`;
  if (stream === "") return;
  await api.sql`
    insert into part_tally (workspace_id, day, worker, stream, provider, source, attempted, delivered, hard_bounced)
    values (${id}, ${day}, 'test', ${stream}, ${provider}, '', ${attempted}, ${delivered}, ${bounced})`;
}

async function judge(): Promise<void> {
  while (await hand.keeper.caps()) {}
}

async function nextDay({ id }: TestWorkspace): Promise<void> {
  clock.advance(DAY_MS);
  await makePartitions(api.sql, clock.now());
  await judge();
  await api.sql`update ledger set next_release_at = now() - interval '1 day' where workspace_id = ${id} and waiting_bulk > 0`;
}

async function send(ws: TestWorkspace, many: number, stream: string): Promise<void> {
  const emails = Array.from({ length: many }, () => ({ ...mail(), stream }));
  expect((await ws.client.post("/emails/batch", emails)).status).toBe(200);
}

async function shares({ id }: TestWorkspace): Promise<object> {
  const [row] = await api.sql<{ shares: object }[]>`
    select stream_shares as shares from ledger where workspace_id = ${id}`;
  return row?.shares ?? {};
}

async function level({ id }: TestWorkspace): Promise<string> {
  const [row] = await api.sql<{ level: string }[]>`
    select state ->> 'level' as level from capacity where workspace_id = ${id}`;
  return row?.level ?? "";
}

async function counts({ id }: TestWorkspace): Promise<Record<string, Record<string, number>>> {
  const rows = await api.sql<{ stream: string; status: string; count: number }[]>`
    select case when stream <> '' then stream when bulk then 'bulk' else 'transactional' end as stream, status,
           count(*)::int from email where workspace_id = ${id} group by 1, 2`;
  const found: Record<string, Record<string, number>> = {};
  for (const { stream, status, count } of rows) found[stream] = { ...found[stream], [status]: count };
  return found;
}
