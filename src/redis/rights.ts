/**
 * The rights of our user: what every role does is tried before it starts, so that a missing right is named
 * then, and not by the first mail. A Redis that refuses for another reason passes: that may end by itself.
 */
import { messageOf } from "../caught.ts";
import { infoOf } from "./canwrite.ts";
import { keyspace } from "./keyspace.ts";
import { loadScript, type RedisClient } from "./scripts.ts";

const rightsScript = loadScript("rights", ["probe"], []);

/** Of a command, and of one in a script, by versions. */
const LACKS = /NOPERM|ACL failure|user executing the script can't/;
const WAIT_SECONDS = 0.01;
/** One of each kind, which a user may be kept from. */
const KEYS = [
  keyspace.workspace("probe"),
  keyspace.attempts("probe"),
  keyspace.room("probe"),
  keyspace.figures(),
  keyspace.shardEpoch(0),
];

/** What Redis says of a right that its user lacks; null: it lacks none. */
export async function missingRight(redis: RedisClient): Promise<string | null> {
  const probe = keyspace.probe(0);
  const tried = await Promise.allSettled([
    rightsScript.run(redis, { probe }, {}),
    ...KEYS.map((key) => redis.exists(key)),
    infoOf(redis, "memory"),
    redis.bzpopmin(probe, WAIT_SECONDS),
  ]);
  const refusals = tried.flatMap((one) => (one.status === "rejected" ? [messageOf(one.reason)] : []));
  const refusal = refusals.find((message) => LACKS.test(message)) ?? null;
  return refusal === null || refusal.startsWith("NOPERM") ? refusal : `NOPERM ${refusal}`;
}
