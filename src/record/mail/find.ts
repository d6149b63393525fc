/**
 * Finds e-mails of any workspace, for the operator alone. By id it is one index probe per workspace.
 * Recipients are not indexed: mail is searched from the newest back, in growing spans, until a deadline; the
 * result says how far back.
 */
import { identity, type Mailbox, parseMailbox } from "../../address.ts";
import { DAY_MS } from "../../clock.ts";
import { floorId, timeOfId } from "../../ids.ts";
import type { Head } from "../../rules/email.ts";
import type { Sql } from "../db/connect.ts";
import { oldestDay } from "../db/partitions.ts";
import { json, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const SPAN_MS_MIN = 3_600_000;
/** Of one span. */
const ROWS_MAX = 1_000;
const QUERY_CANCELED = "57014";

const foundMailRow = {
  workspaceId: text,
  id: text,
  status: text,
  createdAt: timestamp,
  head: json<Head>(),
};
export type FoundMail = RowOf<typeof foundMailRow>;

/** `workspaceId`: only in this one; null: in all. */
export async function mailOfId(sql: Sql, workspaceId: string | null, id: string): Promise<FoundMail[]> {
  return typed(sql, foundMailRow)`
    select w.id as "workspaceId", e.* from workspace w
    cross join lateral (
      select id, status, created_at as "createdAt", head from email
      where workspace_id = w.id and id = ${id} limit 1) as e
    where ${workspaceId}::uuid is null or w.id = ${workspaceId}`;
}

export type Search = { workspaceId: string | null; now: number; most: number; msMax: number };
/** `since`: mail from then on was looked through. */
export type Searched = { found: FoundMail[]; since: Date; isAll: boolean };

/** Mail to this address, the newest first. */
export async function mailTo(sql: Sql, to: Mailbox, search: Search): Promise<Searched> {
  const { workspaceId, now, most, msMax } = search;
  const until = performance.now() + msMax;
  const wanted = identity(to.address);
  const begin = (await oldestDay(sql, "email")) * DAY_MS;
  const found: FoundMail[] = [];
  let before = floorId(now + DAY_MS); // the clock of another process may be ahead
  let [from, span] = [Math.max(begin, now - SPAN_MS_MIN), SPAN_MS_MIN];
  let isAll = false;
  while (!isAll && found.length < most && performance.now() < until) {
    const rows = await mailBetween(sql, workspaceId, to, floorId(from), before).catch(unlessTooSlow);
    if (rows === null) break;
    found.push(...rows.filter(({ head }) => isTo(head, wanted)));
    before = rows.length < ROWS_MAX ? floorId(from) : (rows.at(-1) as FoundMail).id;
    if (rows.length === ROWS_MAX) continue;
    isAll = from <= begin;
    span *= 2;
    from = Math.max(begin, from - span);
  }
  return { found: found.slice(0, most), since: new Date(timeOfId(before)), isAll };
}

function unlessTooSlow(error: { code?: string }): null {
  if (error.code === QUERY_CANCELED) return null;
  throw error;
}

/** Those whose header may name it: its letters as JSON writes them. */
async function mailBetween(
  sql: Sql,
  workspaceId: string | null,
  { local, utf8 }: Mailbox,
  from: string,
  before: string,
): Promise<FoundMail[]> {
  // letters that Postgres may fold in another way are compared here alone
  const needle = utf8 ? "" : `${JSON.stringify(local).slice(1, -1).toLowerCase()}@`;
  return typed(sql, foundMailRow)`
    select w.id as "workspaceId", e.* from workspace w
    cross join lateral (
      select id, status, created_at as "createdAt", head from email
      where workspace_id = w.id and id >= ${from} and id < ${before}
        and strpos(lower(head::text), ${needle}) > 0
      order by id desc limit ${ROWS_MAX}) as e
    where ${workspaceId}::uuid is null or w.id = ${workspaceId}
    order by e.id desc limit ${ROWS_MAX}`;
}

function isTo({ to, cc, bcc }: Head, wanted: string): boolean {
  return [...to, ...cc, ...bcc].some((text) => {
    const mailbox = parseMailbox(text);
    return mailbox !== null && identity(mailbox.address) === wanted;
  });
}
