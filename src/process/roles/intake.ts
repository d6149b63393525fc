/** What every role needs that takes mail from callers. */
import type { Logger } from "pino";
import { Keyring } from "../../admission/keyring.ts";
import { applyOrSay } from "../../automation/apply.ts";
import { atMost } from "../../clock.ts";
import type { Config } from "../../config.ts";
import { BagQueue } from "../../queue/bagqueue.ts";
import type { Bag } from "../../record/mail/bags.ts";
import { infoOf } from "../../redis/canwrite.ts";
import type { RedisClient } from "../../redis/scripts.ts";
import { putInLine } from "./line.ts";
import { API_STOP_MS, domainDns, GOODBYE_MS, operatorSender, type RoleParts } from "./parts.ts";

const RUN_CHECK_MS = 1_000;

export async function openIntake({ config, serverSecret, stores, shards, overload, clock, log }: RoleParts) {
  const redis = await stores.redis("admission");
  const reads = stores.sql("reads");
  const line = new BagQueue(await stores.redis("queue"));
  const hints = stores.sql("hints");
  const onBags = (bags: Bag[]) =>
    putInLine(line, hints, bags).catch((error: unknown) =>
      log.warn({ err: error }, "e-mails are stored but not queued yet; the keeper queues them"),
    );
  const guard = overload();
  const keyring = new Keyring({ redis, sql: reads, serverSecret, clock });
  const watch = watchRuns(redis, () => keyring.replay(clock.now()), log);
  return {
    parts: {
      redis,
      connectCommits: () => stores.sql("commits"),
      reads,
      clock,
      serverSecret,
      requireVerifiedDomains: config.requireVerifiedDomains,
      timeoutMs: config.storeTimeoutMs,
      shortage: () => guard.shortage,
      shards: () => shards.open,
      onBags,
    },
    async close() {
      watch.stop();
      await atMost(GOODBYE_MS, line.close());
    },
  };
}

/**
 * A server and what it stands on, the uppermost first. That is closed after the server, and also where the
 * server does not open, which `refusal` puts into words.
 */
export async function openAbove<S extends { stop(): Promise<void> }>(
  below: readonly { close(): Promise<void> }[],
  open: () => Promise<S>,
  refusal: (error: unknown) => Error,
): Promise<{ served: S; stop(): Promise<void> }> {
  const close = async () => {
    for (const one of below) await one.close();
  };
  const served = await open().catch(async (error: unknown) => {
    await close();
    throw refusal(error);
  });
  return {
    served,
    async stop() {
      await atMost(API_STOP_MS, served.stop());
      await close();
    },
  };
}

/** What the handlers of the API take from the settings. */
export function handlersOf(config: Config) {
  const { publicUrl, webhookNetworksAllowed, host, port } = config;
  return {
    applyDocument: applyOrSay,
    dns: domainDns(config),
    mailFrom: operatorSender(config),
    ...{ publicUrl, webhookNetworksAllowed, host, port },
  };
}

/**
 * A restarted Redis, or a replica that took over, may hold old keys: recent changes are written to it again.
 * Of a cluster any of the masters may be another.
 */
function watchRuns(redis: RedisClient, replay: () => Promise<void>, log: Logger): { stop(): void } {
  let known: ReadonlySet<string> | null = null;
  const look = async () => {
    const told = await infoOf(redis, "server");
    const runs = new Set(told.map((info) => /^run_id:(\S+)/m.exec(info)?.[1] ?? ""));
    const others = [...runs].filter((run) => known !== null && !known.has(run));
    if (others.length > 0) {
      log.warn({ runs: others }, "Redis was restarted or replaced: recent changes are sent to it again");
      await replay();
    }
    known = runs;
  };
  const onReady = () =>
    void look().catch((error: unknown) =>
      log.warn({ err: error }, "Redis could not be asked whether it was restarted"),
    );
  redis.on("ready", onReady);
  const timer = setInterval(onReady, RUN_CHECK_MS);
  onReady();
  return {
    stop: () => {
      clearInterval(timer);
      redis.off("ready", onReady);
    },
  };
}
