/**
 * Domains that workspaces write from. Anybody may name a domain; one workspace at a time has it verified,
 * which a unique index decides. Every change raises the versions of the workspaces it concerns, so that what
 * is remembered of them is read again.
 */
import { newId } from "../../ids.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { boolean, integer, json, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

const UNIQUE_VIOLATION = "23505";

const senderDomainRow = {
  workspaceId: text,
  domain: text,
  /** What the TXT record of ownership says. */
  token: text,
  verifiedAt: orNull(timestamp),
  missingSince: orNull(timestamp),
  /** Since when mail from it has its return path below it. */
  returnPathAt: orNull(timestamp),
};
export type SenderDomain = RowOf<typeof senderDomainRow>;

export type RecordStatus = "verified" | "failed" | "temporary_failure";
/**
 * With what the API shows of it: `seen` says by its name what DNS showed of each record when it was last
 * asked.
 */
const shownDomainRow = {
  ...senderDomainRow,
  id: text,
  createdAt: timestamp,
  seen: json<Readonly<Record<string, RecordStatus>>>(),
  seenAt: orNull(timestamp),
  /** Its mail is signed with a key of its own. */
  isSigned: boolean,
};
export type ShownDomain = RowOf<typeof shownDomainRow>;

/** A workspace whose copies elsewhere are out of date. */
const raisedRow = {
  handle: text,
  version: integer,
};
export type Raised = RowOf<typeof raisedRow>;

/**
 * Names a domain; one that is named already stays as it is. In a transaction its row is locked, either way.
 */
export async function nameDomain(
  tx: Sql | Tx,
  workspaceId: string,
  domain: string,
  now: Date,
): Promise<void> {
  await tx`insert into domain (workspace_id, id, domain, token, created_at)
    values (${workspaceId}, ${newId(now.getTime())}, ${domain}, replace(gen_random_uuid()::text, '-', ''),
      ${now})
    on conflict (workspace_id, domain) do update set domain = excluded.domain
      where false`; // locks it and changes nothing
}

export async function findDomain(
  sql: Sql,
  workspaceId: string,
  domain: string,
): Promise<SenderDomain | null> {
  const [row] = await typed(sql, senderDomainRow)`
    select ${columns(sql)} from domain where workspace_id = ${workspaceId} and domain = ${domain}`;
  return row ?? null;
}

export async function listDomains(sql: Sql, workspaceId: string): Promise<SenderDomain[]> {
  return typed(sql, senderDomainRow)`
    select ${columns(sql)} from domain where workspace_id = ${workspaceId} order by domain`;
}

/** By its id or its name. */
export async function findShownDomain(
  sql: Sql,
  workspaceId: string,
  by: { id: string } | { domain: string },
): Promise<ShownDomain | null> {
  const [row] = await typed(sql, shownDomainRow)`
    select ${shownColumns(sql)} from domain
    where workspace_id = ${workspaceId} and ${"id" in by ? sql`id = ${by.id}` : sql`domain = ${by.domain}`}`;
  return row ?? null;
}

