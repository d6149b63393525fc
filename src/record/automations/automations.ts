/** Automations and their versions: a version is written once and never changed. */
import type { Filter } from "../../rules/filters.ts";
import { parseSpan } from "../../rules/spans.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { integer, json, oneOf, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

const UNIQUE_VIOLATION = "23505";

export const AUTOMATIONS_MAX = 200;

/**
 * Whose number is this and a workspace: shared by transactions that may start its runs, until they end. Who
 * then takes it alone has waited for all that saw an automation as it was before.
 */
const STARTING_LOCKS = 7_165_201;

/** Before the listeners are read. */
export function beginStarting(tx: Tx | Sql, workspaceIds: readonly string[]): Statement {
  return tx`
    select pg_advisory_xact_lock_shared(${STARTING_LOCKS}, hashtext(id))
    from unnest(${[...new Set(workspaceIds)].sort()}::text[]) with ordinality as w(id, n) order by n`;
}

/** In a transaction that has locked nothing: those waited for may wait for its locks. */
export async function awaitStarting(sql: Sql, workspaceId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${STARTING_LOCKS}, hashtext(${workspaceId}))`;
}

/** What decides who enters, as far as the record has to know it. */
export type EntryTerms = {
  name: string;
  audience_id: string;
  event: string;
  entry: "once" | "one_active" | "every" | { cooldown: string };
};

const storedAutomationRow = { id: text, name: text, version: integer, document: text };

const automationRow = {
  id: text,
  name: text,
  audienceId: text,
  event: text,
  entry: text,
  cooldownMs: orNull(integer),
  version: integer,
  state: oneOf("active", "paused"),
  createdAt: timestamp,
  updatedAt: timestamp,
};
export type AutomationRow = RowOf<typeof automationRow>;

export type AppliedVersion =
  | { kind: "created" | "changed" | "unchanged"; id: string; version: number }
  | { kind: "no audience" }
  | { kind: "too many" }
  /** Another automation has this name. */
  | { kind: "taken" }
  /** The one that was meant is there no longer. */
  | { kind: "gone" }
  /** It has changed since. */
  | { kind: "stale" };

/**
 * Which automation a document is for: the one of its name, or else a new one; a new one alone; this one, as
 * it was read.
 */
export type MeantAutomation = "named" | "new" | { id: string; version: number; name: string };

/** Makes an automation, in this state, or its next version; runs that are under way keep theirs. */
export async function applyAutomation(
  sql: Sql,
  workspaceId: string,
  id: string,
  {
    terms,
    filters,
    document,
    state = "active",
    meant = "named",
  }: {
    terms: EntryTerms;
    filters: unknown;
    document: unknown;
    state?: AutomationRow["state"];
    meant?: MeantAutomation;
  },
  now: Date,
): Promise<AppliedVersion> {
  const { name, audience_id: audienceId, event, entry } = terms;
  const entryName = typeof entry === "object" ? "cooldown" : entry;
  const cooldownMs = typeof entry === "object" ? parseSpan(entry.cooldown) : null;
  const filtersText = JSON.stringify(filters);
  const text = JSON.stringify(document);
  const apply = async (tx: Tx): Promise<AppliedVersion> => {
    const [audience] = await tx`
      select 1 from audience where workspace_id = ${workspaceId} and id = ${audienceId} and deleted_at is null
      for key share`;
    if (!audience) return { kind: "no audience" };
    // one apply at a time in a workspace: the count below would not hold otherwise
    await tx`select 1 from workspace where id = ${workspaceId} for no key update`;
    const [known] = await typed(tx, storedAutomationRow)`
      select a.id, a.name, a.version, v.document::text from automation a
      join automation_version v on v.workspace_id = a.workspace_id and v.automation_id = a.id
        and v.version = a.version
      where a.workspace_id = ${workspaceId} and ${typeof meant === "object" ? tx`a.id = ${meant.id}` : tx`a.name = ${name}`}
      for no key update of a`;
    if (meant === "new" && known) return { kind: "taken" };
    if (typeof meant === "object") {
      if (!known) return { kind: "gone" };
      if (known.version !== meant.version || known.name !== meant.name) return { kind: "stale" };
    }
    if (known?.name === name && known.document === text)
      return { kind: "unchanged", id: known.id, version: known.version };
    if (!known) {
      const [count] = await typed(tx, { n: integer })`
        select count(*)::int as n from automation where workspace_id = ${workspaceId}`;
      if ((count?.n ?? 0) >= AUTOMATIONS_MAX) return { kind: "too many" };
    }
    const version = (known?.version ?? 0) + 1;
    const automationId = known?.id ?? id;
    await tx`
      insert into automation (workspace_id, id, name, audience_id, event, entry, cooldown_ms, filters,
        version, state,
                              created_at, updated_at)
      values (${workspaceId}, ${automationId}, ${name}, ${audienceId}, ${event}, ${entryName}, ${cooldownMs},
              ${filtersText}::text::json, ${version}, ${state}, ${now}, ${now})
      on conflict (workspace_id, id) do update set name = excluded.name, audience_id = excluded.audience_id,
        event = excluded.event,
        entry = excluded.entry, cooldown_ms = excluded.cooldown_ms, filters = excluded.filters,
        version = excluded.version, updated_at = excluded.updated_at`;
    await tx`
      insert into automation_version (workspace_id, automation_id, version, document, created_at)
      values (${workspaceId}, ${automationId}, ${version}, ${text}::text::json, ${now})`;
    return { kind: known ? "changed" : "created", id: automationId, version };
  };
  return sql.begin(apply).catch((error: { code?: string }): AppliedVersion => {
    if (error.code === UNIQUE_VIOLATION) return { kind: "taken" };
    throw error;
  });
}

export async function listAutomations(sql: Sql, workspaceId: string): Promise<AutomationRow[]> {
  return typed(sql, automationRow)`
    select ${columns(sql)} from automation a where a.workspace_id = ${workspaceId} order by a.id desc`;
}

/** A page and one more row; null: of every audience, in any state. */
export async function pageOfAutomations(
  sql: Sql,
  workspaceId: string,
  audienceIds: readonly string[] | null,
  state: AutomationRow["state"] | null,
  { after, before, limit }: Page,
): Promise<AutomationRow[]> {
  const position =
    before !== null ? sql`and a.id > ${before}` : after !== null ? sql`and a.id < ${after}` : sql``;
  const visible = audienceIds === null ? sql`` : sql`and a.audience_id = any(${[...audienceIds]}::uuid[])`;
  return typed(sql, automationRow)`
    select ${columns(sql)} from automation a
    where a.workspace_id = ${workspaceId} ${visible} ${state === null ? sql`` : sql`and a.state = ${state}`} ${position}
    order by a.id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

