/** Open mail as an operator sees it, and retrying or canceling what is deferred. */
import type { Sql } from "../db/connect.ts";
import { deleteDue, makeDue } from "./due.ts";
import { type EmailKey, lockEmails } from "./emails.ts";
import { endingSql, withoutOpen } from "./status.ts";

export type QueueView = {
  bags: { in_line: number; held_back: number; leased: number; oldest: Date | null };
  emails: { in_bags: number; in_flight: number; scheduled: number; waiting: number; deferred: number };
  /**
   * What deferred mail was answered, whatever its destination: where the smarthost refuses us, all of it is the same.
   */
  replies: { reply: string; count: number }[];
  destinations: { domain: string | null; count: number; next_attempt_at: Date; last_reply: string | null }[];
};

const DESTINATIONS_MAX = 20;
const REPLIES_MAX = 10;

export async function viewQueue(sql: Sql): Promise<QueueView> {
  const [[bags], [due], replies, destinations] = await Promise.all([
    sql<
      {
        in_line: number;
        held_back: number;
        leased: number;
        oldest: Date | null;
        emails: number;
        in_flight: number;
      }[]
    >`
      select count(*) filter (where token is null and epoch is not null)::int as in_line,
             count(*) filter (where token is null and epoch is null)::int as held_back,
             count(*) filter (where token is not null)::int as leased,
             min(created_at) as oldest,
             coalesce(sum(cardinality(email_ids)), 0)::int as emails,
             coalesce(sum(cardinality(email_ids)) filter (where token is not null), 0)::int as in_flight
      from bag`,
    sql<{ scheduled: number; waiting: number; deferred: number }[]>`
      select count(*) filter (where why = 'scheduled')::int as scheduled,
             count(*) filter (where why in ('cap_hour', 'cap_day', 'quota_month'))::int as waiting,
             count(*) filter (where why = 'deferred')::int as deferred
      from due`,
    sql<QueueView["replies"]>`
      select reply, count(*)::int from due where why = 'deferred' and reply is not null
      group by reply order by count(*) desc, reply limit ${REPLIES_MAX}`,
    sql<QueueView["destinations"]>`
      select domain, count(*)::int, min(at) as next_attempt_at, (array_agg(reply order by at desc))[1] as last_reply
      from due where why = 'deferred' group by domain order by count(*) desc limit ${DESTINATIONS_MAX}`,
  ]);
  const { in_line = 0, held_back = 0, leased = 0, oldest = null, emails = 0, in_flight = 0 } = bags ?? {};
  const { scheduled = 0, waiting = 0, deferred = 0 } = due ?? {};
  return {
    bags: { in_line, held_back, leased, oldest },
    emails: { in_bags: emails, in_flight, scheduled, waiting, deferred },
    replies,
    destinations,
  };
}

export type Deferred = { workspaceId: string | null; domain: string | null };

/** E-mails per transaction, so that locks are held briefly. */
const DEFERRED_MAX = 2_000;
const FIRST: EmailKey = {
  workspaceId: "00000000-0000-0000-0000-000000000000",
  emailId: "00000000-0000-0000-0000-000000000000",
};

/** Makes deferred mail due now; returns how many. */
export async function retryDeferred(sql: Sql, deferred: Deferred, now: Date): Promise<number> {
  return forAll(sql, deferred, (some) => makeDue(sql, some, now));
}

/** Cancels deferred mail of a workspace, and stores who did it; returns how many. */
export async function cancelDeferred(
  sql: Sql,
  workspaceId: string,
  domain: string | null,
  now: Date,
): Promise<number> {
  return forAll(sql, { workspaceId, domain }, (some) => cancelSome(sql, workspaceId, some, now));
}

/** Changes all that is deferred, some at a time in the order of their keys; sums up how many `change` hands back. */
async function forAll(
  sql: Sql,
  { workspaceId, domain }: Deferred,
  change: (some: readonly EmailKey[]) => Promise<number>,
): Promise<number> {
  let changed = 0;
  for (let after = FIRST; ; ) {
    const some = await sql<EmailKey[]>`
      select workspace_id as "workspaceId", email_id as "emailId" from due
      where why = 'deferred' and (workspace_id, email_id) > (${after.workspaceId}, ${after.emailId})
        and (${workspaceId}::uuid is null or workspace_id = ${workspaceId})
        and (${domain}::text is null or domain = ${domain})
      order by workspace_id, email_id limit ${DEFERRED_MAX}`;
    if (some.length > 0) changed += await change(some);
    if (some.length < DEFERRED_MAX) return changed;
    after = some.at(-1) as EmailKey;
  }
}

async function cancelSome(
  sql: Sql,
  workspaceId: string,
  found: readonly EmailKey[],
  now: Date,
): Promise<number> {
  const event = JSON.stringify([
    { type: "canceled", at: now.toISOString(), detail: "canceled by an operator" },
  ]);
  return sql.begin(async (tx) => {
    const locked = (await lockEmails(tx, found)).filter(({ status }) => status === "deferred");
    const ended = await deleteDue(tx, locked);
    const endedIds = ended.map(({ emailId }) => emailId);
    await tx`
      update email e set status = ${endingSql(tx, withoutOpen(tx))}, updated_at = ${now}, marks = ${withoutOpen(tx)},
        history = coalesce(e.history, '[]') || ${event}::text::jsonb
      where e.workspace_id = ${workspaceId} and e.id = any(${endedIds}::uuid[]) and e.status = 'deferred'`;
    return endedIds.length;
  });
}
