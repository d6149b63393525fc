/**
 * While a store is away the process lives, is not ready and says why; a password that is wrong ends it at
 * once.
 */
// @module-tag one-redis: puts a proxy in front of its Redis
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../src/embedded/port.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import { launch } from "../rig/launched.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { openStage, type Stage } from "../rig/stage.ts";

let stage: Stage;
let toPostgres: TcpProxy;
let toRedis: TcpProxy;
let through: { databaseUrl: string; redisUrl: string };
beforeAll(async () => {
  stage = await openStage();
  const url = new URL(stage.databaseUrl);
  toPostgres = await openProxy({ port: Number(url.port) });
  toRedis = await openProxy({ port: stage.redis.port });
  url.searchParams.delete("socket");
  url.port = String(toPostgres.port);
  through = { databaseUrl: url.href, redisUrl: `redis://127.0.0.1:${toRedis.port}` };
});
afterAll(async () => {
  await Promise.all([toPostgres.down(), toRedis.down()]);
  await stage.close();
});

async function asked(port: number, path: string): Promise<[number, unknown]> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: "close" } });
  return [response.status, await response.json()];
}

test.each(["Postgres", "Redis"])("%s is away at the start, and comes", async (name) => {
  const proxy = name === "Postgres" ? toPostgres : toRedis;
  await proxy.down();
  const port = await freePort();
  const process = launch(["api"], { ...stage, ...through, settings: { PORT: String(port) } });
  const waiting = await process.says(/^waiting for /);
  expect(waiting.msg).toBe(
    `waiting for ${name}: ${name} at 127.0.0.1:${proxy.port} (${name === "Postgres" ? "DATABASE_URL" : "REDIS_URL"}) refuses connections. Is it running?`,
  );
  await expect.poll(() => asked(port, "/healthz").catch(() => null)).toEqual([200, { status: "ok" }]);
  const checks = { [name.toLowerCase()]: "refuses connections. Is it running?" };
  expect(await asked(port, "/readyz")).toEqual([503, { status: "not ready", checks }]);
  expect((await asked(port, "/api/v1/emails"))[0]).toBe(503);
  await proxy.up();
  await process.says("serving");
  expect((await asked(port, "/readyz"))[0]).toBe(200);
  expect(process.lines.filter(({ msg }) => msg.startsWith("waiting"))).toHaveLength(1);
  process.signal("SIGTERM");
  expect(await process.ended).toBe(0);
});

test("several processes on one port say that they live while they wait", async () => {
  await toPostgres.down();
  const port = await freePort();
  const settings = { PORT: String(port) };
  const fleet = launch(["api"], { ...stage, ...through, settings }, ["--processes", "2"]);
  await expect.poll(() => asked(port, "/healthz").catch(() => null)).toEqual([200, { status: "ok" }]);
  const checks = { postgres: "refuses connections. Is it running?" };
  expect(await asked(port, "/readyz")).toEqual([503, { status: "not ready", checks }]);
  await toPostgres.up();
  await fleet.says("serving");
  const serving = () => fleet.lines.filter(({ msg }) => msg === "serving").length;
  await expect.poll(serving).toBe(3);
  expect((await asked(port, "/readyz"))[0]).toBe(200);

  // one that waits leaves the callers to those that serve
  const alone = launch(["api"], {
    ...stage,
    databaseUrl: nowhere(),
    settings: { ...settings, SHARED_PORT: "true" },
  });
  await alone.says(/^waiting for /);
  const all = await Promise.all(Array.from({ length: 60 }, () => asked(port, "/readyz")));
  expect(all.map(([status]) => status)).toEqual(Array(60).fill(200));
  for (const one of [alone, fleet]) one.signal("SIGTERM");
  expect(await Promise.all([alone.ended, fleet.ended])).toEqual([0, 0]);
});

/** Nobody listens there. */
function nowhere(): string {
  const url = new URL(through.databaseUrl);
  url.port = "1";
  return url.href;
}

test("a Redis that takes connections and says nothing is said not to answer", async () => {
  toRedis.stall();
  const process = launch(["api"], { ...stage, ...through, settings: { STORE_TIMEOUT_MS: "500" } });
  expect((await process.says(/^waiting for /)).msg).toBe(
    `waiting for Redis: Redis at 127.0.0.1:${toRedis.port} (REDIS_URL) does not answer. Is it overloaded or cut off?`,
  );
  toRedis.flow();
  await process.says("serving");
  process.signal("SIGTERM");
  expect(await process.ended).toBe(0);
});

test("a wrong password of Redis or Postgres, and a database that is not there, end it at once", async () => {
  const redis = connectRedis(stage.redisUrl, "command", 20_000);
  await redis.config("SET", "requirepass", "the right one");
  redis.disconnect();
  const wrong = launch(["api"], {
    ...stage,
    ...through,
    redisUrl: `redis://:wrong@127.0.0.1:${toRedis.port}`,
  });
  expect(await wrong.ended).toBe(69);
  expect(wrong.err()).toMatch(/^Redis at \S+ \(REDIS_URL\) refuses the login: WRONGPASS/);
  const none = launch(["api"], { ...stage, ...through });
  expect(await none.ended).toBe(69);
  expect(none.err()).toMatch(/^Redis at \S+ \(REDIS_URL\) refuses the login: NOAUTH/);
  const url = new URL(through.databaseUrl);
  const stranger = new URL(url);
  stranger.password = "wrong";
  const refused = launch(["api"], { ...stage, databaseUrl: stranger.href });
  expect(await refused.ended).toBe(69);
  expect(refused.err()).toMatch(/^Postgres at \S+ \(DATABASE_URL\) .*password/);
  url.pathname = "/nowhere";
  const nowhere = launch(["api"], { ...stage, databaseUrl: url.href });
  expect(await nowhere.ended).toBe(69);
  expect(nowhere.err()).toMatch(/has no such database/);
});
