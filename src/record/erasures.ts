/**
 * Erasures at work: the mail to erased addresses is looked through day by day, from the newest back to the oldest
 * partition, and forward within a day. Each step is small and may be repeated, so an erasure survives whoever works on
 * it; and no send of the workspace waits longer than for a few hundred e-mails to be rewritten.
 */
import { floorId, newId } from "../ids.ts";
import type { Sql, Statement, Tx } from "./connect.ts";
import type { Contact } from "./contact.ts";
import { deleteContacts } from "./contacts.ts";
import { type Mail, type Struck, strike } from "./erase.ts";
import { lockAccounts, saveLedgers } from "./ledgers.ts";

const DAY_MS = 86_400_000;
/** Looked through in one statement: well within its time. */
const HEADS_MAX = 5_000;
/** Rewritten in one transaction, under the lock of the workspace's ledger. */
const STRUCK_MAX = 500;

export type Erasure = {
  workspaceId: string;
  id: string;
  identities: string[];
  nextDay: number;
  /** Where in that day; null: at its beginning. */
  nextId: string | null;
};

export function insertErasures(
  tx: Tx | Sql,
  contacts: readonly Pick<Contact, "workspaceId" | "identity">[],
  now: Date,
): Statement[] {
  const byWorkspace = new Map<string, string[]>();
  for (const { workspaceId, identity } of contacts)
    byWorkspace.set(workspaceId, [...(byWorkspace.get(workspaceId) ?? []), identity]);
  const today = Math.floor(now.getTime() / DAY_MS);
  return [...byWorkspace].map(
    ([workspaceId, identities]) => tx`
      insert into erasure (workspace_id, id, identities, next_day)
      values (${workspaceId}, ${newId(now.getTime())}, ${identities}::text[], ${today})`,
  );
}

/** Those that are at work, oldest first; of one workspace or of all. */
export async function listErasures(sql: Sql, workspaceId: string | null, most: number): Promise<Erasure[]> {
  return sql<Erasure[]>`
    select workspace_id as "workspaceId", id, identities, next_day as "nextDay", next_id as "nextId" from erasure
    where ${workspaceId}::uuid is null or workspace_id = ${workspaceId} order by id limit ${most}`;
}