/** False: another has this name. */
export async function renameAutomation(
  sql: Sql,
  workspaceId: string,
  id: string,
  name: string,
  now: Date,
): Promise<boolean> {
  const rename = async (tx: Tx): Promise<boolean> => {
    // two that swap their names would wait for each other
    await tx`select 1 from workspace where id = ${workspaceId} for no key update`;
    await tx`update automation set name = ${name}, updated_at = ${now}
      where workspace_id = ${workspaceId} and id = ${id}`;
    return true;
  };
  return sql.begin(rename).catch((error: { code?: string }) => {
    if (error.code === UNIQUE_VIOLATION) return false;
    throw error;
  });
}

/** With its versions: a run that is still under way ends at its next step. */
export async function deleteAutomation(sql: Sql, workspaceId: string, id: string): Promise<void> {
  await sql`delete from automation where workspace_id = ${workspaceId} and id = ${id}`;
}

/** By its id or its name. */
export async function findAutomation(
  sql: Sql,
  workspaceId: string,
  ref: string,
): Promise<(AutomationRow & { document: unknown }) | null> {
  const [row] = await typed(sql, { ...automationRow, document: orNull(json<unknown>()) })`
    select ${columns(sql)}, v.document from automation a
    join automation_version v on v.workspace_id = a.workspace_id and v.automation_id = a.id
      and v.version = a.version
    where a.workspace_id = ${workspaceId} and (a.id::text = lower(${ref}) or a.name = ${ref})
    order by a.id::text = lower(${ref}) desc limit 1`;
  return row ?? null;
}

