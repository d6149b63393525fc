/**
 * Addresses that a workspace does not write to, found by a keyed hash. One is in force until it is undone;
 * the row stays, as the history of the address. Nothing here is locked but rows of these tables and tallies.
 *
 * Promises: what is added twice is one row, the first. Undoing takes back the bounce or complaint that was
 * counted for it, once, on the day it was counted; by key only a few of each day, so that nobody clears the
 * evidence against their own list.
 */

import { parseMailbox } from "../../address.ts";
import { DAY_MS } from "../../clock.ts";
import type { HistoryEntry } from "../../rules/email.ts";
import { leftToUndoByKey, SUPPRESSION_REASONS, type SuppressionReason } from "../../rules/suppression.ts";
import { fencedNow } from "../cells/moving.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import {
  bytes,
  integer,
  json,
  omit,
  oneOf,
  orNull,
  pick,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import { mailStreamRow } from "./mailstream.ts";
import { addPartTallies, attemptThat, isCounted, PartTallies, partOfAttempt } from "./parttallies.ts";
import type { Page } from "./read.ts";
import { addSources, type CountedSource } from "./sources.ts";

const newSuppressionRow = {
  workspaceId: text,
  id: text,
  hash: bytes,
  /** Null of an erased person. */
  identity: orNull(text),
  email: orNull(text),
  /** A domain of senders, with those below it; empty: all. */
  scope: text,
  reason: oneOf(...SUPPRESSION_REASONS),
  evidence: orNull(text),
  emailId: orNull(text),
  /** The day on which it was counted as a bounce or complaint; null: not at all. */
  countedDay: orNull(integer),
};
export type NewSuppression = RowOf<typeof newSuppressionRow>;
const suppressionRow = { ...omit(newSuppressionRow, "hash", "countedDay"), createdAt: timestamp };
export type Suppression = RowOf<typeof suppressionRow>;

/** The hash of an address, or the id of its row. */
export type SuppressionKey = { hash: Buffer } | { id: string };

const EVIDENCE_CHARS_MAX = 500;
/** Counts are summed over workers; what is undone is one more of them. */
const UNDOING_WORKER = "undone";
/** With those of a workspace, while one of its keys undoes. */
const UNDOING_LOCKS = 7_165_202;

/** So many soft bounces within so many days. */
export type SoftSeries = { bounces: number; days: number };
/** Who is suppressed only if they have had that series by now. */
export type Wavering = { series: SoftSeries; who: readonly NewSuppression[] };

/** In one statement in the order of the hashes, as everybody locks them. */
export function insertSuppressions(
  tx: Tx | Sql,
  given: readonly NewSuppression[],
  now: Date,
  wavering: Wavering | null = null,
): Statement {
  const certain = new Set(given);
  const added = inOrder([...given, ...(wavering?.who ?? [])]);
  const of = <T>(pick: (one: NewSuppression) => T): T[] => added.map(pick);
  return tx`
    insert into suppressed_address (workspace_id, id, address_hash, identity, email, scope, reason, evidence,
      email_id,
                                    counted_day, created_at)
    select workspace_id, id, decode(hash, 'hex'), identity, email, scope, reason, evidence, email_id,
      counted_day, ${now}
    from unnest(${of((s) => s.workspaceId)}::uuid[], ${of((s) => s.id)}::uuid[],
      ${of((s) => s.hash.toString("hex"))}::text[],
                ${of((s) => s.identity)}::text[], ${of((s) => s.email)}::text[],
                ${of((s) => s.scope)}::text[],
                ${of((s) => s.reason)}::text[],
                ${of((s) => s.evidence?.slice(0, EVIDENCE_CHARS_MAX) ?? null)}::text[],
                ${of((s) => s.emailId)}::uuid[], ${of((s) => s.countedDay)}::int[],
                ${of((s) => Number(certain.has(s)))}::int[])
      with ordinality
      as s(workspace_id, id, hash, identity, email, scope, reason, evidence, email_id, counted_day, certain,
        n)
    ${wavering === null ? tx`` : tx`where certain = 1 or ${hasSeries(tx, wavering.series, now)}`}
    order by n
    on conflict (workspace_id, address_hash, scope) where undone_at is null do nothing`;
}

function hasSeries(tx: Tx | Sql, { bounces, days }: SoftSeries, now: Date) {
  const since = new Date(now.getTime() - days * DAY_MS);
  return tx`${bounces} <= (
    select count(*) from soft_bounce b
    where b.workspace_id = s.workspace_id and b.address_hash = decode(s.hash, 'hex') and b.at > ${since})`;
}

