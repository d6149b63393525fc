/**
 * Every key name in one place. All keys of a workspace carry its handle as hash tag, so that whatever one
 * request touches lies in one slot; the handle is known from the bearer token alone.
 */
export const keyspace = {
  apiKey: (handle: string, hash: string) => `{${handle}}:key:${hash}`,
  workspace: (handle: string) => `{${handle}}:workspace`,
  keyRates: (handle: string, hash: string) => `{${handle}}:rates:${hash}`,
  workspaceRates: (handle: string) => `{${handle}}:rates`,
  use: (handle: string) => `{${handle}}:use`,
  reservation: (handle: string, id: string) => `{${handle}}:reservation:${id}`,
  claim: (handle: string, scope: string, keyHash: string) => `{${handle}}:claim:${scope}:${keyHash}`,
  /** The slot of a shard of the queue: BullMQ's own keys carry the same tag. */
  shardEpoch: (shard: number) => `{bags-${shard}}:epoch`,
  /** What workers do for each recipient domain. */
  figures: () => "{figures}",
  /** Connections and messages under one limit to receivers. */
  room: (name: string) => `{room:${name}}`,
  /** Attempts to sign in, or to have a mail sent, and changes made in the console: by what and by whom. */
  attempts: (what: string) => `attempts:${what}`,
  /** Written to learn whether Redis takes changes; several, for the servers of a cluster. */
  probe: (n: number) => `{probe-${n}}`,
  shardFairness: (shard: number) => `{bags-${shard}}:fairness`,
};
