/** A worker that holds a bag and cannot read its e-mails lets go of it, and does not keep everybody from it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectRecord } from "../../src/record/db/connect.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "../rig/services.ts";
import { settled } from "../rig/settled.ts";
import { openSink, type Sink } from "../rig/sink.ts";
import { mail } from "../rig/workspace.ts";

const PATIENCE_MS = 30_000;
let database: OwnDatabase;
let redis: OwnRedis;
let sink: Sink;
let engine: Engine;
beforeAll(async () => {
  [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink()]);
  engine = await startEngine(["api"], { databaseUrl: database.url, redisUrl: redis.url });
});
afterAll(async () => {
  await engine.stop();
  await Promise.all([sink.close(), redis.stop(), database.drop()]);
});

test("it is given back, without a mark against it, and goes when it can be read", async () => {
  const ws = await engine.workspace("pro");
  await ws.client.post("/emails", mail());
  const delivery = await startEngine(["deliver"], {
    databaseUrl: database.url,
    redisUrl: redis.url,
    smtpUrl: sink.url,
  });
  const other = connectRecord(database.url, "setup", PATIENCE_MS);
  const bag = async () => {
    const [row] = await engine.sql`select generation, claims, token from bag where workspace_id = ${ws.id}`;
    return row;
  };
  await other.begin(async (tx) => {
    await tx`lock table body in access exclusive mode`;
    const keeper = startEngine(["keeper"], { databaseUrl: database.url, redisUrl: redis.url });
    await expect
      .poll(bag, { timeout: PATIENCE_MS })
      .toMatchObject({ generation: expect.toSatisfy((n: number) => n > 1), claims: 0, token: null });
    await (await keeper).stop();
  });
  const keeper = await startEngine(["keeper"], { databaseUrl: database.url, redisUrl: redis.url });
  expect(await settled(engine.sql, ws.id, PATIENCE_MS)).toEqual({ delivered: 1 });
  await Promise.all([delivery.stop(), keeper.stop(), other.end()]);
}, 120_000);
