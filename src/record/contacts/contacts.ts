/** Contact rows: read, and written in sets. What a change does to one is decided in contact.ts. */

import type { Confirmation, Consent, Contact, ContactStatus, LockedContact } from "../../rules/contact.ts";
import { forgetContacts } from "../automations/runs.ts";
import { plainArray, texts } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { boolean, bytes, integer, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";
import { forgetResponses } from "../outbox/webhooks.ts";
import { contactRow } from "./contactrow.ts";

export type Who = { identity: string } | { id: string };
type Wanted = { workspaceId: string; audienceId: string; who: Who };

const ID_FIRST = "00000000-0000-0000-0000-000000000000";
const ID_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/** With their confirmation; null: they have none. */
const heldRow = {
  ...contactRow,
  asked: orNull(integer),
  askedAt: orNull(timestamp),
  isOpen: orNull(boolean),
  isMailed: orNull(boolean),
};
type HeldRow = RowOf<typeof heldRow>;

/** What a transaction that has locked the audiences holds of these contacts, archived or not. */
export async function holdContacts(tx: Tx | Sql, wanted: readonly Wanted[]): Promise<LockedContact[]> {
  const byIdentity = wanted.flatMap(({ who, ...of }) =>
    "identity" in who ? [{ value: who.identity, ...of }] : [],
  );
  const byId = wanted.flatMap(({ who, ...of }) => ("id" in who ? [{ value: who.id, ...of }] : []));
  const select = async (some: typeof byId, match: ReturnType<Sql>): Promise<HeldRow[]> =>
    some.length === 0
      ? []
      : await typed(tx, heldRow)`
          select ${columns(tx)}, f.asked, f.asked_at as "askedAt", f.is_open as "isOpen",
            f.is_mailed as "isMailed"
          from unnest(${some.map((w) => w.workspaceId)}::uuid[], ${some.map((w) => w.audienceId)}::uuid[],
                      ${some.map((w) => w.value)}::text[]) as w(workspace_id, audience_id, value)
          join contact c on c.workspace_id = w.workspace_id and c.audience_id = w.audience_id and ${match}
          left join confirmation f on f.workspace_id = c.workspace_id and f.contact_id = c.id`.execute();
  const found = await Promise.all([
    select(byIdentity, tx`c.identity = w.value`),
    select(byId, tx`c.id = w.value::uuid`),
  ]);
  return found.flat().map(heldOf);
}

/**
 * Which of these contacts there are, in audiences that are; they cannot be erased before the commit. Waits
 * for an erasure that is being committed. Call it before any ledger is locked.
 */
export async function keepContacts(
  tx: Tx | Sql,
  wanted: readonly { workspaceId: string; id: string }[],
): Promise<Set<string>> {
  const rows = await typed(tx, { id: text })`
    select c.id from contact c
    join unnest(${wanted.map((w) => w.workspaceId)}::uuid[],
      ${wanted.map((w) => w.id)}::uuid[]) as w(workspace_id, id)
      on c.workspace_id = w.workspace_id and c.id = w.id
    join audience a on a.workspace_id = c.workspace_id and a.id = c.audience_id and a.deleted_at is null
    order by c.workspace_id, c.id for key share of c`.execute();
  return new Set(rows.map(({ id }) => id));
}

export async function findContact(
  sql: Sql,
  { workspaceId, audienceId, who }: Wanted,
): Promise<Contact | null> {
  const [row] = await typed(sql, contactRow)`
    select ${columns(sql)} from contact c
    where c.workspace_id = ${workspaceId} and c.audience_id = ${audienceId} and c.archived_at is null
      and ${match(sql, who)}`;
  return row ?? null;
}

const placedRow = {
  audienceId: text,
  id: text,
  identity: text,
};
export type Placed = RowOf<typeof placedRow>;

/**
 * Where a contact is, of all audiences that may be seen: the default one first, then the newest. `archived`:
 * one that is archived counts too, after all others.
 */
export async function placeContact(
  sql: Sql,
  workspaceId: string,
  visible: readonly string[] | null,
  who: Who,
  archived = false,
): Promise<Placed | null> {
  const [row] = await typed(sql, placedRow)`
    select c.audience_id as "audienceId", c.id, c.identity from contact c
    join audience a on a.workspace_id = c.workspace_id and a.id = c.audience_id and a.deleted_at is null
    where c.workspace_id = ${workspaceId} and ${match(sql, who)}
      and (c.archived_at is null or ${archived}) ${among(sql, visible)}
    order by c.archived_at is not null, a.is_default desc, a.id desc limit 1`;
  return row ?? null;
}

/** The audiences in which an address is, of those that may be seen: a page and one more row. */
export async function audiencesOfContact(
  sql: Sql,
  workspaceId: string,
  visible: readonly string[] | null,
  contactId: string,
  { after, before, limit }: Page,
): Promise<{ id: string; name: string; createdAt: Date }[]> {
  const position =
    before !== null ? sql`and a.id > ${before}` : after !== null ? sql`and a.id < ${after}` : sql``;
  return sql`
    select a.id, a.name, a.created_at as "createdAt" from contact o
    join contact c on c.workspace_id = o.workspace_id and c.identity = o.identity and c.archived_at is null
    join audience a on a.workspace_id = c.workspace_id and a.id = c.audience_id and a.deleted_at is null
    where o.workspace_id = ${workspaceId} and o.id = ${contactId} ${among(sql, visible)} ${position}
    order by a.id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

/**
 * A page and one more row. Bounded and ordered by audience and id together: were the audience an equality,
 * the planner could as well walk the primary key and skip the contacts of every other audience on the way.
 */
export async function listContacts(
  sql: Sql,
  workspaceId: string,
  audienceId: string,
  { after, before, limit }: Page,
): Promise<Contact[]> {
  const direction = before === null ? sql`desc` : sql`asc`;
  return typed(sql, contactRow)`
    select ${columns(sql)} from contact c
    where c.workspace_id = ${workspaceId} and c.archived_at is null
      and (c.audience_id, c.id) > (${audienceId}::uuid, ${before ?? ID_FIRST}::uuid)
      and (c.audience_id, c.id) < (${audienceId}::uuid, ${after ?? ID_LAST}::uuid)
    order by c.audience_id ${direction}, c.id ${direction} limit ${limit + 1}`;
}

/** What a list of contacts is narrowed to. */
export type ContactFilter = { status: ContactStatus | null; tag: string | null; identity: string | null };

/**
 * A page and one more row of the contacts of these audiences; null: of all. Each audience is walked along the
 * index that fits the filter, in the order of the ids, up to one page: the price does not depend on the
 * number of contacts.
 */
export async function searchContacts(
  sql: Sql,
  workspaceId: string,
  audienceIds: readonly string[] | null,
  filter: ContactFilter,
  { after, before, limit }: Page,
): Promise<Contact[]> {
  const order = before === null ? sql`desc` : sql`asc`;
  const some = audienceIds === null ? sql`` : sql`and a.id = any(${[...audienceIds]}::uuid[])`;
  return typed(sql, contactRow)`
    select ${columns(sql)} from audience a
    cross join lateral (
      ${idsOf(sql, filter, { after: after ?? ID_LAST, before: before ?? ID_FIRST }, order)} limit ${limit + 1}
    ) as page
    join contact c on c.workspace_id = a.workspace_id and c.id = page.id
    where a.workspace_id = ${workspaceId} and a.deleted_at is null ${some}
    order by c.id ${order} limit ${limit + 1}`;
}

/**
 * Bounded and ordered by audience and id together, or the planner may walk contacts of every other audience.
 */
function idsOf(
  sql: Sql,
  { status, tag, identity }: ContactFilter,
  { after, before }: { after: string; before: string },
  order: Statement,
): Statement {
  const ofStatus = status === null ? sql`` : sql`and i.status = ${status}`;
  if (tag !== null)
    return sql`
      select t.contact_id as id from contact_tag t
      join contact i on i.workspace_id = t.workspace_id and i.id = t.contact_id and i.archived_at is null
        ${ofStatus} ${identity === null ? sql`` : sql`and i.identity = ${identity}`}
      where t.workspace_id = a.workspace_id and t.audience_id = a.id and t.tag = ${tag}
        and t.contact_id > ${before} and t.contact_id < ${after}
      order by t.audience_id ${order}, t.tag ${order}, t.contact_id ${order}`;
  if (identity !== null)
    return sql`
      select i.id from contact i
      where i.workspace_id = a.workspace_id and i.audience_id = a.id and i.identity = ${identity}
        and i.archived_at is null and i.id > ${before} and i.id < ${after} ${ofStatus}`;
  if (status !== null)
    return sql`
      select i.id from contact i
      where i.workspace_id = a.workspace_id and i.audience_id = a.id and i.status = ${status}
        and i.archived_at is null and i.id > ${before} and i.id < ${after}
      order by i.audience_id ${order}, i.status ${order}, i.id ${order}`;
  return sql`
    select i.id from contact i
    where i.workspace_id = a.workspace_id and i.archived_at is null
      and (i.audience_id, i.id) > (a.id, ${before}::uuid) and (i.audience_id, i.id) < (a.id, ${after}::uuid)
    order by i.audience_id ${order}, i.id ${order}`;
}

function match(sql: Sql, who: Who): Statement {
  return "id" in who ? sql`c.id = ${who.id}` : sql`c.identity = ${who.identity}`;
}

function among(sql: Sql, visible: readonly string[] | null): Statement {
  return visible === null ? sql`` : sql`and c.audience_id = any(${[...visible]}::uuid[])`;
}

/** `propertiesText`: its properties as JSON, where they have been written so already. */
export type WrittenContact = Contact & { propertiesText?: string };

function propertiesText(contact: WrittenContact): string {
  return contact.propertiesText ?? JSON.stringify(contact.properties);
}

export function insertContacts(tx: Tx | Sql, contacts: readonly WrittenContact[]): Statement {
  const of = (pick: (contact: WrittenContact) => string | null): string => plainArray(contacts.map(pick));
  const textsOf = (pick: (contact: WrittenContact) => string | null) => texts(tx, contacts.map(pick));
  return tx`
    insert into contact (workspace_id, id, audience_id, identity, email, first_name, last_name, properties,
      tags, status,
                         created_at, updated_at, archived_at)
    select workspace_id, id, audience_id, identity, email, first_name, last_name, properties::jsonb,
      tags::text[], status,
           created_at, updated_at, archived_at
    from unnest(${of((c) => c.workspaceId)}::uuid[], ${of((c) => c.id)}::uuid[],
      ${of((c) => c.audienceId)}::uuid[],
                ${textsOf((c) => c.identity)}, ${textsOf((c) => c.email)}, ${textsOf((c) => c.firstName)},
                ${textsOf((c) => c.lastName)}, ${textsOf(propertiesText)},
                ${textsOf((c) => arrayText(c.tags))}, ${of((c) => c.status)}::text[],
                ${of((c) => c.createdAt.toISOString())}::timestamptz[],
                ${of((c) => c.updatedAt.toISOString())}::timestamptz[],
                ${of((c) => c.archivedAt?.toISOString() ?? null)}::timestamptz[])
      as c(workspace_id, id, audience_id, identity, email, first_name, last_name, properties, tags, status,
           created_at, updated_at, archived_at)`;
}

export function updateContacts(tx: Tx | Sql, contacts: readonly WrittenContact[]): Statement {
  const of = (pick: (contact: WrittenContact) => string | null): string => plainArray(contacts.map(pick));
  const textsOf = (pick: (contact: WrittenContact) => string | null) => texts(tx, contacts.map(pick));
  return tx`
    update contact c set first_name = v.first_name, last_name = v.last_name, properties = v.properties::jsonb,
      tags = v.tags::text[], status = v.status, updated_at = v.updated_at, archived_at = v.archived_at
    from unnest(${of((c) => c.workspaceId)}::uuid[], ${of((c) => c.id)}::uuid[],
      ${textsOf((c) => c.firstName)},
                ${textsOf((c) => c.lastName)}, ${textsOf(propertiesText)},
                ${textsOf((c) => arrayText(c.tags))}, ${of((c) => c.status)}::text[],
                ${of((c) => c.updatedAt.toISOString())}::timestamptz[],
                ${of((c) => c.archivedAt?.toISOString() ?? null)}::timestamptz[])
      as v(workspace_id, id, first_name, last_name, properties, tags, status, updated_at, archived_at)
    where c.workspace_id = v.workspace_id and c.id = v.id`;
}

export type NewConsent = Consent & { workspaceId: string; contactId: string; id: string; recordedAt: Date };

export function insertConsents(tx: Tx | Sql, consents: readonly NewConsent[]): Statement {
  const of = (pick: (consent: NewConsent) => string | null): string => plainArray(consents.map(pick));
  const textsOf = (pick: (consent: NewConsent) => string | null) => texts(tx, consents.map(pick));
  return tx`
    insert into consent (workspace_id, contact_id, id, kind, source, captured_at, ip_address, user_agent,
      wording,
                         text_version, key_id, recorded_at)
    select * from unnest(${of((c) => c.workspaceId)}::uuid[], ${of((c) => c.contactId)}::uuid[],
      ${of((c) => c.id)}::uuid[],
      ${of((c) => c.kind)}::text[], ${textsOf((c) => c.source)},
      ${of((c) => c.capturedAt.toISOString())}::timestamptz[],
      ${textsOf((c) => c.ipAddress)}, ${textsOf((c) => c.userAgent)}, ${textsOf((c) => c.wording)},
      ${textsOf((c) => c.textVersion)}, ${of((c) => c.keyId)}::uuid[],
      ${of((c) => c.recordedAt.toISOString())}::timestamptz[])`;
}

/** What a contact agreed to, oldest first: the whole record, or the newest of it. */
export async function listConsents(
  sql: Sql,
  workspaceId: string,
  contactId: string,
  newest: number | null = null,
): Promise<(Consent & { id: string; recordedAt: Date })[]> {
  return sql`
    select * from (
      select id, kind, source, captured_at as "capturedAt", ip_address as "ipAddress",
        user_agent as "userAgent", wording,
             text_version as "textVersion", key_id as "keyId", recorded_at as "recordedAt"
      from consent where workspace_id = ${workspaceId} and contact_id = ${contactId}
      order by id desc limit ${newest}
    ) c order by id`;
}

export function saveConfirmations(
  tx: Tx | Sql,
  confirmations: readonly (Confirmation & { workspaceId: string; contactId: string })[],
): Statement {
  const of = (pick: (one: (typeof confirmations)[number]) => string | number | boolean): string =>
    plainArray(confirmations.map(pick));
  return tx`
    insert into confirmation (workspace_id, contact_id, asked, asked_at, is_open, is_mailed)
    select * from unnest(${of((f) => f.workspaceId)}::uuid[], ${of((f) => f.contactId)}::uuid[],
      ${of((f) => f.asked)}::int[],
      ${of((f) => f.askedAt.toISOString())}::timestamptz[], ${of((f) => f.isOpen)}::bool[],
      ${of((f) => f.isMailed)}::bool[])
    on conflict (workspace_id, contact_id) do update set asked = excluded.asked, asked_at = excluded.asked_at,
      is_open = excluded.is_open, is_mailed = excluded.is_mailed`;
}

const heldKeyRow = {
  workspaceId: text,
  audienceId: text,
  hash: bytes,
};
export type HeldKey = RowOf<typeof heldKeyRow>;

/** An address of one audience, as a hash. */
export function heldName({ workspaceId, audienceId, hash }: HeldKey): string {
  return `${workspaceId} ${audienceId} ${hash.toString("hex")}`;
}

/** Which of these addresses must not be written to, by `heldName`. */
export async function findSuppressed(tx: Tx | Sql, keys: readonly HeldKey[]): Promise<Set<string>> {
  const rows = await typed(tx, heldKeyRow)`
    select s.workspace_id as "workspaceId", s.audience_id as "audienceId", s.address_hash as hash
      from suppression s
    join unnest(${keys.map((k) => k.workspaceId)}::uuid[], ${keys.map((k) => k.audienceId)}::uuid[],
                ${keys.map((k) => k.hash.toString("hex"))}::text[]) as k(workspace_id, audience_id, hash)
      on s.workspace_id = k.workspace_id and s.audience_id = k.audience_id
        and s.address_hash = decode(k.hash, 'hex')`.execute();
  return new Set(rows.map(heldName));
}

/**
 * Stores hashes of unsubscribed contacts, and deletes those of others. The caller has locked the audiences.
 */
export function keepSuppressed(
  tx: Tx | Sql,
  keys: readonly (HeldKey & { isUnsubscribed: boolean })[],
  now: Date,
): Statement[] {
  const columnsOf = (some: readonly HeldKey[]) => tx`
    unnest(${some.map((k) => k.workspaceId)}::uuid[], ${some.map((k) => k.audienceId)}::uuid[],
           ${some.map((k) => k.hash.toString("hex"))}::text[]) as k(workspace_id, audience_id, hash)`;
  const out = keys.filter(({ isUnsubscribed }) => isUnsubscribed);
  const free = keys.filter(({ isUnsubscribed }) => !isUnsubscribed);
  const statements: Statement[] = [];
  if (out.length > 0)
    statements.push(
      tx`
        insert into suppression (workspace_id, audience_id, address_hash, reason, since)
        select workspace_id, audience_id, decode(hash, 'hex'), 'unsubscribed', ${now} from ${columnsOf(out)}
        on conflict do nothing`,
      tx`
        update audience a set suppresses = true from ${columnsOf(out)}
        where a.workspace_id = k.workspace_id and a.id = k.audience_id and not a.suppresses`,
    );
  if (free.length > 0)
    statements.push(tx`
      delete from suppression s using ${columnsOf(free)}
      where s.workspace_id = k.workspace_id and s.audience_id = k.audience_id
        and s.address_hash = decode(k.hash, 'hex')`);
  return statements;
}

/**
 * Removes contacts and everything kept about them; the mail to them is the erasure's business. They are
 * locked in the order of their ids, as by everyone who keeps several from being erased.
 */
export function deleteContacts(
  tx: Tx | Sql,
  contacts: readonly { workspaceId: string; id: string }[],
  now: Date,
): Statement[] {
  const gone = () => tx`
    unnest(${contacts.map((c) => c.workspaceId)}::uuid[],
      ${contacts.map((c) => c.id)}::uuid[]) as g(workspace_id, id)`;
  return [
    // in the order of their keys, as events keep contacts from being erased
    tx`
      with held as materialized (
        select t.workspace_id, t.id from contact t join ${gone()} on t.workspace_id = g.workspace_id
          and t.id = g.id
        order by t.workspace_id, t.id for update of t
      )
      delete from contact t using held g where t.workspace_id = g.workspace_id and t.id = g.id`,
    tx`delete from consent t using ${gone()} where t.workspace_id = g.workspace_id and t.contact_id = g.id`,
    tx`delete from confirmation t using ${gone()} where t.workspace_id = g.workspace_id and t.contact_id = g.id`,
    ...forgetContacts(tx, contacts, now),
    ...forgetResponses(tx, contacts),
  ];
}

function columns(sql: Tx | Sql) {
  return sql`c.workspace_id as "workspaceId", c.id, c.audience_id as "audienceId", c.identity, c.email,
    c.first_name as "firstName", c.last_name as "lastName", c.properties, c.tags, c.status,
    c.created_at as "createdAt",
    c.updated_at as "updatedAt", c.archived_at as "archivedAt"`;
}

function heldOf({ asked, askedAt, isOpen, isMailed, ...contact }: HeldRow): LockedContact {
  const isAsked = asked !== null && askedAt !== null && isOpen !== null && isMailed !== null;
  return {
    contact,
    confirmation: isAsked ? { asked, askedAt, isOpen, isMailed } : null,
    isNew: false,
    isErased: false,
    consents: [],
  };
}

/** A Postgres array as text, for arrays in arrays of differing lengths. */
function arrayText(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
