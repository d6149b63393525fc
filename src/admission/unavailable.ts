/** The errors for a caller when a store cannot be used or the engine is overloaded. */
import { hindranceOf } from "../record/db/lost.ts";
import { writeRefusal } from "../redis/writerefusal.ts";

export const LACKING = {
  redis: "Redis does not answer.",
  redis_writes: "Redis accepts no writes.",
  postgres: "Postgres does not answer.",
  postgres_writes: "Postgres accepts no writes.",
  postgres_rights: "The database user lacks a right.",
  partition: "The database has no partition for today.",
  stores: "Redis or Postgres does not answer in time.",
  backlog: "The sending backlog is full.",
  disk: "The disk of the database is nearly full.",
  memory: "Redis does not keep what is written to it: its memory may be full.",
  capacity: "Too many requests are being processed.",
  workspace: "The workspace is being changed.",
} as const;
export type Lacking = keyof typeof LACKING;

/** Nothing was accepted, and the caller may try again; the reason is for the log. */
export class Unavailable extends Error {
  readonly lacking: Lacking;

  constructor(lacking: Lacking, reason: string, cause?: unknown) {
    super(reason, { cause });
    this.lacking = OF_STORES.has(lacking) ? (toldBy(cause) ?? lacking) : lacking;
  }
}

const OF_STORES: ReadonlySet<Lacking> = new Set(["redis", "postgres", "stores"]);

/** What a store that answers lacks, in its own words; null: it has said nothing of the kind. */
export function toldBy(error: unknown): Lacking | null {
  const refusal = writeRefusal(error);
  if (refusal !== null) return refusal === "OOM" ? "memory" : "redis_writes";
  return hindranceOf(error);
}

/** How long a request waits for Postgres to load its key, its workspace or an earlier answer. */
export const RECORD_MS_MAX = 3_000;

/** Why nothing was written: the caller may try again, unless what it sent can never be stored. */
export function rolledBack({ error, isBroken }: { error: unknown; isBroken: boolean }): unknown {
  return isBroken ? error : new Unavailable("postgres", "the commit was rolled back", error);
}
