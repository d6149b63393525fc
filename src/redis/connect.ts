/**
 * Connections to Redis: one server, a unix socket, a cluster, or a master that Sentinel names, by the url
 * alone.
 *
 * The admission client never resends by itself: a script whose reply was lost may have run, and whoever sent
 * it decides what that means. It has no offline queue, so that a Redis that is away is answered at once, and
 * every command has a deadline. A connection without any answer is given up: after a failover its other side
 * may be gone.
 */
import { once } from "node:events";
import { Cluster, type ClusterOptions, Redis } from "ioredis";
import { readRedisUrl } from "../rules/redisurl.ts";
import { isAnotherServer } from "./anotherserver.ts";
import { judgeAfterReading } from "./patience.ts";
import type { RedisClient } from "./scripts.ts";
import { SteadySentinelConnector } from "./sentinelconnector.ts";
import { steadyCluster } from "./steadycluster.ts";

/** A `command` of the command line ends soon when Redis is away; workers wait for it. */
export type Purpose = "admission" | "queue" | "worker" | "command";

const COMMAND_RETRIES_MAX = 2;
/** Of the deadline of a command. */
const SILENT_TIMEOUTS_MAX = 2;

judgeAfterReading();

export function connectRedis(url: string, purpose: Purpose, timeoutMs: number): RedisClient {
  const client = open(url, purpose, timeoutMs);
  // the client would go on in database 0, which somebody else may use
  client.on("error", (error: unknown) => {
    if (isAnotherServer(error)) client.disconnect();
  });
  return client;
}

function open(url: string, purpose: Purpose, timeoutMs: number): RedisClient {
  const place = readRedisUrl(url);
  if (place === null) throw new Error("the URL of Redis cannot be read");
  const options = optionsOf(purpose, timeoutMs);
  switch (place.kind) {
    case "server":
      return new Redis(url, options);
    case "socket":
      return new Redis({ ...options, ...place.login, path: place.path });
    case "cluster": {
      const { nodes, isTls, login } = place;
      return steadyCluster(nodes, {
        ...clusterOptionsOf(purpose, timeoutMs),
        redisOptions: { ...options, ...login, ...(isTls && { tls: {} }) },
        // certificates are for names: those are not to become addresses
        ...(isTls && { dnsLookup: (host, found) => found(null, host) }),
      });
    }
    case "sentinel": {
      const { sentinels, isTls, master, db, login, sentinelLogin } = place;
      return new Redis({
        ...options,
        ...login,
        sentinels,
        name: master,
        db,
        ...(sentinelLogin.username && { sentinelUsername: sentinelLogin.username }),
        ...(sentinelLogin.password && { sentinelPassword: sentinelLogin.password }),
        sentinelCommandTimeout: timeoutMs,
        failoverDetector: true,
        Connector: SteadySentinelConnector,
        ...(isTls && { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true }),
      });
    }
  }
}

/** The servers that take changes: the masters of a cluster, or the one server. */
export async function mastersOf(client: RedisClient): Promise<Redis[]> {
  if (!(client instanceof Cluster)) return [client];
  await connected(client); // before that nobody knows them
  return client.nodes("master");
}

/**
 * Resolves when the client takes commands; fails with its next attempt to connect, or if it makes no more.
 */
export async function connected(client: RedisClient): Promise<void> {
  if (client.status === "end") throw new Error("Connection is closed.");
  if (client.status !== "ready") await once(client, "ready");
}

function optionsOf(purpose: Purpose, timeoutMs: number) {
  const common = {
    protocol: 2 as const,
    connectTimeout: timeoutMs,
    keepAlive: 30_000,
    retryStrategy: (attempt: number) => Math.min(50 * 2 ** Math.min(attempt, 5), 1_000),
    // what was a master is none any more: another connection finds the one that is; nothing is sent again
    reconnectOnError: (error: Error) => error.message.includes("READONLY"),
  };
  return purpose === "worker" || purpose === "command"
    ? {
        ...common,
        enableOfflineQueue: true,
        maxRetriesPerRequest: purpose === "worker" ? null : COMMAND_RETRIES_MAX,
      }
    : {
        ...common,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        maxRetriesPerRequest: 0,
        commandTimeout: timeoutMs,
        socketTimeout: SILENT_TIMEOUTS_MAX * timeoutMs,
      };
}

function clusterOptionsOf(purpose: Purpose, timeoutMs: number): ClusterOptions {
  const common: ClusterOptions = { slotsRefreshTimeout: timeoutMs };
  return purpose === "worker" || purpose === "command"
    ? {
        ...common,
        enableOfflineQueue: true,
        // a failover takes longer than the default 16 redirections allow
        maxRedirections: 64,
        retryDelayOnFailover: 200,
        retryDelayOnClusterDown: 200,
      }
    : {
        ...common,
        enableOfflineQueue: false,
        // a command whose connection was lost may have run; one that nobody serves now is answered now
        retryDelayOnFailover: 0,
        retryDelayOnClusterDown: 0,
      };
}
