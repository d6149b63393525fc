/** The worker that takes bags to their receivers. */
import { parseMailbox } from "../../address.ts";
import { addressHasher } from "../../audience/links.ts";
import { atMost, type Clock } from "../../clock.ts";
import type { Config } from "../../config.ts";
import type { Courier } from "../../delivery/courier.ts";
import { Deliverer } from "../../delivery/deliver.ts";
import { directCourier } from "../../delivery/direct.ts";
import { Figures } from "../../delivery/figures.ts";
import { Leases } from "../../delivery/leases.ts";
import type { ReceiverParts } from "../../delivery/receivers.ts";
import { relayCourier } from "../../delivery/relay.ts";
import { ReturnPaths } from "../../delivery/returnpaths.ts";
import { Sealer } from "../../domain/key.ts";
import { Owners } from "../../domain/owners.ts";
import { Signer } from "../../domain/signer.ts";
import { workspaceMarker } from "../../ids.ts";
import { Settler } from "../../outcome/settler.ts";
import { BagQueue } from "../../queue/bagqueue.ts";
import { FinishedBags } from "../../queue/finished.ts";
import { BagWorkers, WAITED_MS_MAX } from "../../queue/worker.ts";
import type { Sql } from "../../record/db/connect.ts";
import type { Looks } from "../../record/db/looks.ts";
import type { DestinationHold } from "../../record/mail/destinations.ts";
import { isWaitedIn } from "../../record/mail/queueshards.ts";
import type { RedisClient } from "../../redis/scripts.ts";
import { ReturnPathKey } from "../../returnpath.ts";
import type { ShapingRules } from "../../shaping/file.ts";
import { Holds } from "../../shaping/holds.ts";
import { Rooms } from "../../shaping/rooms.ts";
import { Shaping } from "../../shaping/shaping.ts";
import { tellHolds } from "../lifelog.ts";
import { GOODBYE_MS, operatorSender, type RoleParts, workerName } from "./parts.ts";
import { asSettings, smarthostOf } from "./smarthost.ts";

const DELIVER_STOP_MS = 2_500;
/** For receivers that have all of a message, and take their time. */
const ANSWERS_STOP_MS = 18_000;
const NOTES_STOP_MS = 800;
/**
 * What was delivered and is not written would be sent again: a slow Postgres gets more time than anything
 * else.
 */
const DELIVERIES_STOP_MS = 25_000;
const DELIVER_JOBS = 24;

export async function startDeliverRole({
  config,
  serverSecret,
  stores,
  homeStores,
  shards,
  looks,
  policy,
  clock,
  log,
  onFault,
}: RoleParts) {
  const sql = stores.sql("delivery");
  const worker = workerName();
  const redis = await homeStores.redis("admission");
  const { shaping, stop: stopShaping } = await openShaping(config, {
    ...{ worker, sql, redis, looks, clock, onFault },
    onHolds: tellHolds(log),
  });
  const courier = openCourier(config, shaping, { sql, clock, onFault });
  const { softBouncesMax: bounces, softBounceDays: days } = config;
  const series = bounces > 0 ? { bounces, days } : null;
  const settler = new Settler(stores.sql("settling"), worker, onFault, series);
  const line = new BagQueue(await stores.redis("queue"));
  const finishedBags = new FinishedBags(line, onFault);
  const figures = new Figures({ redis, worker, clock });
  const deliverer = new Deliverer({
    sql,
    signer: new Signer({ sql, sealer: new Sealer(serverSecret) }),
    // it was judged when it was accepted: only a domain that is somebody else's by now keeps it back
    owners: new Owners({ sql, isRequired: false, onFault }),
    markOf: workspaceMarker(serverSecret),
    hashOf: addressHasher(serverSecret),
    countsSoft: series !== null,
    operatorDomain: parseMailbox(operatorSender(config))?.domain ?? null,
    courier,
    returnPaths:
      config.bounceDomain === null
        ? null
        : new ReturnPaths({ sql, key: new ReturnPathKey(serverSecret), domain: config.bounceDomain }),
    figures,
    settler,
    leases: new Leases(stores.sql("leases"), () => Date.now(), onFault),
    clock,
    retrySchedule: config.retrySchedule,
    lifetimeMs: config.emailLifetimeHours * 3_600_000,
    emailsInFlightMax: config.deliveryConcurrency,
    hasFeedback: (domain) => policy.hasFeedback(domain),
    onFault,
  });
  const workers = new BagWorkers({
    connect: () => stores.openRedis("worker"),
    concurrency: DELIVER_JOBS,
    handle: async (bag) => {
      try {
        await deliverer.deliver(bag);
      } finally {
        finishedBags.note(bag);
      }
    },
    isNeglected: async (shard) =>
      (await isWaitedIn(sql, shard, new Date(clock.now() - WAITED_MS_MAX))) &&
      // without an answer it may be the worker's own connection that hangs
      line.hasUntaken(shard).catch(() => true),
    onReplaced: (shard) =>
      log.warn({ shard }, "a worker took no bags although its shard has some: it is replaced"),
    onFault,
  });
  const unfollow = shards.follow((served) => workers.serve(served));
  return {
    async stop() {
      unfollow();
      const stopped = workers.stop(DELIVER_STOP_MS);
      await deliverer.close({
        courierMs: DELIVER_STOP_MS,
        answersMs: ANSWERS_STOP_MS,
        notesMs: NOTES_STOP_MS,
        deliveriesMs: DELIVERIES_STOP_MS,
      });
      await stopped;
      stopShaping();
      figures.stop();
      await atMost(
        GOODBYE_MS,
        finishedBags.flush().then(() => line.close()),
      );
    },
  };
}

function openCourier(config: Config, shaping: Shaping, parts: ReceiverParts): Courier {
  const smarthost = smarthostOf(config);
  return asSettings(() =>
    smarthost === null
      ? directCourier(config, shaping, parts)
      : relayCourier(smarthost, config, shaping, parts.onFault),
  );
}

/** A file that cannot be used never keeps mail from being delivered. */
async function openShaping(
  { shapingFile, directSourceAddress }: Config,
  parts: {
    worker: string;
    sql: Sql;
    redis: RedisClient;
    looks: Looks;
    clock: Clock;
    onHolds(holds: readonly DestinationHold[]): void;
    onFault(error: unknown): void;
  },
) {
  const { worker, sql, redis, looks, clock, onFault } = parts;
  const holds = new Holds({ sql, clock, onFault, onChange: parts.onHolds });
  const rooms = new Rooms({ redis, worker, now: () => performance.now(), onFault });
  const ownSource = { name: "", address: directSourceAddress, helo: null, since: null };
  const shaping = new Shaping({ holds, rooms, clock, ownSource });
  const onRules = (rules: ShapingRules) => shaping.follow(rules);
  const openFile = async (path: string) => {
    // it comes with a schema compiler, which takes 0.4 s of CPU to load
    const { RulesFile } = await import("../../shaping/rulesfile.ts");
    return new RulesFile({ path, sql, clock, onRules, onFault });
  };
  const file = shapingFile === null ? null : await openFile(shapingFile);
  await Promise.all([holds.look(), file?.open()]);
  holds.keepLooking(looks);
  return {
    shaping,
    stop() {
      file?.stop();
      holds.stop();
      rooms.close();
    },
  };
}
