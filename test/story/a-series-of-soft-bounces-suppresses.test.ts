/**
 * With SUPPRESS_SOFT_BOUNCES a mailbox that is full again and again is written to no more; a few bounces are
 * nothing.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { ReportLoop } from "../rig/loop.ts";
import { dsn, handIn } from "../rig/reports.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const FULL = "refuse-552@full.example";
const FULL_AS_WELL = "refuse-552@full2.example";
const SERIES = 3;
const POLL = { timeout: 20_000, interval: 50 };

let database: OwnDatabase;
let redis: OwnRedis;
let sink: Sink;
let engine: Engine;
let ws: TestWorkspace;
beforeAll(async () => {
  [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
  engine = await startEngine(["api", "deliver", "keeper"], {
    databaseUrl: database.url,
    redisUrl: redis.url,
    smtpUrl: sink.url,
    settings: { SUPPRESS_SOFT_BOUNCES: String(SERIES), SUPPRESS_SOFT_BOUNCE_DAYS: "14" },
  });
  ws = await engine.workspace("pro");
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([sink.close(), redis.stop(), database.drop()]);
});

async function statusOfMail(): Promise<string> {
  const { body } = await ws.client.post<{ id: string }>("/emails", mail({ to: FULL }));
  const status = async () => (await ws.client.get<{ status: string }>(`/emails/${body.id}`)).body.status;
  await expect.poll(status, POLL).not.toBe("accepted");
  return status();
}

const suppression = (who = FULL) =>
  ws.client.get<{ reason: string; evidence: string }>(`/suppressions/${who}`);

test("the series suppresses with its last bounce, and an old bounce counts for none", async () => {
  expect(await statusOfMail()).toBe("bounced");
  await engine.sql`update soft_bounce set at = at - interval '15 days' where workspace_id = ${ws.id}`;
  for (let n = 1; n < SERIES; n++) expect(await statusOfMail()).toBe("bounced");
  expect((await suppression()).status).toBe(404);
  expect(await statusOfMail()).toBe("bounced");
  expect((await suppression()).body).toMatchObject({
    reason: "bounce",
    evidence: expect.stringMatching(/^552/),
  });
  expect(await statusOfMail()).toBe("suppressed");
});

test("e-mails that bounce together count one by one", async () => {
  const mails = Array.from({ length: SERIES }, () => mail({ to: FULL_AS_WELL }));
  await ws.client.post("/emails/batch", mails);
  await expect.poll(async () => (await suppression(FULL_AS_WELL)).status, POLL).toBe(200);
});

test("bounces that are reported later count as well, and those of a list's members do not", async () => {
  const loop = await ReportLoop.open({ settings: { SUPPRESS_SOFT_BOUNCES: String(SERIES) } });
  try {
    const report = async (to: string, about: string): Promise<number> => {
      const { id, copies } = await loop.send(to);
      await loop.once(id, ({ status }) => status === "delivered");
      const full = { status: "5.2.2", diagnostic: "smtp; 552 5.2.2 mailbox full" };
      await handIn(loop.port, copies[0]?.from as string, dsn({ recipient: about, ...full }));
      await loop.once(id, ({ status }) => status === "bounced");
      return (await loop.ws.client.get(`/suppressions/${to}`)).status;
    };
    const of = async (to: string, about = to): Promise<number[]> => {
      const found: number[] = [];
      for (let n = 0; n < SERIES; n++) found.push(await report(to, about));
      return found;
    };
    expect(await of("full@later.example")).toEqual([404, 404, 200]);
    expect(await of("list@later.example", "member@elsewhere.example")).toEqual([404, 404, 404]);
  } finally {
    await loop.close();
  }
});
