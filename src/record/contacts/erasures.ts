/**
 * Erasures at work: the mail to erased addresses is looked through day by day, from the newest back to the
 * oldest partition, and forward within a day. Each step is small and may be repeated, so an erasure survives
 * a crash; and a send of the workspace waits at most until a few hundred e-mails are rewritten.
 *
 * Until an erasure begins, other erased contacts of the workspace join it: an audience of millions needs only
 * a few passes over the mail, two when a pass takes longer than emptying the audience.
 */

import { DAY_MS } from "../../clock.ts";
import { floorId, newId } from "../../ids.ts";
import type { Contact } from "../../rules/contact.ts";
import type { Head, HistoryEntry } from "../../rules/email.ts";
import { addWaiting } from "../../rules/ledger.ts";
import { identitiesOf, type RedactableEmail, type RedactedEmail, redact } from "../../rules/redaction.ts";
import { StepSize } from "../../rules/stepsize.ts";
import { forgetContacts, isRemembered } from "../automations/runs.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { oldestDay } from "../db/partitions.ts";
import { integer, json, omit, orNull, pick, type RowOf, type ShapeFor, text, typed } from "../db/rowshape.ts";
import { deleteDue, forgetReplies } from "../mail/due.ts";
import { forgetReports } from "../mail/reports.ts";
import { forgetBlocks } from "../mail/searchblocks.ts";
import { forgetSuppressed } from "../mail/suppressions.ts";
import { forgetResponses } from "../outbox/webhooks.ts";
import { lockAccounts, saveLedgers } from "../workspaces/ledgers.ts";
import { contactRow } from "./contactrow.ts";
import { deleteContacts } from "./contacts.ts";

const redactableEmailRow = {
  id: text,
  head: json<Head>(),
  status: text,
  marks: orNull(text),
  weight: integer,
  history: orNull(json<HistoryEntry[]>()),
} satisfies ShapeFor<RedactableEmail>;

/** Sends of the workspace wait while its e-mails are rewritten. */
const REDACT_SLOW_MS = 250;

/** How much each step takes on, as far as the store keeps up. */
export type EraseSizes = {
  /** Looked through in one statement. */
  heads: StepSize;
  /** Rewritten in one transaction, under the lock of the workspace's ledger. */
  redacted: StepSize;
  addresses: StepSize;
  /** Contacts of an audience that was deleted. */
  emptied: StepSize;
  /** Events of contacts that were erased. */
  forgotten: StepSize;
};

export function eraseSizes(slowMs: number): EraseSizes {
  const size = (max: number) => new StepSize({ max, slowMs });
  const redacted = new StepSize({ max: 500, slowMs: Math.min(slowMs, REDACT_SLOW_MS) });
  return {
    heads: size(5_000),
    redacted,
    addresses: size(10_000),
    emptied: size(1_000),
    forgotten: size(10_000),
  };
}

const erasureRow = {
  workspaceId: text,
  id: text,
  nextDay: integer,
  /** Where in that day; null: at its beginning. */
  nextId: orNull(text),
  /** The address, when there is but one. */
  only: orNull(text),
};
export type Erasure = RowOf<typeof erasureRow>;

/** Whose mail is to be looked through; by their id, what they did is forgotten to the end. */
export type Erased = Pick<Contact, "workspaceId" | "identity"> & { id?: string };

/** The last lock of a transaction: whoever holds that of a workspace waits for nobody any more. */
export function insertErasures(tx: Tx | Sql, contacts: readonly Erased[], now: Date): Statement {
  const workspaceIds = [...new Set(contacts.map(({ workspaceId }) => workspaceId))].sort();
  // tomorrow's too: the clock of another process may be ahead
  const newestDay = Math.floor(now.getTime() / DAY_MS) + 1;
  return tx`
    with gathering as (
      insert into erasure (workspace_id, id, next_day)
      select workspace_id, id, ${newestDay}
      from unnest(${workspaceIds}::uuid[],
        ${workspaceIds.map(() => newId(now.getTime()))}::uuid[]) as e(workspace_id, id)
      on conflict (workspace_id) where not is_begun do update
        set next_day = greatest(erasure.next_day, excluded.next_day)
      returning workspace_id, id
    ), remembered as (
      insert into erased_contact (workspace_id, erasure_id, contact_id)
      select c.workspace_id, g.id, c.id
      from unnest(${contacts.map((c) => c.workspaceId)}::uuid[], ${contacts.map((c) => c.id ?? null)}::uuid[])
        as c(workspace_id, id)
      join gathering g using (workspace_id)
      where c.id is not null and ${isRemembered(tx)}
    )
    insert into erased_address (workspace_id, erasure_id, identity)
    select distinct workspace_id, g.id, c.identity
    from unnest(${contacts.map((c) => c.workspaceId)}::uuid[], ${contacts.map((c) => c.identity)}::text[])
      as c(workspace_id, identity)
    join gathering g using (workspace_id)
    on conflict do nothing`;
}

