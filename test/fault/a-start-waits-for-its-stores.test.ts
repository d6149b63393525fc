/** A process that starts beside its stores waits for them, and says which one is missing rather than wait for ever. */
import { once } from "node:events";
import { PassThrough } from "node:stream";
import pino from "pino";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { Stores } from "../../src/process/stores.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { type OwnRedis, ownRedis, services } from "../rig/services.ts";

const TIMEOUT_MS = 2_000;
/** More than a start waits. */
const PATIENCE_MS = 31_000;

let redis: OwnRedis;
let toRedis: TcpProxy;
let toPostgres: TcpProxy;
let stores: Stores;
const said = new PassThrough();
beforeAll(async () => {
  redis = await ownRedis();
  toRedis = await openProxy({ port: redis.port });
  const { port, username, password, pathname } = new URL(services().databaseUrl);
  toPostgres = await openProxy({ port: Number(port) });
  stores = new Stores(
    `postgres://${username}:${password}@127.0.0.1:${toPostgres.port}${pathname}`,
    `redis://127.0.0.1:${toRedis.port}`,
    TIMEOUT_MS,
    pino({ level: "debug" }, said),
  );
});
afterEach(() => void vi.useRealTimers());
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

test("a store that says nothing is named", async () => {
  const silence = {
    "Postgres DATABASE_URL": [toPostgres, () => stores.ready()],
    "Redis REDIS_URL": [toRedis, () => stores.redis("worker")],
  } as const;
  for (const [names, [proxy, start]] of Object.entries(silence)) {
    const [name, setting] = names.split(" ");
    proxy.stall();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    const started = start().then(String, String);
    await vi.advanceTimersByTimeAsync(PATIENCE_MS);
    vi.useRealTimers();
    proxy.flow();
    expect(await started).toContain(`${name} at 127.0.0.1:${proxy.port} (${setting}) does not answer.`);
  }
});
