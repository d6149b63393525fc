/**
 * Which shard of the queue carries a workspace. All its bags go to one shard, since order and fairness are
 * kept within a shard. The queue may get more or fewer shards at any time.
 */
export const SHARDS_MAX = 64;

export function shardOf(workspaceId: string, shards: number): number {
  return Number.parseInt(workspaceId.slice(-4), 16) % shards;
}
