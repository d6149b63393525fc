/**
 * Search blocks: a thousand consecutive e-mails of a workspace, with the recipients, words, tags, keys and
 * streams that occur among them, each as a number. The keeper cuts blocks some minutes behind the newest
 * e-mail and looks through them, so no send writes an index.
 *
 * Promises: a block that is known lacks nothing of its e-mails. Who writes an e-mail among older ones, or
 * erases somebody from one, makes its block unknown in the same transaction; an unknown block is searched
 * like one that has everything. What came in any other way is found by `auditBlocks`.
 */
import { DAY_MS } from "../../clock.ts";
import { floorId } from "../../ids.ts";
import { plainArray } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { oldestDay } from "../db/partitions.ts";
import { integer, json, orNull, type RowOf, text, typed } from "../db/rowshape.ts";
import type { NewEmail } from "./emails.ts";

export const BLOCK_EMAILS = 1_000;
/** No block reaches nearer to now, and whoever writes an e-mail with an older id says so. */
export const BLOCK_AGE_MS_MIN = 60_000;
const TRAVELLING_BAGS = 100;
const FIRST = "00000000-0000-0000-0000-000000000000";

export type Term = { kind: "key" | "to" | "word" | "tag" | "stream"; value: string };
const searchBlockRow = {
  fromId: text,
  untilId: text,
};
export type SearchBlock = RowOf<typeof searchBlockRow>;

/** Ids between two others. */
export type IdRange = { over: string; under: string };

export function within(sql: Sql, column: Statement, { over, under }: IdRange): Statement {
  return sql`${column} > ${over} and ${column} < ${under}`;
}

/** Where the last block of the workspace ends; null when it has none. */
export async function endOfBlocks(sql: Sql, workspaceId: string): Promise<string | null> {
  const [last] = await typed(sql, { end: text })`
    select until_id as end from search_block where workspace_id = ${workspaceId}
      order by until_id desc limit 1`;
  return last?.end ?? null;
}

/** In order, those in which each term occurs in one of its ways, or may. */
export async function blocksWith(
  sql: Sql,
  workspaceId: string,
  terms: readonly (readonly Term[])[],
  { over, under }: IdRange,
  isBackwards: boolean,
  most: number,
): Promise<SearchBlock[]> {
  const occurring = terms.reduce<Statement>(
    (all, ways) => sql`${all} and terms && ${numbersOf(sql, workspaceId, ways)}`,
    sql`true`,
  );
  // materialized: found by the terms, and not by looking through all blocks of the workspace
  return typed(sql, searchBlockRow)`
    with known as materialized (select workspace_id, from_id, until_id from search_block where ${occurring})
    select from_id as "fromId", until_id as "untilId" from (
      select * from known where workspace_id = ${workspaceId}
      union all
      select workspace_id, from_id, until_id from search_block where workspace_id = ${workspaceId}
        and terms is null
    ) b
    where until_id > ${over} and from_id < ${under}
    order by until_id ${isBackwards ? sql`asc` : sql`desc`} limit ${most}`;
}

function numbersOf(sql: Sql, workspaceId: string, terms: readonly Term[]): Statement {
  return sql`array(select search_term(${workspaceId}, kind, lower(value collate "C"))
    from unnest(${terms.map(({ kind }) => kind)}::text[],
      ${terms.map(({ value }) => value)}::text[]) as t(kind, value))`;
}

/** The next blocks of a workspace, as far as there are full ones up to that time; says how many. */
export async function cutBlocks(sql: Sql, workspaceId: string, now: number, most: number): Promise<number> {
  const from = (await endOfBlocks(sql, workspaceId)) ?? FIRST;
  const under = floorId(now - 2 * BLOCK_AGE_MS_MIN);
  const cut = await sql`
    with numbered as (
      select id, row_number() over (order by id) as n from (
        select id from email where workspace_id = ${workspaceId} and id >= ${from} and id < ${under}
        order by id limit ${most * BLOCK_EMAILS + 1}) e
    )
    insert into search_block (workspace_id, from_id, until_id)
    select ${workspaceId}, lag(id, 1, ${from}) over (order by id), id
    from numbered where n > 1 and (n - 1) % ${BLOCK_EMAILS} = 0
    order by id on conflict do nothing`;
  return cut.count;
}

/** Looks through some unknown blocks; says how many. */
export async function readBlocks(sql: Sql, most: number): Promise<number> {
  return sql.begin(async (tx) => {
    const blocks = await typed(tx, { ...searchBlockRow, workspaceId: text })`
      select workspace_id as "workspaceId", from_id as "fromId", until_id as "untilId" from search_block
      where terms is null order by workspace_id, until_id limit ${most} for update skip locked`;
    // in a statement of its own: whoever made a block unknown has committed what it holds now
    for (const { workspaceId, fromId, untilId } of blocks)
      await tx`
        update search_block set (emails, terms) = (${contentOf(tx, workspaceId, fromId, untilId)})
        where workspace_id = ${workspaceId} and until_id = ${untilId}`;
    return blocks.length;
  });
}