/**
 * The next to work on, of one workspace or of all: what is begun first, and then the oldest. Nobody joins it
 * any more.
 */
export async function beginErasure(sql: Sql, workspaceId: string | null): Promise<Erasure | null> {
  const [begun] = await typed(sql, omit(erasureRow, "only"))`
    update erasure e set is_begun = true
    from (select workspace_id, id from erasure where ${workspaceId}::uuid is null
      or workspace_id = ${workspaceId}
          order by is_begun desc, id limit 1) as next
    where e.workspace_id = next.workspace_id and e.id = next.id
    returning e.workspace_id as "workspaceId", e.id, e.next_day as "nextDay", e.next_id as "nextId"`;
  if (!begun) return null;
  const [first, second] = await typed(sql, { identity: text })`
    select identity from erased_address where workspace_id = ${begun.workspaceId}
      and erasure_id = ${begun.id} limit 2`;
  return { ...begun, only: first && !second ? first.identity : null };
}

/** Works through some of the mail; hands back what is left to do, or null when the erasure is done. */
export async function eraseStep(
  sql: Sql,
  erasure: Erasure,
  now: Date,
  sizes: EraseSizes,
): Promise<Erasure | null> {
  const { workspaceId, nextDay, nextId } = erasure;
  const hasForgotten = await sizes.forgotten.take(
    (most) => forgetSome(sql, erasure, now, most),
    (found) => (found ? sizes.forgotten.most : 0),
  );
  if (hasForgotten) return erasure;
  if (nextId === null && nextDay < (await oldestDay(sql, "email"))) return dropAddresses(sql, erasure, sizes);
  const end = floorId((nextDay + 1) * DAY_MS);
  const from = nextId ?? floorId(nextDay * DAY_MS);
  const { to, mails } = await sizes.heads.take(async (most) => {
    const to = await idAfter(sql, workspaceId, from, end, most);
    return { to, mails: await mailsBetween(sql, erasure, from, to ?? end) };
  });
  const identities = await erasedAmong(sql, erasure, mails);
  const ids = mails
    .filter((mail) => redact(mail, identities, now.toISOString()) !== null)
    .map((mail) => mail.id);
  while (ids.length > 0)
    await sizes.redacted.take(
      async (most) => {
        const some = ids.splice(0, most);
        await redactSome(sql, workspaceId, some, identities, now);
        return some.length;
      },
      (count) => count,
    );
  return to === null ? moveOn(sql, erasure, nextDay - 1, null) : moveOn(sql, erasure, nextDay, to);
}

/**
 * Who of those that these mails name is erased: an erasure may be of more people than anybody should hold.
 */
async function erasedAmong(
  sql: Sql,
  { workspaceId, id, only }: Erasure,
  mails: readonly RedactableEmail[],
): Promise<Set<string>> {
  if (only !== null) return new Set([only]);
  const named = [...new Set(mails.flatMap(({ head }) => identitiesOf(head)))];
  const rows = await typed(sql, { identity: text })`
    select a.identity from unnest(${named}::text[]) as n(identity)
    join erased_address a on a.workspace_id = ${workspaceId} and a.erasure_id = ${id}
      and a.identity = n.identity`;
  return new Set(rows.map(({ identity }) => identity));
}

const FORGOTTEN_AT_ONCE_MAX = 100;

