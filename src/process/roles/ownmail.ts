/** What mail of the engine's own accord is written with. */
import { Reservations } from "../../admission/reserve.ts";
import { addressHasher } from "../../audience/links.ts";
import { BagQueue } from "../../queue/bagqueue.ts";
import type { Bag } from "../../record/mail/bags.ts";
import { mailCommit } from "../../record/mail/commit.ts";
import { ownSubmitter } from "../../submit.ts";
import { putInLine } from "./line.ts";
import type { RoleParts } from "./parts.ts";

export async function openOwnMail({ config, serverSecret, stores, shards, overload, clock, log }: RoleParts) {
  const reads = stores.sql("reads");
  const line = new BagQueue(await stores.redis("queue"));
  const hints = stores.sql("hints");
  const guard = overload();
  const commits = { connect: () => stores.sql("commits"), timeoutMs: config.storeTimeoutMs };
  const hashOf = addressHasher(serverSecret);
  const enqueue = (bags: Bag[]) => {
    putInLine(line, hints, bags).catch((error: unknown) =>
      log.warn({ err: error }, "e-mails are stored but not queued yet; the keeper queues them"),
    );
  };
  const commit = mailCommit(commits, enqueue, hashOf, () => shards.open);
  const submitOwn = ownSubmitter({
    reservations: new Reservations(await stores.redis("admission"), reads, clock),
    commit,
    reads,
    clock,
    shortage: () => guard.shortage,
    onLag: (error) => log.warn({ err: error }, "Redis could not be updated"),
  });
  return {
    ...{ reads, commits, hashOf, submitOwn },
    async close() {
      await commit.close();
      await line.close();
    },
  };
}
