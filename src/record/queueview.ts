/** What an operator sees of everything that is not settled, and what they may do about mail that was deferred. */
import type { Sql } from "./connect.ts";
import { deleteDue } from "./due.ts";
import { type EmailKey, lockEmails } from "./emails.ts";

export type QueueView = {
  bags: { in_line: number; held_back: number; leased: number; oldest: Date | null };
  emails: { in_bags: number; in_flight: number; scheduled: number; waiting: number; deferred: number };
  /** What deferred mail was answered, whatever its destination: where the smarthost refuses us, all of it is the same. */
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

/** Deferred mail is due now; says how much. */
export async function retryDeferred(sql: Sql, { workspaceId, domain }: Deferred, now: Date): Promise<number> {
  const rows = await sql`
    with held as materialized (
      select workspace_id, email_id from due
      where why = 'deferred' and (${workspaceId}::uuid is null or workspace_id = ${workspaceId})
        and (${domain}::text is null or domain = ${domain})
      order by workspace_id, email_id for update
    )
    update due d set at = ${now} from held
    where d.workspace_id = held.workspace_id and d.email_id = held.email_id and d.why = 'deferred' returning 1`;
  return rows.length;
}

const CANCELED_MAX = 2_000;

/** Deferred mail of a workspace ends as canceled, with who did it; says how much. */
export async function cancelDeferred(
  sql: Sql,
  workspaceId: string,
  domain: string | null,
  now: Date,
): Promise<number> {
  for (let canceled = 0; ; ) {
    const some = await cancelSome(sql, workspaceId, domain, now);
    canceled += some;
    if (some < CANCELED_MAX) return canceled;
  }
}

async function cancelSome(sql: Sql, workspaceId: string, domain: string | null, now: Date): Promise<number> {
  const event = JSON.stringify([
    { type: "canceled", at: now.toISOString(), detail: "canceled by an operator" },
  ]);
  return sql.begin(async (tx) => {
    const found = await tx<EmailKey[]>`
      select workspace_id as "workspaceId", email_id as "emailId" from due
      where why = 'deferred' and workspace_id = ${workspaceId} and (${domain}::text is null or domain = ${domain})
      order by email_id limit ${CANCELED_MAX}`;
    const locked = (await lockEmails(tx, found)).filter(({ status }) => status === "deferred");
    const ended = await deleteDue(tx, locked);
    const endedIds = ended.map(({ emailId }) => emailId);
    await tx`
      update email e set status = 'canceled', updated_at = ${now}, marks = replace(coalesce(e.marks, repeat('o', e.weight)), 'o', 'x'),
        history = coalesce(e.history, '[]') || ${event}::text::jsonb
      where e.workspace_id = ${workspaceId} and e.id = any(${endedIds}::uuid[]) and e.status = 'deferred'`;
    return found.length;
  });
}