/** As termsOf (search.ts) asks for it. */
function contentOf(tx: Tx, workspaceId: string, fromId: string, untilId: string): Statement {
  return tx`
    with mail as materialized (
      select id, key_id, stream, bulk, head from email where workspace_id = ${workspaceId} and id >= ${fromId}
        and id < ${untilId}
    ), addressed as (
      select named from mail, unnest(array[head -> 'to', head -> 'cc', head -> 'bcc']) as list,
        json_array_elements_text(case json_typeof(list) when 'array' then list end) as named
    ), occurring as (
      select 'key' as kind, key_id::text as value from mail where key_id is not null
      union select 'stream', case when stream <> '' then stream when bulk then 'bulk' else 'transactional' end
        from mail
      union select 'to', lower(coalesce(substring(named from '(?:^|^.* )<(.*)>$'), named) collate "C")
        from addressed
      union select 'word', word from mail, string_to_table(spaced_words(head ->> 'subject'), ' ') as word
        where word <> ''
      union select 'tag', lower((tag ->> 'name') || ':' || (tag ->> 'value') collate "C")
        from mail m, body b, json_array_elements(b.extra -> 'tags') as tag
        where b.workspace_id = ${workspaceId} and b.id = m.id and b.id >= ${fromId} and b.id < ${untilId}
    )
    select (select count(*) from mail), coalesce(array_agg(search_term(${workspaceId}, kind, value)), '{}')
    from occurring where value is not null`;
}

/** E-mails were written into their blocks, or changed in what is looked for. */
export function forgetBlocks(
  tx: Tx | Sql,
  emails: readonly Pick<NewEmail, "workspaceId" | "id">[],
): Statement {
  return tx`
    with held as materialized (
      select workspace_id, until_id from search_block
      where (workspace_id, until_id) in (
        select e.workspace_id, (select until_id from search_block b
          where b.workspace_id = e.workspace_id and b.until_id > e.id order by b.until_id limit 1)
        from unnest(${plainArray(emails.map(({ workspaceId }) => workspaceId))}::uuid[],
          ${plainArray(emails.map(({ id }) => id))}::uuid[]) as e(workspace_id, id))
      order by workspace_id, until_id for update
    )
    update search_block b set terms = null from held
    where b.workspace_id = held.workspace_id and b.until_id = held.until_id`;
}

export type BlockKey = { workspaceId: string; untilId: string };
export const FIRST_BLOCK: BlockKey = { workspaceId: FIRST, untilId: FIRST };

/**
 * Makes blocks unknown that hold more or fewer e-mails than were looked through. Hands back where to go on.
 */
export async function auditBlocks(sql: Sql, after: BlockKey, most: number): Promise<BlockKey | null> {
  const [step] = await typed(sql, { found: integer, last: orNull(json<BlockKey>()) })`
    with step as materialized (
      select workspace_id, from_id, until_id, emails from search_block
      where (workspace_id, until_id) > (${after.workspaceId}, ${after.untilId}) and terms is not null
      order by workspace_id, until_id limit ${most} for update skip locked
    ), wrong as (
      update search_block b set terms = null from step s
      where b.workspace_id = s.workspace_id and b.until_id = s.until_id and s.emails <> (
        select count(*) from email e where e.workspace_id = s.workspace_id and e.id >= s.from_id
          and e.id < s.until_id)
    )
    select count(*)::int as found, (array_agg(json_build_object('workspaceId', workspace_id, 'untilId',
      until_id)
      order by workspace_id desc, until_id desc))[1] as last from step`;
  return step && step.found >= most ? step.last : null;
}

/** Of days that retention has dropped; says how many. */
export async function dropOldBlocks(tx: Tx | Sql, most: number): Promise<number> {
  const before = floorId((await oldestDay(tx, "email")) * DAY_MS);
  const dropped = await tx`
    with old as (
      select workspace_id, until_id from search_block where until_id <= ${before}
      order by workspace_id, until_id limit ${most} for update skip locked
    )
    delete from search_block b using old where b.workspace_id = old.workspace_id
      and b.until_id = old.until_id`;
  return dropped.count;
}

/** Whether so many e-mails are in bags that looking through blocks would take the processor from sends. */
export async function isMuchTravelling(sql: Sql): Promise<boolean> {
  return (await sql`select from bag limit ${TRAVELLING_BAGS}`).length === TRAVELLING_BAGS;
}

/** In the order of their ids; null: from the first. */
export async function workspacesAfter(sql: Sql, after: string | null, most: number): Promise<string[]> {
  const rows = await typed(sql, { id: text })`
    select id from workspace where id > ${after ?? FIRST} order by id limit ${most}`;
  return rows.map(({ id }) => id);
}
