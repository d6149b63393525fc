/**
 * A process that was held up finds an answer of Redis and the end of the time for it at once. It reads first.
 */
import { once } from "node:events";
import { expect, test } from "vitest";
import { connectRedis } from "../../src/redis/connect.ts";
import { services } from "../rig/services.ts";

const TIMEOUT_MS = 500;

test("what Redis answered during a hold-up counts, though the time is over", async () => {
  const redis = connectRedis(services().redisUrl, "admission", TIMEOUT_MS);
  await once(redis, "ready");
  const answer = redis.exists("nothing"); // is written at once
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TIMEOUT_MS + 100);
  expect(await answer).toBe(0);
  redis.disconnect();
});
