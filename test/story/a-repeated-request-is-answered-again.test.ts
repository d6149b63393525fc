import { afterAll, beforeAll, expect, test } from "vitest";
import { MovableClock } from "../rig/clock.ts";
import { ownRedis } from "../rig/services.ts";
import { emptyRedis } from "../rig/wholeredis.ts";
import { mail, type Refusal, type TestApi, type TestWorkspace, testApi } from "../rig/workspace.ts";

const clock = new MovableClock(Date.now());
let redis: Awaited<ReturnType<typeof ownRedis>>;
let api: TestApi;
let ws: TestWorkspace;
beforeAll(async () => {
  redis = await ownRedis();
  api = await testApi({ redisUrl: redis.url, clock });
  ws = await api.workspace();
});
afterAll(async () => {
  await api.stop();
  await redis.stop();
});

const under = (key: string) => ({ "idempotency-key": key });

async function count(workspaceId: string): Promise<number> {
  const [row] = await api.sql`select count(*)::int from email where workspace_id = ${workspaceId}`;
  return row?.count as number;
}

test("fifty at once are one e-mail; the rest hear the first answer or that it is on its way", async () => {
  const fresh = await api.workspace();
  const answers = await Promise.all(
    Array.from({ length: 50 }, () =>
      fresh.client.post<{ id: string } & Refusal>("/emails", mail(), under("fifty")),
    ),
  );
  expect(await count(fresh.id)).toBe(1);
  const ids = new Set(answers.filter(({ status }) => status === 200).map(({ body }) => body.id));
  expect(ids.size).toBe(1);
  for (const { status, body } of answers)
    if (status !== 200)
      expect(body).toMatchObject({ statusCode: 409, name: "concurrent_idempotent_requests" });
  const [ledger] = await api.sql`select month_used from ledger where workspace_id = ${fresh.id}`;
  expect(ledger?.month_used).toBe(1);
});

test("the same bytes are answered again, others are a conflict, whatever Redis remembers", async () => {
  const first = await ws.client.post("/emails", mail(), under("a"));
  expect(first.status).toBe(200);
  for (const forget of [false, true]) {
    if (forget) await emptyRedis(api.redis);
    expect((await ws.client.post("/emails", mail(), under("a"))).body).toEqual(first.body);
    expect(
      (await ws.client.post<Refusal>("/emails", mail({ subject: "Other" }), under("a"))).body,
    ).toMatchObject({
      statusCode: 409,
      name: "invalid_idempotent_request",
    });
  }
});

test("endpoints, workspaces and validation modes are told apart", async () => {
  expect((await ws.client.post("/emails", mail(), under("b"))).status).toBe(200);
  expect((await ws.client.post("/emails/batch", [mail()], under("b"))).status).toBe(200);
  const permissive = { ...under("b"), "x-batch-validation": "permissive" };
  expect((await ws.client.post("/emails/batch", [mail()], permissive)).status).toBe(409);
  expect((await (await api.workspace()).client.post("/emails", mail(), under("b"))).status).toBe(200);
});

test("only what was accepted is remembered", async () => {
  expect((await ws.client.post("/emails", mail({ to: "nobody" }), under("c"))).status).toBe(422);
  expect((await ws.client.post("/emails", mail(), under("c"))).status).toBe(200);
});

test("a permissive batch of which nothing was right is an answer, too", async () => {
  const permissive = { ...under("none"), "x-batch-validation": "permissive" };
  const first = await ws.client.post<{ data: unknown[]; errors: unknown[] }>(
    "/emails/batch",
    [mail({ to: "nobody" })],
    permissive,
  );
  expect(first).toMatchObject({ status: 200, body: { data: [], errors: [{ index: 0 }] } });
  expect((await ws.client.post("/emails/batch", [mail({ to: "nobody" })], permissive)).body).toEqual(
    first.body,
  );
  expect((await ws.client.post<Refusal>("/emails/batch", [mail()], permissive)).body).toMatchObject({
    statusCode: 409,
    name: "invalid_idempotent_request",
  });
});

test("a used up quota still answers what was accepted before", async () => {
  const free = await api.workspace("free", { emails_per_day: 1 });
  const first = await free.client.post("/emails", mail(), under("d"));
  expect((await free.client.post("/emails", mail(), under("e"))).status).toBe(429);
  expect((await free.client.post("/emails", mail(), under("d"))).body).toEqual(first.body);
  expect((await free.client.post<Refusal>("/emails", mail({ subject: "Other" }), under("d"))).status).toBe(
    409,
  );
});

test("a key has 1 to 256 characters", async () => {
  expect((await ws.client.post<Refusal>("/emails", mail(), under("x".repeat(257)))).body).toMatchObject({
    statusCode: 400,
    name: "invalid_idempotency_key",
  });
  expect((await ws.client.post("/emails", mail(), under("x".repeat(256)))).status).toBe(200);
  expect((await ws.client.post<Refusal>("/emails", mail(), under(""))).status).toBe(400);
});

test("a key that is not ASCII is refused: it could not be told from another", async () => {
  const inUtf8 = Buffer.from("order-é-1").toString("latin1");
  for (const key of ["\xe9", "\xe8", "order-\xe9-1", inUtf8])
    expect((await ws.client.post<Refusal>("/emails", mail(), under(key))).body).toMatchObject({
      statusCode: 400,
      name: "invalid_idempotency_key",
      message: expect.stringContaining("ASCII"),
    });
});

test("after 24 hours the key is free again", async () => {
  const first = await ws.client.post("/emails", mail(), under("f"));
  clock.advance(24 * 3_600_000 - 1_000);
  expect((await ws.client.post("/emails", mail(), under("f"))).body).toEqual(first.body);
  clock.advance(2_000);
  const later = await ws.client.post("/emails", mail(), under("f"));
  expect(later.status).toBe(200);
  expect(later.body).not.toEqual(first.body);
});
