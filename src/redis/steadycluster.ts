/**
 * A client of a cluster that can be let go of at any moment.
 *
 * ioredis 6.0.0 looks for changes of the topology by a timer of its own, and sets it again when an answer
 * arrives after `disconnect`: a command that was done before its client knew the cluster never ended. This
 * timer ends with the connection, and keeps no process alive.
 */
import { Cluster, type ClusterNode, type ClusterOptions } from "ioredis";

type NodeOptions = Omit<NonNullable<ClusterOptions["redisOptions"]>, "replyMapping">;
type SteadyOptions = Omit<ClusterOptions, "redisOptions"> & { redisOptions: NodeOptions };

const TOPOLOGY_EVERY_MS = 5_000;

export function steadyCluster(nodes: ClusterNode[], options: SteadyOptions): Cluster {
  const cluster = new Cluster(nodes, options);
  let timer: NodeJS.Timeout | undefined;
  cluster.on("ready", () => {
    clearInterval(timer);
    timer = setInterval(() => {
      if (cluster.status === "ready") cluster.refreshSlotsCache();
      else clearInterval(timer);
    }, TOPOLOGY_EVERY_MS).unref();
  });
  // BullMQ waits for bags on a copy
  cluster.duplicate = ((otherNodes: ClusterNode[] = [], others: Partial<SteadyOptions> = {}) =>
    steadyCluster(otherNodes.length > 0 ? otherNodes : nodes, {
      ...options,
      ...others,
      redisOptions: { ...options.redisOptions, ...others.redisOptions },
    })) as Cluster["duplicate"];
  return cluster;
}
