/**
 * The stores of the test run. Test files share one database and one Redis and keep apart by workspaces of
 * their own. Whoever empties, stops or delays a store, or works on everything that is due, takes one of its
 * own here.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { inject } from "vitest";
import { type RedisServer, startRedis } from "../../src/embedded/redis.ts";
import { cloneTemplate, dropDatabase } from "./database.ts";
import { ownCluster } from "./rediscluster.ts";

export type Services = {
  /** Everything of this run lives below it. */
  folder: string;
  databaseUrl: string;
  redisUrl: string;
};

export function services(): Services {
  return inject("services");
}

export type OwnDatabase = { url: string; drop(): Promise<void> };

/** A database nobody else uses, migrated and empty. */
export async function ownDatabase(): Promise<OwnDatabase> {
  const url = await cloneTemplate(services().databaseUrl, `own_${randomUUID().replaceAll("-", "")}`);
  return { url, drop: () => dropDatabase(url) };
}

export type OwnRedis = {
  url: string;
  /** For a proxy in front of it. A cluster has none. */
  readonly port: number;
  /** As a power cut would: nothing is saved. */
  kill(): Promise<void>;
  /** After a kill: an empty Redis under the same url and port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

/** A Redis nobody else uses, empty; a cluster of them where the tests run on one. */
export function ownRedis(): Promise<OwnRedis> {
  return inject("onCluster") ? clusterAsRedis() : oneRedis();
}

async function clusterAsRedis(): Promise<OwnRedis> {
  const cluster = await ownCluster(services().folder);
  const { url, nodes } = cluster;
  return {
    url,
    get port(): number {
      throw new Error("nothing stands in front of a cluster: tag this test one-redis, see docs/testing.md");
    },
    async kill() {
      await Promise.all(nodes.map((node) => node.kill()));
    },
    async restart() {
      await Promise.all(nodes.map((node) => node.restart()));
      await cluster.whole();
    },
    stop: () => cluster.stop(),
  };
}

async function oneRedis(): Promise<OwnRedis> {
  const folder = join(services().folder, `redis-${randomUUID().slice(0, 8)}`);
  const start = (port?: number) =>
    startRedis({ folder, durable: false, log: () => {}, ...(port === undefined ? {} : { port }) });
  let server: RedisServer = await start();
  const { url, tcpUrl } = server;
  const port = Number(new URL(tcpUrl).port);
  return {
    url,
    port,
    async kill() {
      process.kill(server.pid, "SIGKILL");
      await server.ended;
    },
    async restart() {
      server = await start(port);
    },
    stop: () => server.stop(),
  };
}
