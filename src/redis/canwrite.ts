/**
 * Whether Redis takes what it is told and keeps it: a full or read-only one, or one that evicts keys, does
 * not.
 */
import { Cluster } from "ioredis";
import { messageOf } from "../caught.ts";
import { mastersOf } from "./connect.ts";
import { keyspace } from "./keyspace.ts";
import type { RedisClient } from "./scripts.ts";
import { writeRefusal, writeRefusalWords } from "./writerefusal.ts";

const PROBE_LIVES_MS = 10_000;

/** What is wrong, or null. */
export async function canWrite(redis: RedisClient): Promise<string | null> {
  try {
    const [, info] = await Promise.all([
      redis.set(keyspace.probe(), "1", "PX", PROBE_LIVES_MS),
      infoOf(redis, "memory"),
    ]);
    return info.map(evictionTrouble).find((trouble) => trouble !== null) ?? null;
  } catch (error) {
    const refusal = writeRefusal(error);
    if (refusal !== null) return writeRefusalWords(refusal);
    const [code = ""] = /^(?:NOPERM|CLUSTERDOWN|LOADING|MASTERDOWN)\b/.exec(messageOf(error)) ?? [];
    if (code !== "") return `it accepts no writes (${code})`;
    // of a cluster that has lost one of its masters, the others serve on
    return redis instanceof Cluster && (await infoOf(redis, "memory").catch(() => [])).length > 0
      ? null
      : "no answer";
  }
}

/** Of what `info memory` says. */
export function evictionTrouble(info: string): string | null {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? "noeviction";
  return policy === "noeviction"
    ? null
    : `it drops keys when it is full: set maxmemory-policy to noeviction, not ${policy}`;
}

/** What each server says of itself that takes changes and answers now; an error if none does. */
export async function infoOf(redis: RedisClient, section: string): Promise<string[]> {
  const masters = await mastersOf(redis);
  const answers = await Promise.allSettled(masters.map((master) => master.info(section)));
  const told = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  if (told.length > 0) return told;
  const [first] = answers;
  throw first?.status === "rejected" ? first.reason : new Error("Redis has no server that accepts writes");
}
