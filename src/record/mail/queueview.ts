/** Open mail as an operator sees it, and retrying or canceling what is deferred. */
import { bounceKept, endingOf, type Head, type HistoryEntry, OPEN_MARK } from "../../rules/email.ts";
import { plainArray, texts } from "../db/arrays.ts";
import type { Sql } from "../db/connect.ts";
import { integer, json, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import { destinationHoldRow } from "./destinations.ts";
import { deleteDue, makeDue } from "./due.ts";
import { type EmailKey, emailKeyRow, lockEmails, recipientsOf } from "./emails.ts";
import { endingSql, withoutOpen } from "./status.ts";

const replyCount = { reply: text, count: integer };
const waitingDestination = {
  domain: orNull(text),
  count: integer,
  /** null: when an operator resumes it. */
  next_attempt_at: orNull(timestamp),
  last_reply: orNull(text),
};
const waitingHold = { ...destinationHoldRow, waiting: integer };
const holdOfWorkspace = {
  destination: text,
  kind: text,
  until: orNull(timestamp),
  reason: text,
  waiting: integer,
};

export type QueueView = {
  bags: { in_line: number; held_back: number; leased: number; oldest: Date | null };
  emails: { in_bags: number; in_flight: number; scheduled: number; waiting: number; deferred: number };
  /**
   * What deferred mail was answered, whatever its destination: where the smarthost refuses us, all of it is
   * the same.
   */
  replies: RowOf<typeof replyCount>[];
  destinations: WaitingDestination[];
  /** Suspended or slowed down: by whom, until when and why, and how much waits for that. */
  holds: RowOf<typeof waitingHold>[];
};

export type WaitingDestination = RowOf<typeof waitingDestination>;

const DESTINATIONS_MAX = 20;
const REPLIES_MAX = 10;
const HOLDS_SHOWN_MAX = 100;

export async function viewQueue(sql: Sql): Promise<QueueView> {
  const [[bags], [due], replies, destinations, holds] = await Promise.all([
    typed(sql, {
      in_line: integer,
      held_back: integer,
      leased: integer,
      oldest: orNull(timestamp),
      emails: integer,
      in_flight: integer,
    })`
      select count(*) filter (where token is null and epoch is not null)::int as in_line,
             count(*) filter (where token is null and epoch is null)::int as held_back,
             count(*) filter (where token is not null)::int as leased,
             min(created_at) as oldest,
             coalesce(sum(cardinality(email_ids)), 0)::int as emails,
             coalesce(sum(cardinality(email_ids)) filter (where token is not null), 0)::int as in_flight
      from bag`,
    typed(sql, { scheduled: integer, waiting: integer, deferred: integer })`
      select count(*) filter (where why = 'scheduled')::int as scheduled,
             count(*) filter (where why in ('cap_hour', 'cap_day', 'quota_month'))::int as waiting,
             count(*) filter (where why = 'deferred')::int as deferred
      from due`,
    typed(sql, replyCount)`
      select reply, count(*)::int from due where why = 'deferred' and reply is not null
      group by reply order by count(*) desc, reply limit ${REPLIES_MAX}`,
    typed(sql, waitingDestination)`
      select d.domain, count(*)::int, min(d.at) filter (where ${hasEnd(sql)}) as next_attempt_at,
             (array_agg(d.reply order by d.at desc))[1] as last_reply
      from due d where d.why = 'deferred' group by d.domain order by count(*) desc limit ${DESTINATIONS_MAX}`,
    typed(sql, waitingHold)`
      select h.destination, h.source, h.kind, h.factor, h.until, h.reason, h.set_by as "setBy",
        h.changed_at as "changedAt",
             (select count(*)::int from due d where d.held_by = h.destination
               and h.kind = 'suspended') as waiting
      from destination_hold h order by h.destination, h.source, h.kind limit ${HOLDS_SHOWN_MAX}`,
  ]);
  const { in_line = 0, held_back = 0, leased = 0, oldest = null, emails = 0, in_flight = 0 } = bags ?? {};
  const { scheduled = 0, waiting = 0, deferred = 0 } = due ?? {};
  return {
    bags: { in_line, held_back, leased, oldest },
    emails: { in_bags: emails, in_flight, scheduled, waiting, deferred },
    replies,
    destinations,
    holds,
  };
}

/** What is stuck of one workspace; counted among the first `most` of its rows. */
export type QueueOfWorkspace = Pick<QueueView, "replies" | "destinations"> & {
  holds: readonly RowOf<typeof holdOfWorkspace>[];
};

export async function viewQueueOf(sql: Sql, workspaceId: string, most: number): Promise<QueueOfWorkspace> {
  const deferred = sql`(
    select domain, at, reply, held_by from due where workspace_id = ${workspaceId} and why = 'deferred'
    limit ${most}) d`;
  const [replies, destinations, holds] = await Promise.all([
    typed(sql, replyCount)`
      select reply, count(*)::int from ${deferred} where reply is not null
      group by reply order by count(*) desc, reply limit ${REPLIES_MAX}`,
    typed(sql, waitingDestination)`
      select d.domain, count(*)::int, min(d.at) filter (where ${hasEnd(sql)}) as next_attempt_at,
             (array_agg(d.reply order by d.at desc))[1] as last_reply
      from ${deferred} group by d.domain order by count(*) desc limit ${DESTINATIONS_MAX}`,
    typed(sql, holdOfWorkspace)`
      select h.destination, h.kind, max(h.until) as until, min(h.reason) as reason,
        count(*) filter (where d.held_by is not null)::int as waiting
      from ${deferred}
      join destination_hold h on h.destination = coalesce(d.held_by, d.domain) and h.kind = 'suspended'
      group by h.destination, h.kind order by count(*) desc limit ${HOLDS_SHOWN_MAX}`,
  ]);
  return { replies, destinations, holds };
}

/** Of due rows: not those that wait until an operator resumes their destination. */
function hasEnd(sql: Sql) {
  return sql`d.held_by is null or not exists (
    select from destination_hold h where h.destination = d.held_by and h.source = '' and h.kind = 'suspended'
      and h.until is null)`;
}

/**
 * Of one workspace, and to one destination (a domain, or what is suspended under another name, or
 * `NO_DOMAIN`: rows without one); null: any.
 */
export const NO_DOMAIN = "";
export type Deferred = { workspaceId: string | null; destination: string | null };

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
  destination: string | null,
  now: Date,
): Promise<number> {
  return forAll(sql, { workspaceId, destination }, (some) => cancelSome(sql, workspaceId, some, now));
}

