/**
 * Automation mail beside callers' mail: it leaves them a share, goes after them, and waits for the month
 * where they are refused.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { makePartitions } from "../../src/record/db/partitions.ts";
import { type MailCommit, mailCommit } from "../../src/record/mail/commit.ts";
import { BUCKET_MS, HOUR_BUCKETS } from "../../src/rules/ledger.ts";
import { MovableClock } from "../rig/clock.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const HOUR_MS = HOUR_BUCKETS * BUCKET_MS;
const DAY_MS = 86_400_000;
const HEAD = JSON.stringify({
  from: "a@example.com",
  to: ["b@example.net"],
  cc: [],
  bcc: [],
  reply_to: [],
  subject: "s",
});

const clock = new MovableClock(Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2);
let stage: Stage;
let api: TestApi;
let hand: HandKeeper;
let commit: MailCommit;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  hand = handKeeper(stage, clock);
  const connect = () => connectRecord(stage.databaseUrl, "commits", 10_000);
  commit = mailCommit({ connect, timeoutMs: 10_000 }, () => {}, Buffer.from);
});
afterAll(async () => {
  await api.stop();
  await commit.close();
  await hand.close();
  await stage.close();
});

test("it leaves callers' mail its share, and what waits of theirs goes before what waits of it", async () => {
  const ws = await api.workspace("pro", { cap_hour: 100, cap_day: 1_000 });
  await automate(ws, 90);
  expect(await counts(ws, true)).toEqual({ accepted: 70, waiting: 20 });
  await send(ws, 60);
  expect(await counts(ws, false)).toEqual({ accepted: 30, waiting: 30 });
  await send(ws, 60);
  clock.advance(HOUR_MS);
  await hand.keeper.release();
  expect(await counts(ws, false)).toEqual({ accepted: 120 });
  expect(await counts(ws, true)).toEqual({ accepted: 80, waiting: 10 });
});

test("over the month it waits for the reset, while callers are refused; then it goes and counts", async () => {
  const ws = await api.workspace("pro", { cap_hour: 1_000, cap_day: 1_000, emails_per_month: 20 });
  for (let n = 0; n < 25; n++) await automate(ws, 1);
  expect(await counts(ws, true)).toEqual({ accepted: 20, waiting: 5 });
  const [waiting] = await api.sql`select why from due where workspace_id = ${ws.id}`;
  expect(waiting?.why).toBe("quota_month");
  expect((await ws.client.post("/emails", mail())).status).toBe(429);
  await hand.keeper.release();
  expect(await counts(ws, true)).toEqual({ accepted: 20, waiting: 5 });
  const now = new Date(clock.now());
  clock.set(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1, 0, 0, 1));
  await makePartitions(api.sql, clock.now());
  await hand.keeper.release();
  expect(await counts(ws, true)).toEqual({ accepted: 25 });
  const [ledger] = await api.sql`select month_used from ledger where workspace_id = ${ws.id}`;
  expect(ledger?.month_used).toBe(5);
});

async function automate({ id: workspaceId }: TestWorkspace, count: number): Promise<void> {
  const now = clock.now();
  const emails = Array.from({ length: count }, () => ({
    workspaceId,
    id: newId(now),
    keyId: null,
    bulk: true,
    stream: "",
    head: HEAD,
    weight: 1,
    bytes: 100,
    html: "<p>h</p>",
    plain: null,
    extra: null,
    scheduledAt: null,
  }));
  const verdict = await commit.submit({
    workspaceId,
    version: null,
    given: now,
    counted: count,
    claim: null,
    emails,
    attachments: [],
  });
  expect(verdict.kind).toBe("accepted");
}

async function send(ws: TestWorkspace, count: number): Promise<void> {
  expect((await ws.client.post("/emails/batch", Array(count).fill(mail()))).status).toBe(200);
}

async function counts(ws: TestWorkspace, bulk: boolean): Promise<Record<string, number>> {
  const rows = await api.sql<{ status: string; count: number }[]>`
    select status, count(*)::int from email where workspace_id = ${ws.id} and bulk = ${bulk} group by status`;
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}
