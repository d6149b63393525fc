/**
 * Automation mail that the month has no room for waits, maybe for weeks; mail that the month has counted does
 * not wait behind it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type MailCommit, mailCommit } from "../../src/record/mail/commit.ts";
import { BUCKET_MS } from "../../src/rules/ledger.ts";
import { MovableClock } from "../rig/clock.ts";
import { type HandKeeper, handKeeper } from "../rig/keeping.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const HEAD = JSON.stringify({
  from: "a@example.com",
  to: ["b@example.net"],
  cc: [],
  bcc: [],
  reply_to: [],
  subject: "s",
});

// noon: no day or month turns within the test
const today = new Date();
const clock = new MovableClock(Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate(), 12));
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

async function automate({ id: workspaceId }: TestWorkspace, count: number): Promise<void> {
  const now = clock.now();
  const emails = Array.from({ length: count }, () => ({
    ...{
      workspaceId,
      id: newId(now),
      keyId: null,
      bulk: true,
      stream: "",
      head: HEAD,
      weight: 1,
      bytes: 100,
    },
    ...{ html: "<p>h</p>", plain: null, extra: null, scheduledAt: null },
  }));
  const asked = { workspaceId, version: null, given: now, counted: count, claim: null };
  expect((await commit.submit({ ...asked, emails, attachments: [] })).kind).toBe("accepted");
}

async function counts({ id }: TestWorkspace): Promise<Record<string, number>> {
  const rows = await api.sql<{ status: string; count: number }[]>`
    select status, count(*)::int from email where workspace_id = ${id} group by status`;
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}

const roomy = { cap_hour: 1_000, cap_day: 1_000, emails_per_month: 20 };

test("of automation mail that comes together, as much goes as the month has room for", async () => {
  const ws = await api.workspace("pro", roomy);
  await automate(ws, 25);
  await hand.keeper.release();
  expect(await counts(ws)).toEqual({ accepted: 20, waiting: 5 });
});

test("a caller's bulk mail that was accepted behind it goes in the month that has counted it", async () => {
  const ws = await api.workspace("pro", roomy);
  await automate(ws, 25);
  const { status, body } = await ws.client.post<{ data: { id: string }[] }>(
    "/emails/batch",
    Array(5).fill({ ...mail(), stream: "bulk" }),
  );
  expect(status).toBe(200);
  clock.advance(BUCKET_MS);
  await hand.keeper.release();
  for (const { id } of body.data)
    expect((await ws.client.get(`/emails/${id}`)).body).toMatchObject({ status: "accepted" });
  expect(await counts(ws)).toEqual({ accepted: 20, waiting: 10 });
  const [ledger] = await api.sql`
    select month_used, waiting_bulk, next_release_at from ledger where workspace_id = ${ws.id}`;
  expect(ledger).toMatchObject({ month_used: 20, waiting_bulk: 10 });
  const now = new Date(clock.now());
  expect(ledger?.next_release_at).toEqual(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)));
});
