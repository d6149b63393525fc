/** Whether Redis takes what it is told and keeps it: a full or read-only one, or one that evicts keys, does not. */
import { keyspace } from "./keyspace.ts";
import type { RedisClient } from "./scripts.ts";

const PROBE_LIVES_MS = 10_000;

/** What is wrong, or null. */
export async function canWrite(redis: RedisClient): Promise<string | null> {
  try {
    const [, info] = await Promise.all([
      redis.set(keyspace.probe(), "1", "PX", PROBE_LIVES_MS),
      redis.info("memory"),
    ]);
    return evictionTrouble(info);
  } catch (error) {
    const { message } = error as Error;
    const [code = ""] =
      /^(?:OOM|READONLY|MISCONF|NOPERM|CLUSTERDOWN|LOADING|MASTERDOWN)\b/.exec(message) ?? [];
    return code === "" ? "no answer" : `it takes no changes (${code})`;
  }
}

/** Of what `info memory` says. */
export function evictionTrouble(info: string): string | null {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? "noeviction";
  return policy === "noeviction"
    ? null
    : `it drops keys when it is full: set maxmemory-policy to noeviction, not ${policy}`;
}
