/**
 * Sentinel tells of another master on connections of their own, also while a client that lost the former one
 * asks it for the master. The client takes what it is told, and does not end.
 */
// @module-tag one-redis: is about the master that Sentinel names
import type { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connected, connectRedis, type Purpose } from "../../src/redis/connect.ts";
import { SayingSentinel } from "../rig/sayingsentinel.ts";
import { type OwnRedis, ownRedis } from "../rig/services.ts";

const TIMEOUT_MS = 10_000;

let redis: OwnRedis;
let sentinel: SayingSentinel;
beforeAll(async () => {
  redis = await ownRedis();
  sentinel = await SayingSentinel.open(redis.port);
});
afterAll(async () => {
  await sentinel.close();
  await redis.stop();
});

test.each<Purpose>(["admission", "queue", "worker", "command"])(
  "a client for %s connects to it",
  async (purpose) => {
    const client = connectRedis(
      `redis+sentinel://127.0.0.1:${sentinel.port}/shop`,
      purpose,
      TIMEOUT_MS,
    ) as Redis;
    client.on("error", () => {});
    await connected(client);
    await sentinel.isListenedTo();
    sentinel.holdBack();
    client.stream.destroy();
    await sentinel.isAsked();
    await sentinel.nameAnother();
    sentinel.answer();
    await new Promise((resolve) => client.once("ready", resolve).once("end", resolve));
    expect(client.status).toBe("ready");
    expect(await client.ping()).toBe("PONG");
    client.disconnect();
  },
);