/** Works through some of the mail; hands back what is left to do, or null when the erasure is done. */
export async function eraseStep(sql: Sql, erasure: Erasure, now: Date): Promise<Erasure | null> {
  const { workspaceId, nextDay } = erasure;
  const identities = new Set(erasure.identities);
  const end = floorId((nextDay + 1) * DAY_MS);
  const from = erasure.nextId ?? floorId(nextDay * DAY_MS);
  const to = await idAfter(sql, workspaceId, from, end);
  const mails = await mailsBetween(sql, erasure, from, to ?? end);
  const ids = mails
    .filter((mail) => strike(mail, identities, now.toISOString()) !== null)
    .map((mail) => mail.id);
  for (let at = 0; at < ids.length; at += STRUCK_MAX)
    await strikeOut(sql, workspaceId, ids.slice(at, at + STRUCK_MAX), identities, now);
  if (to !== null) return moveOn(sql, erasure, nextDay, to);
  if (nextDay > (await oldestDay(sql))) return moveOn(sql, erasure, nextDay - 1, null);
  await sql`delete from erasure where workspace_id = ${workspaceId} and id = ${erasure.id}`;
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

async function idAfter(sql: Sql, workspaceId: string, from: string, end: string): Promise<string | null> {
  const [row] = await sql<{ id: string }[]>`
    select id from email where workspace_id = ${workspaceId} and id >= ${from} and id < ${end}
    order by id offset ${HEADS_MAX} limit 1`;
  return row?.id ?? null;
}

/** Mails that may be to one of the addresses. */
async function mailsBetween(
  sql: Sql,
  { workspaceId, identities }: Erasure,
  from: string,
  to: string,
): Promise<Mail[]> {
  const [only = ""] = identities;
  // one plain address is looked for by Postgres; several, or one that its lower() may not know, by strike
  const isPlain = identities.length === 1 && /^[\x20-\x7e]*$/.test(only) && !/["\\%_]/.test(only);
  const local = isPlain ? `%${only.slice(0, only.lastIndexOf("@") + 1)}%` : null;
  return sql<Mail[]>`
    select id, head, status, marks, weight, history from email
    where workspace_id = ${workspaceId} and id >= ${from} and id < ${to}
      ${local === null ? sql`` : sql`and lower(head::text) like ${local}`}
    order by id`;
}

/** Decided again on the locked rows: what was open a moment ago may have settled. */
async function strikeOut(
  sql: Sql,
  workspaceId: string,
  ids: readonly string[],
  identities: ReadonlySet<string>,
  now: Date,
): Promise<void> {
  await sql.begin(async (tx) => {
    const [account] = await lockAccounts(tx, [workspaceId]);
    if (!account) return;
    const mails = await tx<Mail[]>`
      select id, head, status, marks, weight, history from email
      where workspace_id = ${workspaceId} and id = any(${[...ids]}::uuid[])
        and id between ${ids[0] as string} and ${ids.at(-1) as string} order by id for update`;
    const struck = mails.flatMap((mail) => strike(mail, identities, now.toISOString()) ?? []);
    if (struck.length === 0) return;
    await saveStruck(tx, workspaceId, struck, now);
    const canceled = struck.filter(({ isCanceled }) => isCanceled).map((mail) => mail.id);
    const ended = await tx<{ bulk: boolean; why: string }[]>`
      delete from due where workspace_id = ${workspaceId} and email_id = any(${canceled}::uuid[]) returning bulk, why`;
    for (const { bulk, why } of ended) {
      if (why === "scheduled" || why === "deferred") continue;
      if (bulk) account.ledger.waitingBulk--;
      else account.ledger.waiting--;
    }
    await tx`update due set reply = null where workspace_id = ${workspaceId} and email_id = any(${struck.map((mail) => mail.id)}::uuid[])`;
    await saveLedgers(tx, [account]);
  });
}

async function saveStruck(tx: Tx, workspaceId: string, struck: readonly Struck[], now: Date): Promise<void> {
  const ids = struck.map(({ id }) => id);
  const over = struck.filter(({ isOver }) => isOver).map(({ id }) => id);
  await tx`
    update email e set head = s.head::json, status = s.status, marks = s.marks, history = s.history::jsonb, updated_at = ${now}
    from unnest(${ids}::uuid[], ${struck.map(({ head }) => JSON.stringify(head))}::text[],
                ${struck.map(({ status }) => status)}::text[], ${struck.map(({ marks }) => marks)}::text[],
                ${struck.map(({ history }) => (history ? JSON.stringify(history) : null))}::text[])
      as s(id, head, status, marks, history)
    where e.workspace_id = ${workspaceId} and e.id = s.id and e.id between ${ids[0] as string} and ${ids.at(-1) as string}`;
  await tx`
    update body set html = null, plain = null, extra = null
    where workspace_id = ${workspaceId} and id = any(${over}::uuid[])
      and id between ${ids[0] as string} and ${ids.at(-1) as string}`;
}

async function oldestDay(sql: Sql): Promise<number> {
  const [row] = await sql<{ name: string | null }[]>`
    select min(relname) as name from pg_class where relkind = 'r' and relname ~ '^email_[0-9]{8}$'`;
  const day = row?.name?.slice("email_".length) ?? "20000101";
  return Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)) - 1, Number(day.slice(6))) / DAY_MS;
}

const EMPTIED_MAX = 1_000;

/** Erases some contacts of an audience that was deleted, and the audience after the last; null when there is none. */
export async function emptyDeletedAudience(sql: Sql, now: Date): Promise<number | null> {
  return sql.begin(async (tx) => {
    const [audience] = await tx<{ workspaceId: string; id: string }[]>`
      select workspace_id as "workspaceId", id from audience where deleted_at is not null
      order by deleted_at limit 1 for update skip locked`;
    if (!audience) return null;
    const { workspaceId, id } = audience;
    const contacts = await tx<Pick<Contact, "workspaceId" | "id" | "identity">[]>`
      select workspace_id as "workspaceId", id, identity from contact
      where workspace_id = ${workspaceId} and audience_id = ${id} limit ${EMPTIED_MAX}`;
    if (contacts.length > 0) {
      await Promise.all([...deleteContacts(tx, contacts, now), ...insertErasures(tx, contacts, now)]);
    } else {
      await tx`delete from suppression where workspace_id = ${workspaceId} and audience_id = ${id}`;
      await tx`delete from audience where workspace_id = ${workspaceId} and id = ${id}`;
    }
    return contacts.length;
  });
}
