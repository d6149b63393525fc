/**
 * Suspended workspaces: none of their mail leaves, and none is lost. Their keys are refused at admission. The
 * keeper and the automation workers set aside what comes due; bags are not claimed; mail that waits for a cap
 * stays.
 *
 * Suspending and resuming lock the ledger, as every commit of mail does. When they return, requests admitted
 * before are either written or will be checked against the new version.
 */
import type { Sql, Tx } from "../db/connect.ts";
import { integer, orNull, pick, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const suspendedRow = {
  handle: text,
  version: integer,
  suspendedAt: orNull(timestamp),
};
export type Suspended = RowOf<typeof suspendedRow>;

/** Suspending again keeps the time and replaces the reason. */
export async function suspendWorkspace(
  sql: Sql,
  id: string,
  reason: string | null,
  now: Date,
): Promise<Suspended | null> {
  return sql.begin(async (tx) => {
    await lockLedger(tx, id);
    const [row] = await typed(tx, suspendedRow)`
      update workspace set suspended_at = coalesce(suspended_at, ${now}), suspended_for = ${reason},
        version = version + 1, changed_at = ${now}
      where id = ${id} returning handle, version::int, suspended_at as "suspendedAt"`;
    return row ?? null;
  });
}

/**
 * What waits for a cap is looked at with the keeper's next tick, and so is what was held. Endpoints of
 * webhooks were sent nothing meanwhile: that time is none in which they failed.
 */
export async function resumeWorkspace(
  sql: Sql,
  id: string,
  reason: string | null,
  now: Date,
): Promise<Suspended | null> {
  return sql.begin(async (tx) => {
    await lockLedger(tx, id);
    await tx`update ledger set next_release_at = ${now} where workspace_id = ${id} and waiting + waiting_bulk > 0`;
    const [held] = await typed(tx, pick(suspendedRow, "suspendedAt"))`
      select suspended_at as "suspendedAt" from workspace where id = ${id} for no key update`;
    if (held?.suspendedAt) await leaveOutOfFailing(tx, id, held.suspendedAt, now);
    const [row] = await typed(tx, suspendedRow)`
      update workspace set resumed_at = case when suspended_at is null then resumed_at else ${now} end,
        resumed_for = case when suspended_at is null then resumed_for else ${reason} end,
        suspended_at = null, suspended_for = null, version = version + 1, changed_at = ${now}
      where id = ${id} returning handle, version::int, suspended_at as "suspendedAt"`;
    return row ?? null;
  });
}

function leaveOutOfFailing(tx: Tx, workspaceId: string, from: Date, to: Date) {
  return tx`
    with failing as materialized (
      select workspace_id, id from webhook where workspace_id = ${workspaceId} and failing_since is not null
      order by workspace_id, id for update
    )
    update webhook w set failing_since = w.failing_since
      + greatest(interval '0', ${to}::timestamptz - greatest(w.failing_since, ${from}::timestamptz))
    from failing f where w.workspace_id = f.workspace_id and w.id = f.id`;
}

async function lockLedger(tx: Tx, workspaceId: string): Promise<void> {
  await tx`select from ledger where workspace_id = ${workspaceId} for update`;
}

/** Which of these workspaces are suspended. */
export async function suspendedOf(sql: Sql | Tx, workspaceIds: readonly string[]): Promise<Set<string>> {
  const rows = await typed(sql, { id: text })`
    select id from workspace where id = any(${[...new Set(workspaceIds)]}::uuid[])
      and suspended_at is not null`;
  return new Set(rows.map(({ id }) => id));
}

const heldMailRow = {
  scheduled: integer,
  waiting: integer,
  deferred: integer,
  /** In bags that nobody has claimed. */
  inLine: integer,
  /** In the hands of workers. */
  onItsWay: integer,
};
export type HeldMail = RowOf<typeof heldMailRow>;

/** What has not left of a workspace; of a long backlog the first `most` only. */
export async function mailNotGone(sql: Sql, workspaceId: string, most: number): Promise<HeldMail> {
  const [due, bags] = await Promise.all([
    typed(sql, pick(heldMailRow, "scheduled", "waiting", "deferred"))`
      select count(*) filter (where why = 'scheduled')::int as scheduled,
             count(*) filter (where why in ('cap_hour', 'cap_day', 'quota_month'))::int as waiting,
             count(*) filter (where why = 'deferred')::int as deferred
      from (select why from due where workspace_id = ${workspaceId} limit ${most}) as first`,
    typed(sql, pick(heldMailRow, "inLine", "onItsWay"))`
      select coalesce(sum(cardinality(email_ids)) filter (where token is null), 0)::int as "inLine",
             coalesce(sum(cardinality(email_ids)) filter (where token is not null), 0)::int as "onItsWay"
      from bag where workspace_id = ${workspaceId}`,
  ]);
  const none = { scheduled: 0, waiting: 0, deferred: 0, inLine: 0, onItsWay: 0 };
  return { ...none, ...due[0], ...bags[0] };
}

/**
 * What was held of workspaces that are suspended no longer is due again; says how many rows, of e-mails and
 * of runs.
 */
export async function letGoOn(tx: Tx, most: number): Promise<number> {
  const runs = await tx`
    with resumed as (${resumedIn(tx, "run")}), held as materialized (
      select r.workspace_id, r.id from run r
      where r.is_held and r.workspace_id in (select workspace_id from resumed)
      limit ${most} for update of r skip locked
    )
    update run r set is_held = false from held where r.workspace_id = held.workspace_id and r.id = held.id`;
  const due = await tx`
    with resumed as (${resumedIn(tx, "due")}), held as materialized (
      select d.workspace_id, d.email_id from due d
      where d.is_held and d.workspace_id in (select workspace_id from resumed)
      limit ${most} for update of d skip locked
    )
    update due d set is_held = false from held where d.workspace_id = held.workspace_id
      and d.email_id = held.email_id`;
  return Math.max(runs.count, due.count);
}

/** Of the workspaces with rows that are held: a walk over the index that skips from one to the next. */
export function resumedIn(tx: Tx, table: "due" | "run") {
  const rows = () => tx(table);
  return tx`
    with recursive hop as (
      (select workspace_id from ${rows()} where is_held order by workspace_id limit 1)
      union all
      select (select t.workspace_id from ${rows()} t where t.is_held and t.workspace_id > hop.workspace_id
              order by t.workspace_id limit 1)
      from hop where hop.workspace_id is not null
    )
    select hop.workspace_id from hop join workspace w on w.id = hop.workspace_id
      where w.suspended_at is null`;
}
