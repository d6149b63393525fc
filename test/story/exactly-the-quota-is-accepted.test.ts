import { afterAll, beforeAll, expect, test } from "vitest";
import { ownRedis } from "../rig/services.ts";
import { emptyRedis, keysIn } from "../rig/wholeredis.ts";
import { mail, type Refusal, type TestApi, testApi } from "../rig/workspace.ts";

const CALLERS = 64;
let api: TestApi;
let redis: Awaited<ReturnType<typeof ownRedis>>;
beforeAll(async () => {
  redis = await ownRedis();
  api = await testApi({ redisUrl: redis.url });
});
afterAll(async () => {
  await api.stop();
  await redis.stop();
});

type Sent = { accepted: number; refusals: Refusal[]; others: number };

/** Parallel callers that go on, each mail by mail, until one of its mails is refused for the quota. */
async function sendUntilFull(post: () => Promise<{ status: number; body: unknown }>): Promise<Sent> {
  const sent: Sent = { accepted: 0, refusals: [], others: 0 };
  const caller = async (): Promise<void> => {
    for (;;) {
      const { status, body } = await post();
      if (status === 200) sent.accepted++;
      else if (status === 429) {
        sent.refusals.push(body as Refusal);
        return;
      } else sent.others++;
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return sent;
}

async function ledgerUse(workspaceId: string) {
  const [row] = await api.sql`select day_used, month_used from ledger where workspace_id = ${workspaceId}`;
  const [emails] = await api.sql`select count(*)::int from email where workspace_id = ${workspaceId}`;
  return { day: row?.day_used, month: row?.month_used, emails: emails?.count };
}

test("of 64 parallel callers on Free exactly 100 e-mails are accepted", async () => {
  const ws = await api.workspace("free");
  const sent = await sendUntilFull(() => ws.client.post("/emails", mail()));
  expect(sent.accepted).toBe(100);
  expect(await ledgerUse(ws.id)).toEqual({ day: 100, month: 100, emails: 100 });
  const refusal = sent.refusals.at(-1);
  expect(refusal).toMatchObject({
    name: "quota_exceeded",
    details: {
      period: "day",
      limit: 100,
      used: 100,
      requested: 1,
      plan: "free",
      required_plan: "essentials",
    },
  });
  expect(refusal?.details?.retry_after).toBeGreaterThan(0);
});

test("the same when Redis is emptied again and again in the middle", async () => {
  const ws = await api.workspace("free");
  let answers = 0;
  const sent = await sendUntilFull(async () => {
    const answer = await ws.client.post("/emails", mail());
    if (++answers % 7 === 0) await emptyRedis(api.redis);
    return answer;
  });
  expect(sent.accepted).toBe(100);
  expect(await ledgerUse(ws.id)).toMatchObject({ day: 100, emails: 100 });
});

test("the same when an older copy of Redis comes back in the middle", async () => {
  const ws = await api.workspace("free");
  for (let n = 0; n < 30; n++) await ws.client.post("/emails", mail());
  const keys = await keysIn(api.redis, `{${ws.handle}}:*`);
  const old = await Promise.all(keys.map(async (key) => [key, await api.redis.dumpBuffer(key)] as const));
  for (let n = 0; n < 30; n++) await ws.client.post("/emails", mail());
  for (const [key, dump] of old) if (dump) await api.redis.restore(key, 0, dump, "REPLACE");
  const sent = await sendUntilFull(() => ws.client.post("/emails", mail()));
  expect(60 + sent.accepted).toBe(100);
  expect(await ledgerUse(ws.id)).toMatchObject({ day: 100, emails: 100 });
});

test("the same when Redis counts more than was ever used", async () => {
  const ws = await api.workspace("free");
  await ws.client.post("/emails", mail());
  await api.redis.hset(`{${ws.handle}}:use`, "day_used", "99");
  const sent = await sendUntilFull(() => ws.client.post("/emails", mail()));
  expect(1 + sent.accepted).toBe(100);
});

test("a batch is accepted whole or not at all, and a refusal costs nothing", async () => {
  const ws = await api.workspace("free");
  expect((await ws.client.post("/emails/batch", Array(60).fill(mail()))).status).toBe(200);
  const refused = await ws.client.post<Refusal>("/emails/batch", Array(41).fill(mail()));
  expect(refused.body).toMatchObject({ name: "quota_exceeded", details: { used: 60, requested: 41 } });
  expect((await ws.client.post("/emails/batch", Array(40).fill(mail()))).status).toBe(200);
  expect(await ledgerUse(ws.id)).toEqual({ day: 100, month: 100, emails: 100 });
});
