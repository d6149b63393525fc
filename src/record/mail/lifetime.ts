/**
 * For how long an e-mail has been tried, which is what its lifetime is about. The time goes on from its first
 * attempt. It stops when the e-mail has to wait for anything but its next attempt (a cap, the smarthost, a
 * suspension, a place in line that took minutes), and goes on with the next answer of a receiver: however
 * long the wait was, nothing of it counts.
 *
 * `email.lives_from` keeps it. An e-mail that never waited has none, and is never written for it.
 *
 *   null               it goes on since the first attempt
 *   a time before 2000 it is stopped: what has passed, counted from the beginning of 1970
 *   another time       it goes on, as if the first attempt had been then
 *
 * The time of a workspace begins anew when it is resumed after a suspension.
 */
import type { Sql, Statement, Tx } from "../db/connect.ts";
import type { EmailKey } from "./emails.ts";

/**
 * How it goes on after an attempt: it stops after so long, or goes on as if the first attempt had been then;
 * in ms.
 */
export type LifetimeChange = { stoppedAtMs: number } | { since: number };

type ChangedLifetime = EmailKey & { change: LifetimeChange };

/** What is read of it with the e-mail `e`. */
export function lifetimeColumns(sql: Sql | Tx, workspaceId: string) {
  return sql`
    case when ${isStopped(sql)} then round(date_part('epoch', e.lives_from) * 1000) end as "triedMs",
    case when e.sent_at is not null and not ${isStopped(sql)}
      then round(date_part('epoch', ${goesOnSince(sql, sql`${workspaceId}::uuid`)}) * 1000) end as "triedSince"`;
}

/**
 * Of e-mails that are locked, and have been waiting since `at`; of one that never was tried there is nothing
 * to stop.
 */
export function stopLifetimes(tx: Tx, keys: readonly EmailKey[], at: Date): Statement {
  const ids = keys.map(({ emailId }) => emailId);
  return tx`
    update email e set lives_from = to_timestamp(greatest(0,
      date_part('epoch', ${at}::timestamptz - ${goesOnSince(tx, tx`e.workspace_id`)})))
    from unnest(${keys.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]) as k(workspace_id, id)
    where e.workspace_id = k.workspace_id and e.id = k.id and e.id = any(${ids}::uuid[])
      and e.sent_at is not null and not ${isStopped(tx)}`;
}

/** Of e-mails whose attempts this transaction has written. */
export function changeLifetimes(tx: Tx, changed: readonly ChangedLifetime[]): Statement {
  const ids = changed.map(({ emailId }) => emailId);
  return tx`
    update email e set lives_from = to_timestamp(c.ms / 1000)
    from unnest(${changed.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[],
                ${changed.map(({ change }) => msOf(change))}::float8[]) as c(workspace_id, id, ms)
    where e.workspace_id = c.workspace_id and e.id = c.id and e.id = any(${ids}::uuid[])`;
}

/** `lives_from` of an e-mail of which nothing has passed, and nothing does before the next answer. */
export function stoppedAtOnce(tx: Tx) {
  return tx`'epoch'::timestamptz`;
}

function msOf(change: LifetimeChange): number {
  return "since" in change ? change.since : change.stoppedAtMs;
}

/** Whether it is stopped, of the e-mail `e`. */
export function isStopped(tx: Sql | Tx) {
  return tx`(e.lives_from is not null and e.lives_from < '2000-01-01Z'::timestamptz)`;
}

function goesOnSince(tx: Sql | Tx, workspaceId: Statement) {
  return tx`greatest(e.sent_at, e.lives_from, (select w.resumed_at from workspace w where w.id = ${workspaceId}))`;
}
