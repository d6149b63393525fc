/**
 * A process that is still starting ends when it is told to, by itself and not by the signal: the first
 * process of a container would not hear it. One that serves finishes what is under way, whatever the signal.
 */
// @module-tag one-redis: puts a proxy in front of its Redis
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../src/embedded/port.ts";
import { launch } from "../rig/launched.ts";
import { openProxy, type TcpProxy } from "../rig/proxy.ts";
import { openStage, type Stage } from "../rig/stage.ts";

let stage: Stage;
let toRedis: TcpProxy;
let away: { redisUrl: string };
beforeAll(async () => {
  stage = await openStage();
  toRedis = await openProxy({ port: stage.redis.port });
  await toRedis.down();
  away = { redisUrl: `redis://127.0.0.1:${toRedis.port}` };
});
afterAll(async () => {
  await toRedis.down();
  await stage.close();
});

test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("%s while it waits for a store", async (signal) => {
  const process = launch(["deliver"], { ...stage, ...away });
  await process.says(/^waiting for Redis/);
  process.signal(signal);
  expect(await process.ended).toBe(0);
  expect(process.err()).toBe("");
});

test.each(["SIGTERM", "SIGINT"] as const)(
  "%s while a group of processes waits for a store",
  async (signal) => {
    const group = launch(["deliver"], { ...stage, ...away }, ["--processes", "2"]);
    await group.says(/^waiting for Redis/);
    group.signal(signal);
    expect(await group.ended).toBe(0);
    expect(group.err()).toBe("");
  },
);

test("SIGHUP while a group of processes starts ends none of them", async () => {
  const group = launch(["deliver"], { ...stage, ...away }, ["--processes", "2"]);
  await group.says(/^waiting for Redis/);
  group.signal("SIGHUP");
  await toRedis.up();
  await group.says("all processes are replaced");
  group.signal("SIGTERM");
  expect(await group.ended).toBe(0);
  await toRedis.down();
});

test("SIGHUP to a process that serves", async () => {
  const process = launch(["deliver"], stage);
  await process.says("serving");
  process.signal("SIGHUP");
  expect(await process.ended).toBe(0);
  expect(process.lines.at(-1)?.msg).toBe("stopped: what was under way is finished or given back");
});

test("SIGTERM while its roles begin: what the first of them has begun is finished", async () => {
  const url = new URL(stage.databaseUrl);
  const toPostgres = await openProxy({ port: Number(url.port) });
  url.host = `127.0.0.1:${toPostgres.port}`;
  url.search = "";
  const port = await freePort();
  const begins = toPostgres.stallRequest((bytes) => bytes.includes("postrider delivery"));
  const process = launch(["api", "deliver"], {
    ...stage,
    databaseUrl: url.href,
    settings: { PORT: String(port) },
  });
  await begins; // and the api has begun
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  await once(socket, "connect");
  process.signal("SIGTERM");
  await process.says("stopping");
  socket.write("GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n");
  expect((await once(socket, "data")).join()).toMatch(/^HTTP\/1\.1 200 /);
  socket.destroy();
  toPostgres.flow();
  expect(await process.ended).toBe(0);
  expect(process.lines.at(-1)?.msg).toBe("stopped: what was under way is finished or given back");
  await toPostgres.down();
});
