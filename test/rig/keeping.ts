/** A keeper whose ticks the test runs by hand, on stores and a clock of the test's own. */
import { Keyring } from "../../src/admission/keyring.ts";
import { Reservations } from "../../src/admission/reserve.ts";
import { ALL_HEARD, DEFAULT_POLICY, type Policy } from "../../src/capacity/policy.ts";
import type { Clock } from "../../src/clock.ts";
import { Keeper, type KeeperParts } from "../../src/keeper/keeper.ts";
import { BagQueue } from "../../src/queue/bagqueue.ts";
import { connectRecord } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";

const STORE_MS_MAX = 10_000;

export type HandKeeper = { keeper: Keeper; close(): Promise<void> };

export function handKeeper(
  stores: { databaseUrl: string; redisUrl: string },
  clock: Clock,
  policy: () => Policy = () => DEFAULT_POLICY,
  { storeMs = STORE_MS_MAX, ...parts }: Partial<KeeperParts> & { storeMs?: number } = {},
): HandKeeper {
  const sql = connectRecord(stores.databaseUrl, "keeper", storeMs);
  const retentionSql = connectRecord(stores.databaseUrl, "retention", STORE_MS_MAX);
  const client = connectRedis(stores.redisUrl, "worker", STORE_MS_MAX);
  const line = new BagQueue(client);
  const reservations = new Reservations(client, sql, clock);
  const keyring = new Keyring({ redis: client, sql, serverSecret: "", clock });
  const keeper = new Keeper({
    sql,
    timeoutMs: storeMs,
    line,
    shards: { open: 1, served: 1 },
    reservations,
    clock,
    policy: async () => policy(),
    heard: ALL_HEARD,
    capsEverySeconds: 300,
    askTxt: async () => [],
    returnPaths: null,
    onDomainLost: ({ handle, version }) => keyring.forget(handle, version),
    onCaps: async ({ handle, version }) => {
      await keyring.forget(handle, version);
      await reservations.forget(handle);
    },
    crowding: () => 0,
    retention: { emails: 30, bodies: 7, events: 7 },
    retentionSql,
    overload: { backlogMax: 1_000_000, diskFreeMinBytes: 0, dataFolder: null },
    onFault: (error) => {
      throw error;
    },
    ...parts,
  });
  return {
    keeper,
    async close() {
      await line.close();
      client.disconnect();
      await Promise.all([sql.end({ timeout: 1 }), retentionSql.end({ timeout: 1 })]);
    },
  };
}
