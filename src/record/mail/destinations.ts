/**
 * Destinations that get no mail for now, or less: set by operators and by rules of the shaping file, read by
 * every worker within seconds. Mail that waits for one names it in its due row, and is due again when it is
 * over.
 */
import { fencedNow } from "../cells/moving.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { float, oneOf, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import { makeDue } from "./due.ts";
import { emailKeyRow, lockEmails } from "./emails.ts";
import { isStopped } from "./lifetime.ts";

export const destinationHoldRow = {
  /** A recipient domain, a provider of the shaping file, or `smarthost`. */
  destination: text,
  /** The source address it is about; empty: all. */
  source: text,
  kind: oneOf("suspended", "slowed"),
  /** Of a slowed one: what its limits are multiplied by. */
  factor: float,
  /** null: until an operator resumes it. */
  until: orNull(timestamp),
  reason: text,
  setBy: oneOf("operator", "rule"),
  changedAt: timestamp,
};
export type DestinationHold = RowOf<typeof destinationHoldRow>;

/** Rules add no more to these: a table of that size is as good as stopping. */
export const HOLDS_MAX = 10_000;
const FACTOR_MIN = 0.01;
/**
 * A receiver that goes on complaining is slowed down once more, but not for each of the mails that were under
 * way.
 */
const AGAIN_SECONDS = 60;

export async function readHoldsMark(sql: Sql): Promise<string> {
  const [row] = await typed(sql, { mark: text })`select ${holdsMark(sql)} as mark`;
  return row?.mark ?? "";
}

/** What has changed since is seen by another mark, also where the clock of who changed it is behind. */
export function holdsMark(sql: Sql) {
  return sql`(
    (select count(*) || ' ' || coalesce(sum(extract(epoch from changed_at)), 0)
      from destination_hold) || ' ' ||
    (select count(*) || ' ' || coalesce(sum(extract(epoch from changed_at)), 0) from sender_limit))`;
}

export async function listHolds(sql: Sql): Promise<DestinationHold[]> {
  return typed(sql, destinationHoldRow)`
    select destination, source, kind, factor, until, reason, set_by as "setBy", changed_at as "changedAt"
    from destination_hold order by destination, source, kind`;
}

export async function suspendDestination(
  sql: Sql,
  { destination, until, reason }: Pick<DestinationHold, "destination" | "until" | "reason">,
  now: Date,
): Promise<void> {
  await sql`
    insert into destination_hold as held (destination, source, kind, until, reason, set_by, created_at,
      changed_at)
    values (${destination}, '', 'suspended', ${until}, ${reason}, 'operator', ${now}, ${now})
    on conflict (destination, source, kind) do update set
      until = excluded.until, reason = excluded.reason, set_by = 'operator',
      changed_at = excluded.changed_at`;
}

/** Of a rule: it never shortens what is there. */
export async function holdByRule(
  sql: Sql,
  { destination, source, kind, factor, until, reason }: Omit<DestinationHold, "setBy" | "changedAt">,
  now: Date,
): Promise<void> {
  await sql`
    insert into destination_hold as held (destination, source, kind, factor, until, reason, set_by,
      created_at, changed_at)
    select ${destination}, ${source}, ${kind}, ${factor}, ${until}, ${reason}, 'rule', ${now}, ${now}
    where (select count(*) from destination_hold) < ${HOLDS_MAX}
    on conflict (destination, source, kind) do update set
      until = excluded.until, reason = excluded.reason, set_by = 'rule', changed_at = excluded.changed_at,
      factor = case
        when excluded.changed_at < held.changed_at + make_interval(secs => ${AGAIN_SECONDS}) then held.factor
                    else greatest(${FACTOR_MIN}, held.factor * excluded.factor) end
    where held.until < excluded.until`;
}

/** Whatever holds the destination, by whomever it was set. Returns how many rows there were. */
export async function resumeDestination(sql: Sql, destination: string): Promise<number> {
  const ended = await sql`
    with held as materialized (
      select destination, source, kind from destination_hold where destination = ${destination}
      order by destination, source, kind for update
    )
    delete from destination_hold d using held
    where d.destination = held.destination and d.source = held.source and d.kind = held.kind`;
  return ended.count;
}

/** Deletes what is over. */
export async function dropEndedHolds(tx: Tx, now: Date, most: number): Promise<number> {
  const ended = await tx`
    with ended as materialized (
      select destination, source, kind from destination_hold where until <= ${now}
      order by destination, source, kind limit ${most} for update
    )
    delete from destination_hold d using ended
    where d.destination = ended.destination and d.source = ended.source and d.kind = ended.kind`;
  return ended.count;
}

/** Whether a suspension has ended, or mail waits for one that may have. */
export function hasHeld(sql: Sql, now: Statement) {
  return sql`(exists (select from due where held_by is not null)
    or exists (select from destination_hold where until <= ${now}))`;
}

/**
 * Mail that waits for a destination that is not suspended any more is due. Its lifetime stopped when it began
 * to wait; that of mail which an older version made wait begins anew. A walk over the index goes from one
 * destination to the next, however much waits for each.
 */
export async function letGoOfHeld(tx: Tx, now: Date, most: number): Promise<number> {
  const fenced = await fencedNow(tx);
  const found = await typed(tx, emailKeyRow)`
    with recursive hop as (
      (select held_by from due where held_by is not null order by held_by limit 1)
      union all
      select (select d.held_by from due d where d.held_by > hop.held_by order by d.held_by limit 1)
      from hop where hop.held_by is not null
    ), over as (
      select held_by from hop where held_by is not null
        and not exists (select from destination_hold s where s.destination = hop.held_by
          and s.kind = 'suspended')
    )
    select d.workspace_id as "workspaceId", d.email_id as "emailId" from due d
    where d.held_by in (select held_by from over) and d.workspace_id <> all(${fenced}::uuid[]) limit ${most}`;
  if (found.length === 0) return 0;
  const locked = await lockEmails(tx, found, "skip");
  const ids = locked.map(({ emailId }) => emailId);
  await tx`
    update email e set lives_from = ${now}
    from unnest(${locked.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]) as l(workspace_id,
      id)
    where e.workspace_id = l.workspace_id and e.id = l.id and e.id = any(${ids}::uuid[])
      and e.sent_at is not null and not ${isStopped(tx)}`;
  return makeDue(tx, locked, now);
}

const keptShapingRow = {
  text,
  readAt: timestamp,
};
export type KeptShaping = RowOf<typeof keptShapingRow>;

export async function loadShaping(sql: Sql): Promise<KeptShaping | null> {
  const [row] = await typed(sql, keptShapingRow)`select text, read_at as "readAt" from shaping_file`;
  return row ?? null;
}

export async function keepShaping(sql: Sql, text: string, now: Date): Promise<void> {
  await sql`
    insert into shaping_file as kept (text, read_at) values (${text}, ${now})
    on conflict (is_only) do update set text = excluded.text, read_at = excluded.read_at
    where kept.text <> excluded.text`;
}
