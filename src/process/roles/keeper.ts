/** Everything that is due without anybody asking for it: releases, retries, caps, retention. */
import { Keyring } from "../../admission/keyring.ts";
import { Reservations } from "../../admission/reserve.ts";
import { heardWith } from "../../capacity/heard.ts";
import { atMost } from "../../clock.ts";
import { Keeper } from "../../keeper/keeper.ts";
import { Crowding } from "../../priority.ts";
import { BagQueue } from "../../queue/bagqueue.ts";
import { domainDns, GOODBYE_MS, KEEPER_STOP_MS, type RoleParts } from "./parts.ts";

export async function startKeeperRole({
  config,
  stores,
  shards,
  looks,
  policy,
  clock,
  log,
  onFault,
}: RoleParts) {
  const sql = stores.sql("keeper");
  const line = new BagQueue(await stores.redis("queue"));
  const redis = await stores.redis("admission");
  const reservations = new Reservations(redis, sql, clock);
  const keyring = new Keyring({ redis, sql, serverSecret: config.secret ?? "", clock });
  const crowding = new Crowding();
  const keeper = new Keeper({
    sql,
    timeoutMs: config.storeTimeoutMs,
    line,
    shards,
    reservations,
    clock,
    policy: () => policy.latest(),
    heard: heardWith(config),
    capsEverySeconds: config.capsEverySeconds,
    ...domainDns(config),
    onDomainLost: ({ handle, version }) => keyring.forget(handle, version),
    onCaps: async ({ handle, version, workspaceId }) => {
      log.info({ workspace: workspaceId }, "a cap was changed; `postrider caps history` says why");
      await keyring.forget(handle, version);
      await reservations.forget(handle);
    },
    crowding: () => crowding.share(),
    retention: {
      emails: config.retentionDays,
      bodies: config.bodyRetentionDays,
      events: config.eventLogDays,
    },
    retentionSql: stores.sql("retention"),
    overload: {
      backlogMax: config.backlogMax,
      diskFreeMinBytes: config.diskFreeMinMb * 1024 * 1024,
      dataFolder: config.postgresDataFolder,
    },
    onFault,
  });
  keeper.start(looks);
  return {
    async stop() {
      await keeper.stop(KEEPER_STOP_MS);
      await atMost(GOODBYE_MS, line.close());
    },
  };
}