/** A paused automation starts no runs; those under way go on. */
export async function setAutomationState(
  sql: Sql,
  workspaceId: string,
  id: string,
  state: "active" | "paused",
  now: Date,
): Promise<void> {
  await sql`update automation set state = ${state}, updated_at = ${now}
    where workspace_id = ${workspaceId} and id = ${id} and state <> ${state}`;
}

export type VersionKey = { workspaceId: string; automationId: string; version: number };

export async function readDocuments(
  sql: Sql,
  keys: readonly VersionKey[],
): Promise<(VersionKey & { document: unknown; documentChars: number })[]> {
  return sql`
    select v.workspace_id as "workspaceId", v.automation_id as "automationId", v.version, v.document,
      length(v.document::text) as "documentChars"
    from automation_version v
    join unnest(${keys.map((k) => k.workspaceId)}::uuid[], ${keys.map((k) => k.automationId)}::uuid[],
                ${keys.map((k) => k.version)}::int[]) as k(workspace_id, automation_id, version)
      using (workspace_id, automation_id, version)`;
}

/** An active automation that an event may start, as the event's commit sees it. */
const eventListenerRow = {
  workspaceId: text,
  audienceId: text,
  event: text,
  id: text,
  version: integer,
  updatedAt: timestamp,
  entry: oneOf("once", "one_active", "every", "cooldown"),
  cooldownMs: orNull(integer),
};
export type EventListener = RowOf<typeof eventListenerRow>;

/** With its filters, and how long they are as JSON. */
const wholeListenerRow = { ...eventListenerRow, filters: json<readonly Filter[]>(), filterChars: integer };
export type WholeListener = RowOf<typeof wholeListenerRow>;

type Listened = { workspaceId: string; audienceId: string; name: string };

export async function findListeners(tx: Tx | Sql, events: readonly Listened[]): Promise<EventListener[]> {
  return typed(tx, eventListenerRow)`
    select ${listenerColumns(tx)} ${listeningTo(tx, events)} order by a.id`.execute();
}

/** Those of them that still listen, as they are now. */
export async function readListeners(
  tx: Tx | Sql,
  events: readonly Listened[],
  ids: readonly string[],
): Promise<WholeListener[]> {
  return typed(tx, wholeListenerRow)`
    select ${listenerColumns(tx)}, a.filters, length(a.filters::text) as "filterChars"
    ${listeningTo(tx, events)} and a.id = any(${[...ids]}::uuid[])`.execute();
}

function listenerColumns(tx: Tx | Sql): Statement {
  return tx`a.workspace_id as "workspaceId", a.audience_id as "audienceId", a.event, a.id, a.version,
    a.updated_at as "updatedAt", a.entry, a.cooldown_ms::float8 as "cooldownMs"`;
}

function listeningTo(tx: Tx | Sql, events: readonly Listened[]): Statement {
  return tx`
    from unnest(${events.map((e) => e.workspaceId)}::uuid[], ${events.map((e) => e.audienceId)}::uuid[],
                ${events.map((e) => e.name)}::text[]) as e(workspace_id, audience_id, name)
    join automation a on a.workspace_id = e.workspace_id and a.audience_id = e.audience_id
      and a.event = e.name
    where a.state = 'active'`;
}

function columns(sql: Sql) {
  return sql`a.id, a.name, a.audience_id as "audienceId", a.event, a.entry, a.cooldown_ms::float8 as "cooldownMs", a.version,
    a.state, a.created_at as "createdAt", a.updated_at as "updatedAt"`;
}