/** Goes on forgetting what erased contacts did; says whether there was anything. */
async function forgetSome(sql: Sql, { workspaceId, id }: Erasure, now: Date, most: number): Promise<boolean> {
  return sql.begin(async (tx) => {
    const contacts = await typed(tx, { workspaceId: text, id: text })`
      select workspace_id as "workspaceId", contact_id as id from erased_contact
      where workspace_id = ${workspaceId} and erasure_id = ${id}
      order by contact_id limit ${FORGOTTEN_AT_ONCE_MAX} for update skip locked`;
    if (contacts.length === 0) return false;
    await Promise.all(forgetContacts(tx, contacts, now, most));
    await tx`
      delete from erased_contact x
      using unnest(${contacts.map((c) => c.workspaceId)}::uuid[],
        ${contacts.map((c) => c.id)}::uuid[]) as c(workspace_id, id)
      where x.workspace_id = c.workspace_id and x.erasure_id = ${id} and x.contact_id = c.id
        and not ${isRemembered(tx)}`;
    return true;
  });
}

/** Nothing names them any more; nor does the erasure. */
async function dropAddresses(sql: Sql, erasure: Erasure, { addresses }: EraseSizes): Promise<Erasure | null> {
  const { workspaceId, id } = erasure;
  // an array: the planner would ask for a list of rows anew for each of them
  const isMore = await addresses.full((most) =>
    sql.begin(async (tx) => {
      const dropped = await typed(tx, { identity: text })`
        delete from erased_address
        where workspace_id = ${workspaceId} and erasure_id = ${id} and identity = any(array(
          select identity from erased_address where workspace_id = ${workspaceId} and erasure_id = ${id}
          order by identity limit ${most} for update skip locked))
        returning identity`;
      await forgetSuppressed(
        tx,
        workspaceId,
        dropped.map(({ identity }) => identity),
      );
      return dropped.count;
    }),
  );
  if (isMore) return erasure;
  await sql`
    delete from erasure e where workspace_id = ${workspaceId} and id = ${id}
      and not exists (select from erased_address a where a.workspace_id = e.workspace_id
        and a.erasure_id = e.id)
      and not exists (select from erased_contact c where c.workspace_id = e.workspace_id
        and c.erasure_id = e.id)`;
  return null;
}

/** Two who work on one erasure do the same work; the place that is kept is that of either. */
async function moveOn(sql: Sql, erasure: Erasure, nextDay: number, nextId: string | null): Promise<Erasure> {
  await sql`
    update erasure set next_day = ${nextDay}, next_id = ${nextId}
    where workspace_id = ${erasure.workspaceId} and id = ${erasure.id}
      and next_day = ${erasure.nextDay} and next_id is not distinct from ${erasure.nextId}`;
  return { ...erasure, nextDay, nextId };
}

async function idAfter(
  sql: Sql,
  workspaceId: string,
  from: string,
  end: string,
  most: number,
): Promise<string | null> {
  const [row] = await typed(sql, { id: text })`
    select id from email where workspace_id = ${workspaceId} and id >= ${from} and id < ${end}
    order by id offset ${most} limit 1`;
  return row?.id ?? null;
}