/**
 * Adds what reports tell. Of a mail that is not settled the same is told again, and counted only then: what
 * was added before is counted now, and what was undone since is neither added nor counted. Hands back those.
 */
export async function suppressReported(
  tx: Tx,
  given: readonly NewSuppression[],
  now: Date,
): Promise<ReadonlySet<NewSuppression>> {
  if (given.length === 0) return new Set();
  const rows = await typed(tx, toldRow)`
    select s.workspace_id as "workspaceId", s.id, s.identity, s.email_id as "emailId", s.reason,
      s.undone_at as "undoneAt"
    from suppressed_address s
    join unnest(${given.map(({ workspaceId }) => workspaceId)}::uuid[],
                ${given.map(({ identity }) => identity)}::text[]) as k(workspace_id, identity)
      on s.workspace_id = k.workspace_id and s.identity = k.identity
    where s.email_id = any(${given.flatMap(({ emailId }) => emailId ?? [])}::uuid[])
    order by s.id for update of s`;
  const told = new Map(rows.map((row) => [toldName(row), row]));
  const fresh = given.filter((one) => !told.has(toldName(one)));
  if (fresh.length > 0) await insertSuppressions(tx, fresh, now);
  const counted = given.flatMap((one) => {
    const row = told.get(toldName(one));
    return row && row.undoneAt === null && one.countedDay !== null ? [{ ...one, id: row.id }] : [];
  });
  if (counted.length > 0)
    await tx`
      update suppressed_address s set counted_day = c.day
      from unnest(${counted.map(({ workspaceId }) => workspaceId)}::uuid[],
                  ${counted.map(({ id }) => id)}::uuid[],
                  ${counted.map(({ countedDay }) => countedDay)}::int[]) as c(workspace_id, id, day)
      where s.workspace_id = c.workspace_id and s.id = c.id`;
  return new Set(given.filter((one) => told.get(toldName(one))?.undoneAt != null));
}
const toldRow = {
  ...pick(newSuppressionRow, "workspaceId", "id", "identity", "emailId", "reason"),
  undoneAt: orNull(timestamp),
};

/** Who it is about, and which mail. */
function toldName({
  workspaceId,
  identity,
  emailId,
  reason,
}: Omit<RowOf<typeof toldRow>, "id" | "undoneAt">) {
  return `${workspaceId} ${emailId} ${reason} ${identity}`;
}

/** One for each e-mail, whatever the number of its attempts. */
export function insertSoftBounces(tx: Tx | Sql, given: readonly NewSuppression[], now: Date): Statement {
  const bounced = inOrder(given, ({ emailId }) => emailId ?? "").filter(({ emailId }) => emailId !== null);
  return tx`
    insert into soft_bounce (workspace_id, address_hash, email_id, at)
    select workspace_id, decode(hash, 'hex'), email_id, ${now}
    from unnest(${bounced.map(({ workspaceId }) => workspaceId)}::uuid[],
                ${bounced.map(({ hash }) => hash.toString("hex"))}::text[],
                ${bounced.map(({ emailId }) => emailId)}::uuid[]) as b(workspace_id, hash, email_id)
    on conflict do nothing`;
}

/** Those that count for no series any more; says how many. */
export async function dropOldSoftBounces(tx: Tx, before: Date, most: number): Promise<number> {
  const fenced = await fencedNow(tx);
  const dropped = await tx`
    with old as materialized (
      select workspace_id, address_hash, email_id from soft_bounce
      where at < ${before} and workspace_id <> all(${fenced}::uuid[])
      limit ${most} for update skip locked
    )
    delete from soft_bounce b using old
    where b.workspace_id = old.workspace_id and b.address_hash = old.address_hash
      and b.email_id = old.email_id`;
  return dropped.count;
}

