/**
 * Connections to Redis: one server, a unix socket, or a cluster, by the url alone.
 *
 * The admission client never resends by itself: a script whose reply was lost may have run, and whoever sent it
 * decides what that means. It has no offline queue, so that a Redis that is away is answered at once, and every
 * command has a deadline.
 */
import { Cluster, Redis } from "ioredis";
import type { RedisClient } from "./scripts.ts";

/** A `command` of the command line ends soon when Redis is away; workers wait for it. */
export type Purpose = "admission" | "queue" | "worker" | "command";

const COMMAND_RETRIES_MAX = 2;

export function connectRedis(url: string, purpose: Purpose, timeoutMs: number): RedisClient {
  const common = {
    protocol: 2 as const,
    connectTimeout: timeoutMs,
    keepAlive: 30_000,
    retryStrategy: (attempt: number) => Math.min(50 * 2 ** Math.min(attempt, 5), 1_000),
  };
  const options =
    purpose === "worker" || purpose === "command"
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
        };
  const nodes = clusterNodes(url);
  if (nodes) {
    return new Cluster(nodes, {
      redisOptions: { ...options, ...credentialsOf(url) },
      enableOfflineQueue: options.enableOfflineQueue,
      slotsRefreshTimeout: timeoutMs,
      // a failover takes longer than the default 16 redirections allow
      maxRedirections: 64,
      retryDelayOnFailover: 200,
      retryDelayOnClusterDown: 200,
    });
  }
  const socket = socketOf(url);
  return socket ? new Redis({ ...options, ...socket }) : new Redis(url, options);
}

/** `redis-cluster://a:7401,b:7402`, or several urls with commas between. */
function clusterNodes(url: string): { host: string; port: number }[] | null {
  const isCluster = url.startsWith("redis-cluster://");
  if (!isCluster && !url.includes(",")) return null;
  return url
    .replace(/^redis-cluster:\/\//, "")
    .split(",")
    .map((node) => {
      const { hostname, port } = new URL(node.includes("://") ? node : `redis://${node}`);
      return { host: hostname, port: Number(port || 6379) };
    });
}

/** Of the first node that names any: the nodes of a cluster have the same users. */
function credentialsOf(url: string): { username?: string; password?: string } {
  const [, user = "", password] = /\/\/([^:@/,]*):([^@/,]*)@/.exec(url) ?? [];
  if (password === undefined) return {};
  return { password: decodeURIComponent(password), ...(user && { username: decodeURIComponent(user) }) };
}

/** `unix:///folder/redis.sock?password=P`, since a url without a host has no place for a password before it. */
function socketOf(url: string): { path: string; username?: string; password?: string } | null {
  if (!/^(?:redis\+)?unix:/.test(url)) return null;
  const { pathname, searchParams } = new URL(url);
  const [username, password] = [searchParams.get("username"), searchParams.get("password")];
  return {
    path: decodeURIComponent(pathname),
    ...(username !== null && { username }),
    ...(password !== null && { password }),
  };
}
