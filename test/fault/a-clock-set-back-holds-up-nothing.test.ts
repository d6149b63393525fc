/**
 * The clock of Postgres was set back by hours: what was written before has times that lie ahead, and holds
 * nothing up.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/ids.ts";
import { claimBag, LEASE_SECONDS } from "../../src/record/mail/bagleases.ts";
import { endExpiredLeases, packDeferred, queuedAfter, strays } from "../../src/record/mail/keeperwork.ts";
import { claimWebhooks } from "../../src/record/outbox/dispatch.ts";
import { logEvents, numberEvents } from "../../src/record/outbox/outbox.ts";
import { insertWebhook } from "../../src/record/outbox/webhooks.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail } from "../rig/workspace.ts";

const HOUR_MS = 3_600_000;
const FIRST = {
  workspaceId: "00000000-0000-0000-0000-000000000000",
  id: "00000000-0000-0000-0000-000000000000",
};

let stage: Stage;
let engine: Engine;
beforeAll(async () => {
  stage = await openStage();
  engine = await startEngine(["api"], stage);
});
afterAll(async () => {
  await engine.stop();
  await stage.close();
});

type BagKey = { workspaceId: string; id: string; generation: number; shard: number };

async function bagOfOne(): Promise<BagKey> {
  const ws = await engine.workspace("pro", { cap_hour: 50, cap_day: 1_000 });
  await ws.client.post("/emails", mail());
  const queued = () => engine.sql`select 1 from bag where workspace_id = ${ws.id} and epoch is not null`;
  await expect.poll(async () => (await queued()).length, { timeout: 10_000 }).toBe(1);
  const [bag] = await engine.sql<BagKey[]>`
    select workspace_id as "workspaceId", id, generation, shard from bag where workspace_id = ${ws.id}`;
  return bag as BagKey;
}

/** Postgres' own, a moment ago. */
async function seen(): Promise<Date> {
  const [row] = await engine.sql<{ at: Date }[]>`select clock_timestamp() as at`;
  return (row as { at: Date }).at;
}

test("a lease that ends hours ahead is ended; one that has just been renewed is not", async () => {
  const [dead, living] = [await bagOfOne(), await bagOfOne()];
  for (const bag of [dead, living]) await claimBag(engine.sql, { ...bag, token: randomUUID() }, 0);
  await engine.sql`update bag set lease_until = lease_until + interval '1 hour' where id = ${dead.id}`;
  expect(await endExpiredLeases(engine.sql, await seen(), 10)).toBe(1);
  const held = await engine.sql<{ id: string }[]>`select id from bag where token is not null`;
  expect(held.map(({ id }) => id)).toEqual([living.id]);
});

test("nothing is ended by a look from before the clock was set back", async () => {
  const bag = await bagOfOne();
  await claimBag(engine.sql, { ...bag, token: randomUUID() }, 0);
  const ahead = new Date((await seen()).getTime() + HOUR_MS);
  expect(await endExpiredLeases(engine.sql, ahead, 10)).toBe(0);
  const behind = new Date((await seen()).getTime() + (LEASE_SECONDS + 1) * 1_000);
  expect(await endExpiredLeases(engine.sql, behind, 10)).toBe(0);
});

test("a bag that was made hours ahead is queued again when its job is lost", async () => {
  const bag = await bagOfOne();
  await engine.sql`update bag set created_at = now() + interval '1 hour', epoch = null where id = ${bag.id}`;
  const before = new Date(Date.now() - 2_000);
  const found = await strays(engine.sql, bag.shard, bag.workspaceId, before, 10);
  expect(found.map(({ id }) => id)).toEqual([bag.id]);
  await engine.sql`update bag set epoch = 'one' where id = ${bag.id}`;
  const queued = await queuedAfter(engine.sql, bag.shard, FIRST, before, 100);
  expect(queued.map(({ id }) => id)).toContain(bag.id);
});

test("a place in the caps of hours ahead is another hour's: the caps are asked again", async () => {
  const bag = await bagOfOne();
  await engine.sql`update bag set granted_at = now() + interval '1 hour' where id = ${bag.id}`;
  const claim = await claimBag(engine.sql, { ...bag, token: randomUUID() }, 0);
  expect(claim?.lapsesInMs).toBe(0);

  const { workspaceId } = bag;
  await engine.sql`
    insert into due (workspace_id, email_id, at, why, bulk, weight, bytes, granted_at)
    select workspace_id, id, now(), 'deferred', bulk, 1, bytes, now() + interval '1 hour' from email
    where workspace_id = ${workspaceId}`;
  await engine.sql`update email set status = 'deferred', bag_id = null where workspace_id = ${workspaceId}`;
  await engine.sql`delete from bag where workspace_id = ${workspaceId}`;
  const now = Date.now();
  await engine.sql.begin((tx) => packDeferred(tx, now, 10, { newId: () => newId(now), shards: 1 }));
  const [packed] = await engine.sql<{ grantedAt: Date }[]>`
    select granted_at as "grantedAt" from bag where workspace_id = ${workspaceId}`;
  expect(packed?.grantedAt.getTime()).toBe(now);
});

test("an endpoint that a dead worker held hours ahead is taken by another", async () => {
  const ws = await engine.workspace();
  const key = { workspaceId: ws.id, id: newId(Date.now()) };
  const webhook = { endpoint: "https://a.example/", events: null, publicKey: null, secrets: Buffer.alloc(1) };
  await insertWebhook(engine.sql, { ...key, ...webhook }, 50, new Date());
  await engine.sql`update webhook set lease_token = ${randomUUID()}, lease_until = now() + interval '1 hour', cursor = -1`;
  await engine.sql`insert into event_sequence (workspace_id, last) values (${ws.id}, 1)
    on conflict (workspace_id) do update set last = 1`;
  const claim = {
    leaseMs: 15_000,
    now: new Date(),
    most: 10,
    mostOfOne: 10,
    held: new Map(),
    fullHosts: [],
    from: FIRST.id,
  };
  const held = await claimWebhooks(engine.sql, randomUUID(), claim);
  expect(held.map(({ id }) => id)).toEqual([key.id]);
  expect(await claimWebhooks(engine.sql, randomUUID(), claim)).toEqual([]);
});

test("what happened while the clock was weeks ahead is told, and keeps nobody's events from that", async () => {
  const ws = await engine.workspace("pro");
  await logEvents(engine.sql, ws.id, true);
  await ws.client.post("/emails", mail());
  // there is no partition of such a day yet, and there will be none for weeks
  const ahead = await engine.sql`
    update outbox_batch set kept_at = kept_at + interval '20 days' where workspace_id = ${ws.id} returning 1`;
  expect(ahead).toHaveLength(1);
  await ws.client.post("/emails", mail());
  await engine.sql.begin((tx) => numberEvents(tx, 1_000));
  const told =
    await engine.sql`select type from outbox where workspace_id = ${ws.id} and sequence is not null`;
  expect(told.map(({ type }) => type)).toEqual(["email.accepted", "email.accepted"]);
});