/** Mails that may be to one of the addresses. */
async function mailsBetween(
  sql: Sql,
  { workspaceId, only }: Erasure,
  from: string,
  to: string,
): Promise<RedactableEmail[]> {
  // one plain address is looked for by Postgres; several, or one that its lower() may not know, by strike. So
  // is each quoted local part: it may be the same one, spelt with quotes and backslashes.
  const isPlain = only !== null && /^[\x20-\x7e]*$/.test(only) && !/["\\%_]/.test(only);
  const local = isPlain ? `%${only.slice(0, only.lastIndexOf("@") + 1)}%` : null;
  return typed(sql, redactableEmailRow)`
    select id, head, status, marks, weight, history from email
    where workspace_id = ${workspaceId} and id >= ${from} and id < ${to}
      ${local === null ? sql`` : sql`and (lower(head::text) like ${local} or position('"@' in head::text) > 0)`}
    order by id`;
}

/** Decided again on the locked rows: what was open a moment ago may have settled. */
async function redactSome(
  sql: Sql,
  workspaceId: string,
  ids: readonly string[],
  identities: ReadonlySet<string>,
  now: Date,
): Promise<void> {
  await sql.begin(async (tx) => {
    // before the ledger: who works off a report holds that first
    await forgetReports(tx, workspaceId, ids);
    const [account] = await lockAccounts(tx, [workspaceId]);
    if (!account) return;
    const subjects = ids.map((id) => ({ workspaceId, id }));
    for (const statement of forgetResponses(tx, subjects)) await statement;
    const mails = await typed(tx, redactableEmailRow)`
      select id, head, status, marks, weight, history from email
      where workspace_id = ${workspaceId} and id = any(${[...ids]}::uuid[])
        and id between ${ids[0] as string} and ${ids.at(-1) as string} order by id for update`;
    const redacted = mails.flatMap((mail) => redact(mail, identities, now.toISOString()) ?? []);
    if (redacted.length === 0) return;
    await saveRedacted(tx, workspaceId, redacted, now);
    await forgetBlocks(
      tx,
      redacted.map(({ id }) => ({ workspaceId, id })),
    );
    const keyOf = ({ id: emailId }: RedactedEmail) => ({ workspaceId, emailId });
    // locks all of the due rows, so that those to delete are not locked out of order
    await forgetReplies(tx, redacted.map(keyOf));
    const ended = await deleteDue(tx, redacted.filter(({ isCanceled }) => isCanceled).map(keyOf));
    for (const one of ended)
      if (one.why !== "scheduled" && one.why !== "deferred") addWaiting(account.ledger, one, -1);
    await saveLedgers(tx, [account]);
  });
}

async function saveRedacted(
  tx: Tx,
  workspaceId: string,
  redacted: readonly RedactedEmail[],
  now: Date,
): Promise<void> {
  const ids = redacted.map(({ id }) => id);
  const over = redacted.filter(({ isOver }) => isOver).map(({ id }) => id);
  await tx`
    update email e set head = s.head::json, status = s.status, marks = s.marks, history = s.history::jsonb,
      updated_at = ${now}
    from unnest(${ids}::uuid[], ${redacted.map(({ head }) => JSON.stringify(head))}::text[],
                ${redacted.map(({ status }) => status)}::text[],
                ${redacted.map(({ marks }) => marks)}::text[],
                ${redacted.map(({ history }) => (history ? JSON.stringify(history) : null))}::text[])
      as s(id, head, status, marks, history)
    where e.workspace_id = ${workspaceId} and e.id = s.id and e.id between ${ids[0] as string}
      and ${ids.at(-1) as string}`;
  await tx`
    update body set html = null, plain = null, extra = null
    where workspace_id = ${workspaceId} and id = any(${over}::uuid[])
      and id between ${ids[0] as string} and ${ids.at(-1) as string}`;
}

/**
 * Erases some contacts of an audience that was deleted, and the audience after the last; null when there is
 * none.
 */
/** Whether there is an erasure to work on, or an audience to empty. */
export function hasErasures(sql: Sql) {
  return sql`(exists (select from erasure) or exists (select from audience where deleted_at is not null))`;
}

export async function emptyDeletedAudience(sql: Sql, now: Date, most: number): Promise<number | null> {
  return sql.begin(async (tx) => {
    const [audience] = await typed(tx, { workspaceId: text, id: text })`
      select workspace_id as "workspaceId", id from audience where deleted_at is not null
      order by deleted_at limit 1 for update skip locked`;
    if (!audience) return null;
    const { workspaceId, id } = audience;
    const contacts = await typed(tx, pick(contactRow, "workspaceId", "id", "identity"))`
      select workspace_id as "workspaceId", id, identity from contact
      where workspace_id = ${workspaceId} and audience_id = ${id} limit ${most}`;
    if (contacts.length > 0) {
      await Promise.all([...deleteContacts(tx, contacts, now), insertErasures(tx, contacts, now)]);
    } else {
      const freed = await tx`
        delete from suppression where workspace_id = ${workspaceId} and audience_id = ${id}
          and address_hash = any(array(
          select address_hash from suppression where workspace_id = ${workspaceId} and audience_id = ${id}
          limit ${most}))`;
      if (freed.count >= most) return freed.count;
      await tx`delete from audience where workspace_id = ${workspaceId} and id = ${id}`;
    }
    return contacts.length;
  });
}
