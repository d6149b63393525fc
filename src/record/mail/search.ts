/**
 * E-mails that match a filter, a page at a time, newest first or oldest first.
 *
 * Promises: a page reads a bounded number of rows, whatever is looked for and whatever the workspace holds.
 * It may hold fewer than match, or none; `next` is where to go on, and null when nothing is left.
 *
 * Where terms are looked for, the search blocks say where they occur, and only e-mails that are in no block
 * yet are all looked at. A status that few have stands in tables of its own: these e-mails come first.
 */
import { floorId, idBefore } from "../../ids.ts";
import { BULK, isBuiltIn } from "../../rules/stream.ts";
import { wordsOf } from "../../rules/words.ts";
import type { Sql, Statement } from "../db/connect.ts";
import { text, typed } from "../db/rowshape.ts";
import { type EmailRow, type Page, readEmails } from "./read.ts";
import { BLOCK_EMAILS, blocksWith, endOfBlocks, type IdRange, type Term, within } from "./searchblocks.ts";

/** What a list of e-mails is narrowed to; null: to nothing. */
export type EmailFilter = {
  keyId: string | null;
  status: string | null;
  /** Whoever is named in to, cc or bcc: the ways to write the address. */
  recipient: readonly string[] | null;
  /** Its words, in any order. */
  subject: string | null;
  tag: { name: string; value: string } | null;
  stream: string | null;
  since: Date | null;
  until: Date | null;
};

/** So many e-mails are looked at for one page, and as many again in blocks: about 10 ms each. */
export const WALK_MAX = 5_000;
/** Tags are with the bodies: to look at one costs three times as much. */
const TAG_WALK_MAX = 1_500;
/** Of a status that few have, before the blocks are asked. */
const FEW_MAX = 1_000;
/** With more, e-mails of a workspace that are in bags are found among all. */
const BAGS_MAX = WALK_MAX / 100;
/** Ids are made up to so long before the commit that says when an e-mail was accepted. */
const ID_AGE_MS_MAX = 60_000;
const ID_FIRST = "00000000-0000-0000-0000-000000000000";
const ID_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff";

export type FoundEmails = { rows: EmailRow[]; isMore: boolean; next: string | null };

type PageSearch = {
  sql: Sql;
  workspaceId: string;
  filter: EmailFilter;
  order: Statement;
  isBackwards: boolean;
  most: number;
  limit: number;
};

export async function searchEmails(
  sql: Sql,
  workspaceId: string,
  filter: EmailFilter,
  page: Page,
): Promise<FoundEmails> {
  const { before, limit } = page;
  const isBackwards = before !== null;
  const order = isBackwards ? sql`asc` : sql`desc`;
  const most = filter.tag === null ? WALK_MAX : TAG_WALK_MAX;
  const search: PageSearch = { sql, workspaceId, filter, order, isBackwards, most, limit };
  const { ids, last } = await find(search, rangeOf(filter, page));
  const rows = await readEmails(sql, workspaceId, ids.slice(0, limit), order);
  if (ids.length > limit) return { rows, isMore: true, next: ids[limit - 1] ?? null };
  return { rows, isMore: last !== null, next: last };
}

/** `last`: up to it everything is found; null: everything there is. */
type Found = { ids: string[]; last: string | null };

const END: Found = { ids: [], last: null };

/** Where the page may begin and end. */
function rangeOf({ since, until }: EmailFilter, { after, before }: Page): IdRange {
  const from = since && idBefore(floorId(since.getTime() - ID_AGE_MS_MAX));
  const to = until && floorId(until.getTime());
  return {
    over: greater(before ?? ID_FIRST, from ?? ID_FIRST),
    under: lesser(after ?? ID_LAST, to ?? ID_LAST),
  };
}

async function find(search: PageSearch, range: IdRange): Promise<Found> {
  const { sql, workspaceId, filter, isBackwards, limit } = search;
  const terms = termsOf(filter);
  const few = candidatesOf(search, range, await hasFewBags(search));
  const end = terms.length > 0 ? await endOfBlocks(sql, workspaceId) : null;
  const inBlocks = (under: IdRange, wanted: number) => findInBlocks(search, terms, under, wanted);
  if (end === null) return walk(search, range, few);
  if (few !== null) {
    const near = await walk({ ...search, most: Math.min(search.most, FEW_MAX) }, range, few);
    if (near.last === null || near.ids.length > limit || near.last >= end) return near;
    return joined(near, await inBlocks(beyond(search, range, near.last), limit + 1 - near.ids.length));
  }
  const blocks: IdRange = { over: range.over, under: lesser(range.under, end) };
  const tail: IdRange = { over: greater(range.over, idBefore(end)), under: range.under };
  if (isBackwards) {
    const found = blocks.over < blocks.under ? await inBlocks(blocks, limit + 1) : END;
    if (found.ids.length > limit || found.last !== null) return found;
    return joined(found, await walk(search, tail, null));
  }
  const found = tail.over < tail.under ? await walk(search, tail, null) : END;
  if (found.ids.length > limit || found.last !== null) return found;
  return joined(found, await inBlocks(blocks, limit + 1 - found.ids.length));
}

