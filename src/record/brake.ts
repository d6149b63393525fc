/**
 * The brake: why sends are refused for now, in good times nothing. The keeper sets and lifts it, every api process
 * reads it; it lies in Postgres so that it outlasts all of them.
 */
import { statfs } from "node:fs/promises";
import { BAG_EMAILS_MAX } from "./bags.ts";
import type { Sql, Tx } from "./connect.ts";

const READ_EVERY_MS = 1_000;

export class Brake {
  reason: string | null = null;
  readonly #timer: NodeJS.Timeout;

  constructor(sql: Sql, onFault: (error: unknown) => void) {
    const read = async () => {
      const [row] = await sql<{ reason: string }[]>`select reason from brake order by since limit 1`;
      this.reason = row?.reason ?? null;
    };
    read().catch(onFault);
    this.#timer = setInterval(() => read().catch(onFault), READ_EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

export type BrakeLimits = {
  backlogMax: number;
  diskFreeMinBytes: number;
  /** Where Postgres keeps its data, when that is this machine. */
  dataFolder: string | null;
};

/** Looks at backlog and disk; sets or lifts the brake. */
export async function watchBrake(tx: Tx, limits: BrakeLimits, now: Date): Promise<void> {
  // statistics, not a count: the price of a look must not grow with the backlog
  const [size] = await tx<{ bags: number; due: number }[]>`
    select coalesce(sum(n_live_tup) filter (where relname = 'bag'), 0)::float8 as bags,
           coalesce(sum(n_live_tup) filter (where relname = 'due'), 0)::float8 as due
    from pg_stat_user_tables where relname in ('bag', 'due')`;
  const backlog = (size?.bags ?? 0) * BAG_EMAILS_MAX + (size?.due ?? 0);
  await set(
    tx,
    "backlog",
    backlog > limits.backlogMax ? `about ${Math.round(backlog)} e-mails are unsettled` : null,
    now,
  );
  if (limits.dataFolder === null) return;
  const { bavail, bsize } = await statfs(limits.dataFolder);
  const free = bavail * bsize;
  await set(
    tx,
    "disk",
    free < limits.diskFreeMinBytes ? `only ${Math.round(free / 1048576)} MB of disk are free` : null,
    now,
  );
}

async function set(tx: Tx, name: string, reason: string | null, now: Date): Promise<void> {
  if (reason === null) await tx`delete from brake where name = ${name}`;
  else
    await tx`insert into brake (name, reason, since) values (${name}, ${reason}, ${now})
      on conflict (name) do update set reason = excluded.reason`;
}
