/** A process that starts beside its stores waits for them, and says which one is missing. */
// @module-tag one-redis: puts a proxy in front of its Redis
import { once } from "node:events";
import { PassThrough } from "node:stream";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Stores } from "../../src/process/stores.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";

/** A store that stands still for a moment is not said to be silent. */
const TIMEOUT_MS = 4_000;
const ANSWER_MS_MAX = 4_000;

let redis: OwnRedis;
let toRedis: TcpProxy;
let toPostgres: TcpProxy;
let stores: Stores;
const said = new PassThrough();
const waitedFor: string[] = [];
beforeAll(async () => {
  redis = await ownRedis();
  toRedis = await openProxy({ port: redis.port });
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  stores = new Stores({
    databaseUrl: `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
    redisUrl: `redis://127.0.0.1:${toRedis.port}`,
    timeoutMs: TIMEOUT_MS,
    answerMsMax: ANSWER_MS_MAX,
    log: pino({ level: "debug" }, said),
    onWaiting: (line) => void waitedFor.push(line),
  });
});
afterAll(async () => {
  await stores.close();
  await Promise.all([toRedis.down(), toPostgres.down(), redis.stop()]);
});

test("a Redis that refuses the first connection is asked again", async () => {
  await toRedis.down();
  const refused = once(said, "data");
  const connecting = stores.redis("worker");
  connecting.catch(() => {});
  expect(String(await refused)).toContain("ECONNREFUSED");
  await toRedis.up();
  expect((await connecting).status).toBe("ready");
});

test("a store that says nothing is named, and waited for", async () => {
  toPostgres.stall();
  const starting = stores.ready();
  await expect.poll(() => waitedFor.length, { timeout: 10 * ANSWER_MS_MAX }).toBe(1);
  toPostgres.flow();
  await starting;
  expect(waitedFor[0]).toBe(
    `Waiting for Postgres: Postgres at 127.0.0.1:${toPostgres.port} (DATABASE_URL) does not answer. Is it overloaded or cut off?`,
  );
});

test("a connection that is lost before the time is known is made again", async () => {
  const lost = toPostgres.cutReply((bytes) => bytes.includes("postrider hints"));
  const [clock] = await Promise.all([stores.ready(), lost]);
  expect(clock.fault).toBeNull();
});

test("a Redis that says nothing to a process that has begun is named", async () => {
  toRedis.stall();
  const started = await stores.redis("worker").then(String, String);
  toRedis.flow();
  expect(started).toContain(`Redis at 127.0.0.1:${toRedis.port} (REDIS_URL) does not answer.`);
});