function joined(first: Found, second: Found): Found {
  return { ids: [...first.ids, ...second.ids], last: second.last };
}

function beyond({ isBackwards }: PageSearch, range: IdRange, last: string): IdRange {
  return isBackwards ? { ...range, over: last } : { ...range, under: last };
}

function greater(one: string, other: string): string {
  return one > other ? one : other;
}

function lesser(one: string, other: string): string {
  return one < other ? one : other;
}

/** `few`: the candidates; null: all e-mails of the range. */
async function walk(search: PageSearch, range: IdRange, few: Statement | null): Promise<Found> {
  const { sql, workspaceId, filter, order, most, limit } = search;
  const all = sql`from email where workspace_id = ${workspaceId} and ${within(sql, sql`id`, range)} order by id ${order}`;
  // `offset` keeps it from being joined in any other way than row by row, until the page is full
  const emails =
    few === null
      ? sql`(select * ${all} limit ${most}) c cross join lateral (select c.*) e`
      : sql`(select id from (${few}) c order by id ${order} limit ${most}) c cross join lateral
          (select * from email where workspace_id = ${workspaceId} and id = c.id offset 0) e`;
  const found = await typed(sql, { id: text })`
    select c.id from ${emails} where ${matches(sql, filter)} order by c.id ${order} limit ${limit + 1}`;
  if (found.length > limit) return { ids: idsOf(found), last: null };
  const [last] = await typed(sql, { id: text })`
    select id from (${few ?? sql`select id ${all}`}) c order by id ${order} offset ${most - 1} limit 1`;
  return { ids: idsOf(found), last: last?.id ?? null };
}

/** Ids of all e-mails with the status, and of some that had it or wait for the same; null: of too many. */
function candidatesOf(search: PageSearch, range: IdRange, hasFewBags: boolean): Statement | null {
  const { sql, filter } = search;
  const due = (why: string) => dueFor(search, range, why);
  switch (filter.status) {
    case "bounced":
    case "complained":
    case "failed":
    case "suppressed":
    case "canceled":
      return endingsOf(search, range, filter.status);
    case "scheduled":
      return due("scheduled");
    case "waiting":
      return sql`${due("cap_hour")} union all ${due("cap_day")} union all ${due("quota_month")}`;
    case "accepted":
      return hasFewBags ? travelling(search, range) : null;
    case "deferred":
      return hasFewBags ? sql`${due("deferred")} union all (${travelling(search, range)})` : null;
    default:
      return null;
  }
}

function endingsOf({ sql, workspaceId, order }: PageSearch, range: IdRange, status: string): Statement {
  return sql`select id from email_ending where workspace_id = ${workspaceId} and status = ${status}
    and ${within(sql, sql`id`, range)} order by id ${order}`;
}

function dueFor({ sql, workspaceId, order, most }: PageSearch, range: IdRange, why: string): Statement {
  return sql`(select email_id as id from due where workspace_id = ${workspaceId} and why = ${why}
    and ${within(sql, sql`email_id`, range)} order by email_id ${order} limit ${most})`;
}

function travelling({ sql, workspaceId }: PageSearch, range: IdRange): Statement {
  return sql`select t.id from bag, unnest(email_ids) as t(id)
    where workspace_id = ${workspaceId} and ${within(sql, sql`t.id`, range)}`;
}

async function hasFewBags({ sql, workspaceId, filter }: PageSearch): Promise<boolean> {
  if (filter.status !== "accepted" && filter.status !== "deferred") return true;
  const bags = await sql`select from bag where workspace_id = ${workspaceId} limit ${BAGS_MAX + 1}`;
  return bags.length <= BAGS_MAX;
}

