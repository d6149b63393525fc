/**
 * A process that was held up finds an answer of Redis and the end of the time for it at once. It reads first.
 */
import { once } from "node:events";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import { services } from "../rig/services.ts";

const TIMEOUT_MS = 500;

let redis: RedisClient;
beforeEach(async () => {
  redis = connectRedis(services().redisUrl, "admission", TIMEOUT_MS);
  // a first attempt may be too slow
  await new Promise<void>((resolve) => redis.once("ready", () => resolve()));
});
afterEach(() => redis.disconnect());

test.each([
  ["a command", TIMEOUT_MS + 100],
  ["a connection", 3 * TIMEOUT_MS],
])("what Redis answered during a hold-up counts, though the time of %s is over", async (_, heldUpMs) => {
  const answer = redis.exists("nothing"); // is written at once
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, heldUpMs);
  expect(await answer).toBe(0);
});

test("a failure that nobody takes is not hidden", async () => {
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  const untaken = once(process, "unhandledRejection");
  void redis.call("NOSUCHCOMMAND");
  const [failure] = await untaken;
  for (const other of others) process.on("unhandledRejection", other);
  expect(String(failure)).toContain("unknown command");
});
