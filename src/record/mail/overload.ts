/**
 * Overload: why sends are refused for now, if they are. The keeper sets and lifts it, and every
 * process that takes mail looks for it. It is in Postgres so that it survives all of them.
 */
import { statfs } from "node:fs/promises";
import type { Sql, Tx } from "../db/connect.ts";
import type { Looks } from "../db/looks.ts";
import { float, integer, orNull, typed } from "../db/rowshape.ts";
import { BAG_EMAILS_MAX } from "./bags.ts";

const LOOK_EVERY_MS = 1_000;
const SAMPLE_BAGS = 1_000;
/** A refusal for the disk expires, since its keeper may be gone; a running keeper renews it long before. */
const DISK_UNWATCHED_MS = 60_000;

/** Why sends are refused for now. */
export type Shortage = { name: "backlog" | "disk"; reason: string };

export class OverloadState {
  shortage: Shortage | null = null;

  constructor(looks: Looks, onChange: (shortage: Shortage | null) => void) {
    looks.ask(LOOK_EVERY_MS, firstShortage, (shortage: Shortage | null) => {
      const hasChanged = shortage?.name !== this.shortage?.name;
      this.shortage = shortage;
      if (hasChanged) onChange(shortage);
    });
  }
}

function firstShortage(sql: Sql) {
  return sql`(select jsonb_build_object('name', name, 'reason', reason) from brake order by since limit 1)`;
}

export type OverloadLimits = {
  backlogMax: number;
  diskFreeMinBytes: number;
  /** Where Postgres keeps its data, when that is this machine. */
  dataFolder: string | null;
};

/** Free bytes on the disk of Postgres; null when that is not on this machine. */
export async function freeBytesOf({ dataFolder }: OverloadLimits): Promise<number | null> {
  if (dataFolder === null) return null;
  const { bavail, bsize } = await statfs(dataFolder);
  return bavail * bsize;
}

/** Whether there may be something to set or to lift: the backlog is counted as if every bag were full. */
export function mayBeOverloaded(sql: Sql, { backlogMax }: OverloadLimits) {
  return sql`(exists (select from brake) or ${backlogMax} < (
    select coalesce(sum(n_live_tup * case relname when 'bag' then ${BAG_EMAILS_MAX} else 1 end), 0)
    from pg_stat_user_tables where relname in ('bag', 'due')))`;
}

/** Looks at backlog and disk; begins or ends the refusals. */
export async function watchOverload(
  tx: Tx,
  limits: OverloadLimits,
  free: number | null,
  now: Date,
): Promise<void> {
  // statistics, not a count: the price of a look must not grow with the backlog
  const [size] = await typed(tx, { bags: integer, due: integer })`
    select coalesce(sum(n_live_tup) filter (where relname = 'bag'), 0)::float8 as bags,
           coalesce(sum(n_live_tup) filter (where relname = 'due'), 0)::float8 as due
    from pg_stat_user_tables where relname in ('bag', 'due')`;
  const bags = size?.bags ?? 0;
  const backlog = bags * (await emailsPerBag(tx, bags)) + (size?.due ?? 0);
  await set(
    tx,
    "backlog",
    backlog > limits.backlogMax ? `about ${Math.round(backlog)} e-mails are unsettled` : null,
    now,
  );
  if (free === null) {
    const unwatched = new Date(now.getTime() - DISK_UNWATCHED_MS);
    await tx`delete from brake where name = 'disk' and since < ${unwatched}`;
    return;
  }
  await set(
    tx,
    "disk",
    free < limits.diskFreeMinBytes ? `only ${Math.round(free / 1048576)} MB of disk are free` : null,
    now,
  );
}

/** From a sample of pages: bags of single sends hold one e-mail, bags of batches a hundred. */
async function emailsPerBag(tx: Tx, bags: number): Promise<number> {
  const percent = Math.min(100, (100 * SAMPLE_BAGS) / Math.max(1, bags));
  const [row] = await typed(tx, { mean: orNull(float) })`
    select avg(cardinality(email_ids))::float8 as mean from bag tablesample system (${percent})`;
  return row?.mean ?? 1;
}

/** `since` is the last renewal, which shows whether its keeper is gone. */
async function set(tx: Tx, name: Shortage["name"], reason: string | null, now: Date): Promise<void> {
  if (reason === null) await tx`delete from brake where name = ${name}`;
  else
    await tx`insert into brake (name, reason, since) values (${name}, ${reason}, ${now})
      on conflict (name) do update set reason = excluded.reason, since = excluded.since`;
}
