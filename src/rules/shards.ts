/** Which shard of the queue carries a workspace. One shard serves one Redis; a cluster spreads several. */
export const SHARDS = 1;

export function shardOf(workspaceId: string): number {
  return Number.parseInt(workspaceId.slice(-4), 16) % SHARDS;
}
