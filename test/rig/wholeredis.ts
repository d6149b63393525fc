/** All that a Redis holds, whether it is one server or a cluster. */
import { mastersOf } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";

export async function emptyRedis(redis: RedisClient): Promise<void> {
  await Promise.all((await mastersOf(redis)).map((master) => master.flushall()));
}

export async function keysIn(redis: RedisClient, pattern: string): Promise<string[]> {
  const found = await Promise.all((await mastersOf(redis)).map((master) => master.keys(pattern)));
  return found.flat();
}

/** CONFIG SET at each server. */
export async function setInRedis(redis: RedisClient, name: string, value: string): Promise<void> {
  await Promise.all((await mastersOf(redis)).map((master) => master.config("SET", name, value)));
}
