/** The parts that admit callers and send their mail: the same for those who come by HTTP and by SMTP. */
import { Admitter } from "../admission/admit.ts";
import { keyReader } from "../admission/bearer.ts";
import { Reservations } from "../admission/reserve.ts";
import { addressHasher } from "../audience/links.ts";
import type { Clock } from "../clock.ts";
import { Owners } from "../domain/owners.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Bag } from "../record/mail/bags.ts";
import type { HashOf } from "../record/mail/barred.ts";
import { mailCommit } from "../record/mail/commit.ts";
import type { Shortage } from "../record/mail/overload.ts";
import type { RedisClient } from "../redis/scripts.ts";
import type { SubmitParts } from "../submit.ts";
import { TemplateCache } from "../template/cache.ts";
import { LastUsed } from "./lastused.ts";

export type SendingParts = {
  redis: RedisClient;
  connectCommits(): Sql;
  reads: Sql;
  clock: Clock;
  serverSecret: string;
  /** Senders must use domains that their workspace has verified. */
  requireVerifiedDomains: boolean;
  timeoutMs: number;
  /** Why sends are refused for now; null: they are not. */
  shortage(): Shortage | null;
  /** Over how many shards of the queue bags are spread. */
  shards(): number;
  onBags(bags: Bag[]): void;
};

export type Sending = {
  admitter: Admitter;
  readKey: ReturnType<typeof keyReader>;
  lastUsed: LastUsed;
  submit: SubmitParts;
  templates: TemplateCache;
  owners: Owners;
  hashOf: HashOf;
  close(): Promise<void>;
};

export function openSending(parts: SendingParts, onFault: (error: unknown) => void): Sending {
  const { redis, reads, clock, timeoutMs, connectCommits, shortage, serverSecret } = parts;
  const admitter = new Admitter(redis, reads, clock);
  const hashOf = addressHasher(serverSecret);
  const commit = mailCommit({ connect: connectCommits, timeoutMs }, parts.onBags, hashOf, parts.shards);
  const uploads = connectCommits();
  const reservations = new Reservations(redis, reads, clock);
  const lastUsed = new LastUsed(reads, clock, onFault);
  return {
    admitter,
    readKey: keyReader(serverSecret),
    lastUsed,
    submit: { admitter, commit, reads, uploads, clock, reservations, shortage, onLag: onFault },
    templates: new TemplateCache(reads, timeoutMs),
    owners: new Owners({ sql: reads, isRequired: parts.requireVerifiedDomains, onFault }),
    hashOf,
    async close() {
      await commit.close();
      await uploads.end({ timeout: 1 });
      await lastUsed.stop();
    },
  };
}
