/**
 * Whether Redis takes what it is told and keeps it: a full or read-only one, or one that evicts keys, does
 * not.
 */
import { Cluster, type Redis } from "ioredis";
import { messageOf } from "../caught.ts";
import { inTime } from "../clock.ts";
import { mastersOf } from "./connect.ts";
import { keyspace } from "./keyspace.ts";
import type { RedisClient } from "./scripts.ts";
import { writeRefusal, writeRefusalWords } from "./writerefusal.ts";

const PROBE_LIVES_MS = 10_000;
/** A server that takes none of so many has few slots or none. */
const PROBES_MAX = 64;
const NO_ANSWER = "no answer";

/**
 * What is wrong, or null. Of a cluster some of whose masters are lost, full or silent for so long, the others
 * serve on.
 */
export async function canWrite(redis: RedisClient, answerMsMax: number): Promise<string | null> {
  const asked = await askEach(redis, answerMsMax);
  const evicts = asked.find(({ eviction }) => eviction !== null);
  if (evicts) return evicts.eviction;
  return asked.some(({ refusal }) => refusal === null) ? null : (asked[0]?.refusal ?? NO_ANSWER);
}

/** Why some server takes no writes, or null. */
export async function refusedWrites(redis: RedisClient, answerMsMax: number): Promise<string | null> {
  const refused = (await askEach(redis, answerMsMax)).find(({ refusal }) => refusal !== null);
  if (!refused) return null;
  return redis instanceof Cluster ? `${refused.address}: ${refused.refusal}` : refused.refusal;
}

type WriteAnswer = { address: string; eviction: string | null; refusal: string | null };

async function askEach(redis: RedisClient, answerMsMax: number): Promise<WriteAnswer[]> {
  const masters = await mastersOf(redis).catch(() => []);
  return Promise.all(masters.map((server) => ask(server, answerMsMax)));
}

async function ask(server: Redis, answerMsMax: number): Promise<WriteAnswer> {
  const address = `${server.options.host}:${server.options.port}`;
  const asked = Promise.all([server.info("memory"), writeTo(server)]);
  try {
    const [info] = await inTime(answerMsMax, asked, (): never => {
      throw new Error(NO_ANSWER);
    });
    return { address, eviction: evictionTrouble(info), refusal: null };
  } catch (error) {
    return { address, eviction: null, refusal: refusalWords(error) };
  }
}

function refusalWords(error: unknown): string {
  const refusal = writeRefusal(error);
  if (refusal !== null) return writeRefusalWords(refusal);
  const [code = ""] = /^(?:NOPERM|CLUSTERDOWN|LOADING|MASTERDOWN)\b/.exec(messageOf(error)) ?? [];
  return code === "" ? NO_ANSWER : `it accepts no writes (${code})`;
}

/** Which probe a server has taken. */
const probes = new WeakMap<Redis, number>();

/** A server of a cluster takes the keys of its slots only: it is asked until it takes one. */
async function writeTo(server: Redis): Promise<void> {
  for (let n = probes.get(server) ?? 0; n < PROBES_MAX; n++) {
    try {
      await server.set(keyspace.probe(n), "1", "PX", PROBE_LIVES_MS);
      probes.set(server, n);
      return;
    } catch (error) {
      if (!/^(?:MOVED|ASK) /.test(messageOf(error))) throw error;
    }
  }
  probes.delete(server);
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