/** Each key once, in the order of the keys: the first that was given. `lastOf`: what ends a key. */
function inOrder(
  given: readonly NewSuppression[],
  lastOf: (one: NewSuppression) => string = ({ scope }) => scope,
): NewSuppression[] {
  const name = (one: NewSuppression) => `${one.workspaceId}${one.hash.toString("hex")}${lastOf(one)}`;
  const each = new Map<string, NewSuppression>();
  for (const one of given) if (!each.has(name(one))) each.set(name(one), one);
  return [...each.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
}

/** Adds them, and hands back the row in force of each, in the order given. */
export async function addSuppressions(
  sql: Sql,
  given: readonly NewSuppression[],
  now: Date,
): Promise<string[]> {
  const [first] = given;
  if (!first) return [];
  return sql.begin(async (tx) => {
    await insertSuppressions(tx, given, now);
    const rows = await typed(tx, { id: text, hash: text, scope: text })`
      select id, encode(address_hash, 'hex') as hash, scope from suppressed_address
      where workspace_id = ${first.workspaceId} and undone_at is null
        and address_hash in (${hashesOf(
          tx,
          given.map(({ hash }) => hash),
        )})`;
    const idOf = new Map(rows.map(({ id, hash, scope }) => [hash + scope, id]));
    return given.map(({ id, hash, scope }) => idOf.get(hash.toString("hex") + scope) ?? id);
  });
}

const barrierRow = pick(suppressionRow, "scope", "reason", "evidence", "createdAt");
export type Barrier = RowOf<typeof barrierRow>;

/** What bars each of these addresses, by `barrierName`. */
export async function findBarriers(
  tx: Tx | Sql,
  wanted: readonly { workspaceId: string; hash: Buffer }[],
): Promise<ReadonlyMap<string, Barrier[]>> {
  const rows = await typed(tx, { ...barrierRow, workspaceId: text, hash: text })`
    select s.workspace_id as "workspaceId", encode(s.address_hash, 'hex') as hash, s.scope, s.reason,
      s.evidence,
           s.created_at as "createdAt"
    from suppressed_address s
    join unnest(${wanted.map(({ workspaceId }) => workspaceId)}::uuid[],
                ${wanted.map(({ hash }) => hash.toString("hex"))}::text[]) as k(workspace_id, hash)
      on s.workspace_id = k.workspace_id and s.address_hash = decode(k.hash, 'hex')
    where s.undone_at is null`.execute();
  const barriers = new Map<string, Barrier[]>();
  for (const { workspaceId, hash, ...barrier } of rows) {
    const name = `${workspaceId} ${hash}`;
    const known = barriers.get(name);
    if (known) known.push(barrier);
    else barriers.set(name, [barrier]);
  }
  return barriers;
}

export function barrierName(workspaceId: string, hash: Buffer): string {
  return `${workspaceId} ${hash.toString("hex")}`;
}

export async function findSuppression(
  sql: Sql,
  workspaceId: string,
  key: SuppressionKey,
): Promise<Suppression | null> {
  const [row] = await typed(sql, suppressionRow)`
    select ${columns(sql)} from suppressed_address
    where workspace_id = ${workspaceId} and undone_at is null
      and ${"id" in key ? sql`id = ${key.id}` : sql`address_hash = ${key.hash}`}
    order by scope limit 1`;
  return row ?? null;
}

/** A page and one more row, newest first. */
export async function listSuppressions(
  sql: Sql,
  workspaceId: string,
  reason: SuppressionReason | null,
  { after, before, limit }: Page,
): Promise<Suppression[]> {
  const direction = before === null ? sql`desc` : sql`asc`;
  return typed(sql, suppressionRow)`
    select ${columns(sql)} from suppressed_address
    where workspace_id = ${workspaceId} and undone_at is null
      ${reason === null ? sql`` : sql`and reason = ${reason}`}
      ${after === null ? sql`` : sql`and id < ${after}`} ${before === null ? sql`` : sql`and id > ${before}`}
    order by id ${direction} limit ${limit + 1}`;
}

/** Takes them back, with what was counted for them; hands back the rows that were in force. */
export async function undoSuppressions(
  sql: Sql,
  workspaceId: string,
  keys: readonly SuppressionKey[],
  { now, by }: { now: Date; by: "key" | "operator" },
): Promise<{ id: string; hash: string }[]> {
  const ids = keys.flatMap((key) => ("id" in key ? [key.id] : []));
  const hashes = keys.flatMap((key) => ("hash" in key ? [key.hash] : []));
  return sql.begin(async (tx) => {
    // what another call takes back is seen
    if (by === "key") await tx`select pg_advisory_xact_lock(${UNDOING_LOCKS}, hashtext(${workspaceId}))`;
    const undone = await typed(tx, undoneRow)`
      with held as materialized (
        select id from suppressed_address
        where workspace_id = ${workspaceId} and undone_at is null
          and (id = any(${ids}::uuid[]) or address_hash in (${hashesOf(tx, hashes)}))
        order by id for update
      )
      update suppressed_address s set undone_at = ${now} from held
      where s.workspace_id = ${workspaceId} and s.id = held.id
      returning s.id, encode(s.address_hash, 'hex') as hash, s.email, s.email_id as "emailId", s.reason,
        s.counted_day as "countedDay"`;
    const all = undone.filter(isCountedOnce);
    const counted = by === "key" && all.length > 0 ? await thoseOfKey(tx, workspaceId, all) : all;
    if (counted.length > 0) await uncount(tx, workspaceId, counted);
    return undone.map(({ id, hash }) => ({ id, hash }));
  });
}

const undoneRow = {
  ...pick(suppressionRow, "id", "email", "emailId", "reason"),
  hash: text,
  countedDay: orNull(integer),
};
type Undone = RowOf<typeof undoneRow>;
type UndoneCount = Undone & { countedDay: number };

function isCountedOnce(one: Undone): one is UndoneCount {
  return one.countedDay !== null;
}

const countsOfDayRow = {
  day: integer,
  bounced: integer,
  bouncedBack: integer,
  complained: integer,
  complainedBack: integer,
};

/** Those that a key may take back. */
async function thoseOfKey(
  tx: Tx,
  workspaceId: string,
  counted: readonly UndoneCount[],
): Promise<UndoneCount[]> {
  const days = [...new Set(counted.map(({ countedDay }) => countedDay))];
  const rows = await typed(tx, countsOfDayRow)`
    select day,
      coalesce(sum(hard_bounced) filter (where worker <> ${UNDOING_WORKER}), 0)::int as bounced,
      -coalesce(sum(hard_bounced) filter (where worker = ${UNDOING_WORKER}), 0)::int as "bouncedBack",
      coalesce(sum(complained) filter (where worker <> ${UNDOING_WORKER}), 0)::int as complained,
      -coalesce(sum(complained) filter (where worker = ${UNDOING_WORKER}), 0)::int as "complainedBack"
    from tally where workspace_id = ${workspaceId} and day = any(${days}::int[])
    group by day`;
  const left = new Map<string, number>();
  for (const { day, bounced, bouncedBack, complained, complainedBack } of rows) {
    left.set(`bounce ${day}`, leftToUndoByKey({ counted: bounced, undone: bouncedBack }));
    left.set(`complaint ${day}`, leftToUndoByKey({ counted: complained, undone: complainedBack }));
  }
  return counted.filter(({ reason, countedDay }) => {
    const kind = `${reason} ${countedDay}`;
    const more = left.get(kind) ?? 0;
    left.set(kind, more - 1);
    return more > 0;
  });
}

/**
 * Takes it back wherever it was counted. Of an e-mail that is kept no longer, only from the counts of the
 * workspace.
 */
async function uncount(tx: Tx, workspaceId: string, counted: readonly UndoneCount[]): Promise<void> {
  const emails = await emailsOf(tx, workspaceId, counted);
  const parts = new PartTallies();
  const sources: CountedSource[] = [];
  const late = counted.map((one): boolean => {
    const { email: address, emailId, reason, countedDay: day } = one;
    const email = emails.get(emailId ?? "");
    const source = address === null ? undefined : parseMailbox(address)?.domain;
    if (reason === "complaint" && source !== undefined)
      sources.push({ workspaceId, day, source, complained: -1, fblDelivered: 0 });
    if (!email) return false;
    const atOnce = reason === "bounce" ? attemptThat("bounced", email.history, address) : null;
    const isLate = reason === "bounce" && atOnce === null;
    const part = partOfAttempt(email, atOnce ?? attemptThat("delivered", email.history, address));
    const counts =
      reason === "complaint" ? { complained: -1 } : { hardBounced: -1, ...(isLate && { lateBounced: -1 }) };
    if (isCounted(part)) parts.add(workspaceId, day, part, counts);
    return isLate;
  });
  await tx`
    insert into tally as t (workspace_id, day, worker, hard_bounced, late_bounced, complained)
    select ${workspaceId}, day, ${UNDOING_WORKER}, -count(*) filter (where reason = 'bounce'),
           -count(*) filter (where is_late = 1), -count(*) filter (where reason = 'complaint')
    from unnest(${counted.map(({ countedDay }) => countedDay)}::int[],
      ${counted.map(({ reason }) => reason)}::text[],
                ${late.map(Number)}::int[]) as u(day, reason, is_late)
    group by day order by day
    on conflict (workspace_id, day, worker) do update set
      hard_bounced = t.hard_bounced + excluded.hard_bounced,
      late_bounced = t.late_bounced + excluded.late_bounced,
      complained = t.complained + excluded.complained`;
  if (parts.all.length > 0) await addPartTallies(tx, UNDOING_WORKER, parts.all);
  if (sources.length > 0) await addSources(tx, UNDOING_WORKER, sources);
}

const countedEmailRow = { ...mailStreamRow, id: text, history: orNull(json<HistoryEntry[]>()) };
type CountedEmail = RowOf<typeof countedEmailRow>;

async function emailsOf(
  tx: Tx,
  workspaceId: string,
  counted: readonly UndoneCount[],
): Promise<Map<string, CountedEmail>> {
  const ids = counted.flatMap(({ emailId }) => emailId ?? []);
  const rows = await typed(tx, countedEmailRow)`
    select id, bulk, stream, history from email where workspace_id = ${workspaceId}
      and id = any(${ids}::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}

/** Of erased people only the hash stays. Whoever calls holds the erasure. */
export function forgetSuppressed(
  tx: Tx | Sql,
  workspaceId: string,
  identities: readonly string[],
): Statement {
  return tx`
    with held as materialized (
      select id from suppressed_address where workspace_id = ${workspaceId}
        and identity = any(${identities}::text[])
      order by id for update
    )
    update suppressed_address s set identity = null, email = null, evidence = null, email_id = null from held
    where s.workspace_id = ${workspaceId} and s.id = held.id`;
}

export type Complainer = { workspaceId: string; identity: string; evidence: string | null };

/**
 * Whoever complains wants no more mail of any audience. Before anything else is locked: contacts come first.
 */
export async function unsubscribeComplainers(
  tx: Tx,
  complainers: readonly Complainer[],
  newId: () => string,
  now: Date,
): Promise<void> {
  const who = () => tx`
    unnest(${complainers.map((c) => c.workspaceId)}::uuid[], ${complainers.map((c) => c.identity)}::text[],
           ${complainers.map((c) => c.evidence?.slice(0, EVIDENCE_CHARS_MAX) ?? null)}::text[]) as w(workspace_id, identity, evidence)`;
  await tx`
    select from audience a
    where (a.workspace_id, a.id) in (
      select c.workspace_id, c.audience_id from contact c join ${who()} on c.workspace_id = w.workspace_id
        and c.identity = w.identity)
    order by a.workspace_id, a.id for update`;
  const gone = await typed(tx, { workspaceId: text, id: text, evidence: orNull(text) })`
    with held as materialized (
      select c.workspace_id, c.id, w.evidence from contact c
      join ${who()} on c.workspace_id = w.workspace_id and c.identity = w.identity
      where c.status <> 'unsubscribed' order by c.workspace_id, c.id for update of c
    )
    update contact c set status = 'unsubscribed', updated_at = ${now} from held
    where c.workspace_id = held.workspace_id and c.id = held.id
    returning c.workspace_id as "workspaceId", c.id, held.evidence`;
  // the link that confirms opens nothing any more
  await tx`
    update confirmation f set is_open = false, is_mailed = true
    from unnest(${gone.map((g) => g.workspaceId)}::uuid[], ${gone.map((g) => g.id)}::uuid[]) as c(workspace_id, id)
    where f.workspace_id = c.workspace_id and f.contact_id = c.id`;
  await tx`
    insert into consent (workspace_id, contact_id, id, kind, source, captured_at, wording, recorded_at)
    select workspace_id, contact_id, id, 'withdrawn', 'complaint', ${now}, evidence, ${now}
    from unnest(${gone.map((g) => g.workspaceId)}::uuid[], ${gone.map((g) => g.id)}::uuid[],
      ${gone.map(newId)}::uuid[],
                ${gone.map((g) => g.evidence)}::text[]) as c(workspace_id, contact_id, id, evidence)`;
}

/** Complaints: nobody writes to them any more, and they are in no audience. */
export async function addComplaints(
  sql: Sql,
  given: readonly (NewSuppression & { identity: string })[],
  newId: () => string,
  now: Date,
): Promise<void> {
  await sql.begin(async (tx) => {
    await unsubscribeComplainers(tx, given, newId, now);
    await insertSuppressions(tx, given, now);
  });
}

function hashesOf(sql: Tx | Sql, hashes: readonly Buffer[]): Statement {
  return sql`select decode(hash, 'hex') from unnest(${hashes.map((hash) => hash.toString("hex"))}::text[]) as h(hash)`;
}

function columns(sql: Sql) {
  return sql`workspace_id as "workspaceId", id, identity, email, scope, reason, evidence, email_id as "emailId",
    created_at as "createdAt"`;
}