/**
 * Ends deferred mail to a destination, of all workspaces, and stores why; returns how many e-mails it was.
 */
export async function bounceDeferred(
  sql: Sql,
  destination: string,
  reason: string,
  now: Date,
): Promise<number> {
  return forAll(sql, { workspaceId: null, destination }, (some) => bounceSome(sql, some, reason, now));
}

/**
 * Changes all that is deferred, some at a time in the order of their keys; sums up how many `change` hands
 * back.
 */
async function forAll(
  sql: Sql,
  { workspaceId, destination }: Deferred,
  change: (some: readonly EmailKey[]) => Promise<number>,
): Promise<number> {
  let changed = 0;
  for (let after = FIRST; ; ) {
    const some = await typed(sql, emailKeyRow)`
      select workspace_id as "workspaceId", email_id as "emailId" from due
      where why = 'deferred' and (workspace_id, email_id) > (${after.workspaceId}, ${after.emailId})
        and (${workspaceId}::uuid is null or workspace_id = ${workspaceId})
        and (${destination}::text is null or domain = ${destination} or held_by = ${destination}
          or (${destination} = ${NO_DOMAIN} and domain is null))
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
      update email e set status = ${endingSql(tx, withoutOpen(tx))}, updated_at = ${now},
        marks = ${withoutOpen(tx)},
        history = coalesce(e.history, '[]') || ${event}::text::jsonb
      where e.workspace_id = ${workspaceId} and e.id = any(${endedIds}::uuid[]) and e.status = 'deferred'`;
    return endedIds.length;
  });
}

const bouncingEmailRow = {
  workspaceId: text,
  id: text,
  head: json<Head>(),
  marks: text,
  domain: text,
};
type BouncingEmail = RowOf<typeof bouncingEmailRow>;

/** The recipients at the domain it waits for; others it has are tried again. */
async function bounceSome(sql: Sql, found: readonly EmailKey[], reason: string, now: Date): Promise<number> {
  return sql.begin(async (tx) => {
    const locked = (await lockEmails(tx, found, "skip")).filter(({ status }) => status === "deferred");
    const ids = locked.map(({ emailId }) => emailId);
    const emails = await typed(tx, bouncingEmailRow)`
      select e.workspace_id as "workspaceId", e.id, e.head, coalesce(e.marks, repeat('o', e.weight)) as marks,
        d.domain
      from email e join due d on d.workspace_id = e.workspace_id and d.email_id = e.id
      where (e.workspace_id, e.id) in (
          select * from unnest(${locked.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]))
        and e.id = any(${ids}::uuid[]) and d.domain is not null`;
    const bounced = emails
      .map((email) => bouncedTo(email, reason, now))
      .filter(({ events }) => events.length > 0);
    if (bounced.length === 0) return 0;
    const over = bounced.filter(({ status }) => status !== "deferred");
    await deleteDue(
      tx,
      over.map(({ workspaceId, id }) => ({ workspaceId, emailId: id })),
    );
    const bouncedIds = plainArray(bounced.map(({ id }) => id));
    await tx`
      update email e set status = b.status, marks = b.marks, updated_at = ${now},
        bounced_at = case when b.status = 'bounced' then ${now} else e.bounced_at end,
        history = coalesce(e.history, '[]') || b.events::jsonb
      from unnest(${plainArray(bounced.map(({ workspaceId }) => workspaceId))}::uuid[], ${bouncedIds}::uuid[],
          ${plainArray(bounced.map(({ status }) => status))}::text[],
          ${plainArray(bounced.map(({ marks }) => marks))}::text[],
          ${texts(
            tx,
            bounced.map(({ events }) => JSON.stringify(events)),
          )}) as b(workspace_id, id, status, marks, events)
      where e.workspace_id = b.workspace_id and e.id = b.id and e.id = any(${bouncedIds}::uuid[])`;
    return bounced.length;
  });
}

function bouncedTo({ workspaceId, id, head, marks, domain }: BouncingEmail, reason: string, now: Date) {
  const events: HistoryEntry[] = [];
  const left = recipientsOf(head).map((recipient, n) => {
    const mark = marks.charAt(n);
    if (mark !== OPEN_MARK || recipient.domain !== domain) return mark;
    const { address } = recipient;
    // the operator gave up, as the end of its lifetime would have
    const event = { type: "bounced", at: now.toISOString(), recipient: address, detail: reason };
    events.push({ ...event, ...bounceKept("expired") });
    return "b";
  });
  return { workspaceId, id, marks: left.join(""), status: endingOf(left.join("")) ?? "deferred", events };
}