/** In the blocks of the range in which everything occurs that is looked for. */
async function findInBlocks(
  search: PageSearch,
  terms: readonly (readonly Term[])[],
  range: IdRange,
  wanted: number,
): Promise<Found> {
  const { sql, workspaceId, filter, order, most, isBackwards } = search;
  const blocksMax = Math.ceil(most / BLOCK_EMAILS);
  const blocks = await blocksWith(sql, workspaceId, terms, range, isBackwards, blocksMax + 1);
  const some = blocks.slice(0, blocksMax);
  const [first, last] = isBackwards ? [some[0], some.at(-1)] : [some.at(-1), some[0]];
  if (!first || !last) return END;
  const narrowed: IdRange = {
    over: greater(range.over, idBefore(first.fromId)),
    under: lesser(range.under, last.untilId),
  };
  const found = await typed(sql, { id: text })`
    select e.id from unnest(${some.map(({ fromId }) => fromId)}::uuid[],
      ${some.map(({ untilId }) => untilId)}::uuid[])
      as b(from_id, until_id)
    cross join lateral (
      select * from email where workspace_id = ${workspaceId} and id >= b.from_id and id < b.until_id
        and ${within(sql, sql`id`, narrowed)} offset 0) e
    where ${matches(sql, filter)} order by e.id ${order} limit ${wanted}`;
  const isMore = blocks.length > blocksMax;
  return { ids: idsOf(found), last: isMore ? (isBackwards ? idBefore(last.untilId) : first.fromId) : null };
}

function idsOf(rows: readonly { id: string }[]): string[] {
  return rows.map(({ id }) => id);
}

/** What has to occur; of each the ways in which it may. */
function termsOf({ keyId, recipient, subject, tag, stream }: EmailFilter): Term[][] {
  return [
    ...(keyId === null ? [] : [[{ kind: "key", value: keyId } as const]]),
    ...(recipient === null ? [] : [recipient.map((value) => ({ kind: "to", value }) as const)]),
    ...wordsOf(subject ?? "").map((value) => [{ kind: "word", value } as const]),
    ...(stream === null ? [] : [[{ kind: "stream", value: stream } as const]]),
    ...(tag === null ? [] : [[{ kind: "tag", value: `${tag.name}:${tag.value}` } as const]]),
  ];
}

function matches(
  sql: Sql,
  { keyId, status, recipient, subject, tag, stream, since, until }: EmailFilter,
): Statement {
  return sql`true ${keyId === null ? sql`` : sql`and e.key_id = ${keyId}`}
    ${status === null ? sql`` : sql`and e.status = ${status}`}
    ${stream === null ? sql`` : isBuiltIn(stream) ? sql`and e.stream = '' and e.bulk = ${stream === BULK}` : sql`and e.stream = ${stream}`}
    ${since === null ? sql`` : sql`and e.created_at >= ${since}`} ${until === null ? sql`` : sql`and e.created_at < ${until}`}
    ${recipient === null ? sql`` : sql`and ${namesOneOf(sql, recipient)}`}
    ${subject === null ? sql`` : sql`and ${hasWords(sql, subject)}`}
    ${tag === null ? sql`` : sql`and ${hasTag(sql, tag)}`}`;
}

/**
 * What has no word is looked for as it is. To look through the head costs a fifth of taking the subject out
 * of it.
 */
function hasWords(sql: Sql, subject: string): Statement {
  const words = wordsOf(subject);
  if (words.length === 0) return sql`e.head ->> 'subject' = ${subject}`;
  const inHead = words.map((word) => sql`strpos(lower(e.head::text collate "C"), ${word}) > 0`);
  const inSubject = words.map((word) => sql`strpos(spaced_words(e.head ->> 'subject'), ${` ${word} `}) > 0`);
  return [...inHead, ...inSubject].reduce((all, one) => sql`${all} and ${one}`);
}

/**
 * One probe for each e-mail: what could be planned as a join might read the bodies of the whole workspace.
 */
function hasTag(sql: Sql, tag: { name: string; value: string }): Statement {
  return sql`(
    select (b.extra -> 'tags')::jsonb from body b where b.workspace_id = e.workspace_id and b.id = e.id
  ) @> ${sql.json([tag])}`;
}

/**
 * As JSON writes an address: alone, or behind a name. To look through the text costs a tenth of taking it
 * apart.
 */
function namesOneOf(sql: Sql, recipient: readonly string[]): Statement {
  const ways = recipient
    .map((address) => JSON.stringify(address).slice(1, -1))
    .flatMap((address) => [`"${address}"`, `<${address}>`]);
  const head = sql`lower(e.head::text collate "C")`;
  const named = sql`lower(((e.head -> 'to')::text || (e.head -> 'cc')::text || (e.head -> 'bcc')::text) collate "C")`;
  return sql`(${ways.reduce<Statement>(
    (found, way) => sql`${found} or (strpos(${head}, ${way}) > 0 and strpos(${named}, ${way}) > 0)`,
    sql`false`,
  )})`;
}