/** A page and one more row. */
export async function pageOfDomains(
  sql: Sql,
  workspaceId: string,
  { after, before, limit }: Page,
): Promise<ShownDomain[]> {
  const position =
    before !== null ? sql`and id > ${before}` : after !== null ? sql`and id < ${after}` : sql``;
  return typed(sql, shownDomainRow)`
    select ${shownColumns(sql)} from domain where workspace_id = ${workspaceId} ${position}
    order by id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

export async function countDomains(sql: Sql, workspaceId: string): Promise<number> {
  const [row] = await typed(sql, { count: integer })`
    select count(*)::int as count from domain where workspace_id = ${workspaceId}`;
  return row?.count ?? 0;
}

/** What DNS shows of each record, by its name. */
export async function noteSeen(
  sql: Sql,
  { workspaceId, domain }: Pick<SenderDomain, "workspaceId" | "domain">,
  seen: Readonly<Record<string, RecordStatus>>,
  now: Date,
): Promise<void> {
  await sql`update domain set seen = ${sql.json(seen)}, seen_at = ${now}
    where workspace_id = ${workspaceId} and domain = ${domain}`;
}

/** Who has this very domain verified. */
export async function ownerOf(sql: Sql, domain: string): Promise<SenderDomain | null> {
  const [row] = await typed(sql, senderDomainRow)`
    select ${columns(sql)} from domain where domain = ${domain} and verified_at is not null`;
  return row ?? null;
}

/** Whose the longest verified domain among these is. */
export async function workspaceOfDomains(
  sql: Sql | Tx,
  domains: readonly string[],
): Promise<{ workspaceId: string; handle: string; domain: string } | null> {
  const [row] = await typed(sql, { workspaceId: text, handle: text, domain: text })`
    select d.workspace_id as "workspaceId", w.handle, d.domain
    from domain d join workspace w on w.id = d.workspace_id
    where d.domain = any(${[...domains]}::text[]) and d.verified_at is not null
    order by length(d.domain) desc limit 1`;
  return row ?? null;
}

/** Which of these domains are verified, and for whom. */
export async function ownersOf(
  sql: Sql | Tx,
  domains: readonly string[],
): Promise<{ domain: string; workspaceId: string }[]> {
  return sql`
    select domain, workspace_id as "workspaceId" from domain
    where domain = any(${domains}::text[]) and verified_at is not null`;
}

/**
 * The domain is verified for `to`, and no longer for `from`, who had it. null: somebody else has it by now,
 * or `to` does not name it any more.
 */
export async function giveDomain(
  sql: Sql,
  domain: string,
  { to, from }: { to: string; from: string | null },
  { now, checkAt }: { now: Date; checkAt: Date },
): Promise<Raised[] | null> {
  const concerned = from === null ? [to] : [to, from];
  const given = sql.begin(async (tx) => {
    const named = await lockDomains(tx, domain, concerned);
    if (!named.includes(to)) return null;
    if (from !== null) await unverify(tx, from, domain);
    await tx`
      update domain set verified_at = coalesce(verified_at, ${now}), check_at = ${checkAt},
        missing_since = null
      where workspace_id = ${to} and domain = ${domain}`;
    return raiseVersions(tx, concerned, now);
  });
  return given.catch((error: { code?: string }) => {
    if (error.code === UNIQUE_VIOLATION) return null;
    throw error;
  });
}

/** The domain is verified for nobody. */
export function takeDomain(sql: Sql, workspaceId: string, domain: string, now: Date): Promise<Raised[]> {
  return changed(sql, workspaceId, domain, now, (tx) => unverify(tx, workspaceId, domain));
}

/**
 * The workspace does not write from it any more, and its keys are gone. Empty: it names no such domain (any
 * more).
 */
export function forgetDomain(sql: Sql, workspaceId: string, domain: string, now: Date): Promise<Raised[]> {
  return changed(sql, workspaceId, domain, now, async (tx) => {
    await tx`delete from domain_key where workspace_id = ${workspaceId} and domain = ${domain}`;
    await tx`delete from domain where workspace_id = ${workspaceId} and domain = ${domain}`;
  });
}

function changed(
  sql: Sql,
  workspaceId: string,
  domain: string,
  now: Date,
  change: (tx: Tx) => Promise<unknown>,
): Promise<Raised[]> {
  return sql.begin(async (tx) => {
    const named = await lockDomains(tx, domain, [workspaceId]);
    // what is named only now is another's to change: it is not locked here
    if (named.length === 0) return [];
    await change(tx);
    return raiseVersions(tx, [workspaceId], now);
  });
}

/** Verified domains whose proof is to be looked up again, the longest overdue first. */
export async function domainsToCheck(sql: Sql, now: Date, most: number): Promise<SenderDomain[]> {
  return typed(sql, senderDomainRow)`
    select ${columns(sql)} from domain where verified_at is not null and check_at <= ${now}
    order by check_at limit ${most}`;
}

/** What DNS said of a verified domain. */
export async function noteChecked(
  sql: Sql,
  { workspaceId, domain }: Pick<SenderDomain, "workspaceId" | "domain">,
  { checkAt, missingSince }: { checkAt: Date; missingSince: Date | null },
): Promise<void> {
  await sql`update domain set check_at = ${checkAt}, missing_since = ${missingSince}
    where workspace_id = ${workspaceId} and domain = ${domain} and verified_at is not null`;
}

/** Whether DNS shows a return path below the domain. */
export async function noteReturnPath(
  sql: Sql,
  { workspaceId, domain }: Pick<SenderDomain, "workspaceId" | "domain">,
  since: Date | null,
): Promise<void> {
  await sql`update domain set return_path_at = case when ${since}::timestamptz is null then null
      else coalesce(return_path_at, ${since}) end
    where workspace_id = ${workspaceId} and domain = ${domain}`;
}

/** How many domains are verified, and how many workspaces have none. */
export async function countVerified(sql: Sql): Promise<{ domains: number; without: number }> {
  const [row] = await typed(sql, { domains: integer, without: integer })`
    select (select count(*) from domain where verified_at is not null)::int as domains,
           (select count(*) from workspace w where not exists (
              select from domain d where d.workspace_id = w.id
                and d.verified_at is not null))::int as without`;
  return row ?? { domains: 0, without: 0 };
}

/**
 * The handle of a workspace, and of these domains the nearest that it has verified and that has a return path
 * below it.
 */
export async function returnPathOf(
  sql: Sql,
  workspaceId: string,
  domains: readonly string[],
): Promise<{ handle: string; domain: string | null }> {
  const [row] = await typed(sql, { handle: text, domain: orNull(text) })`
    select w.handle, (
      select d.domain from domain d
      where d.workspace_id = w.id and d.domain = any(${[...domains]}::text[])
        and d.verified_at is not null and d.return_path_at is not null
      order by length(d.domain) desc limit 1) as domain
    from workspace w where w.id = ${workspaceId}`;
  if (!row) throw new Error(`there is no workspace ${workspaceId}`);
  return row;
}

/** The rows of a domain that these workspaces name; hands back who does. */
export async function lockDomains(
  tx: Tx,
  domain: string,
  workspaceIds: readonly string[],
): Promise<string[]> {
  const rows = await typed(tx, { workspaceId: text })`
    select workspace_id as "workspaceId" from domain
    where domain = ${domain} and workspace_id = any(${workspaceIds}::uuid[])
      order by workspace_id for update`;
  return rows.map(({ workspaceId }) => workspaceId);
}

async function unverify(tx: Tx, workspaceId: string, domain: string): Promise<void> {
  await tx`update domain set verified_at = null, check_at = null, missing_since = null
    where workspace_id = ${workspaceId} and domain = ${domain}`;
}

async function raiseVersions(tx: Tx, workspaceIds: readonly string[], now: Date): Promise<Raised[]> {
  return typed(tx, raisedRow)`
    with held as materialized (
      select id from workspace where id = any(${workspaceIds}::uuid[]) order by id for no key update
    )
    update workspace w set version = w.version + 1, changed_at = ${now} from held where w.id = held.id
    returning w.handle, w.version::int`;
}

function shownColumns(sql: Sql) {
  return sql`${columns(sql)}, id, created_at as "createdAt", seen, seen_at as "seenAt",
    exists (select from domain_key k
      where k.workspace_id = domain.workspace_id and k.domain = domain.domain
        and k.state = 'signing') as "isSigned"`;
}

function columns(sql: Sql) {
  return sql`workspace_id as "workspaceId", domain, token, verified_at as "verifiedAt", missing_since as "missingSince",
    return_path_at as "returnPathAt"`;
}
