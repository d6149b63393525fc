/** What must wait, and why: one row per e-mail that is scheduled, over a cap or quota, or deferred. */

import type { WaitReason } from "../../rules/reason.ts";
import type { MailStream } from "../../rules/stream.ts";
import { plainArray } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { oneOf, type RowOf, text, typed } from "../db/rowshape.ts";
import type { EmailKey } from "./emails.ts";
import { mailStreamRow } from "./mailstream.ts";

export type Due = MailStream & {
  workspaceId: string;
  emailId: string;
  at: number;
  why: WaitReason;
  weight: number;
  bytes: number;
};

export function insertDue(tx: Tx | Sql, due: readonly Due[]): Statement {
  const of = (pick: (one: Due) => string | number | boolean): string => plainArray(due.map(pick));
  return tx`
    insert into due (workspace_id, email_id, at, why, bulk, stream, weight, bytes)
    select * from unnest(${of((d) => d.workspaceId)}::uuid[], ${of((d) => d.emailId)}::uuid[],
      ${of((d) => new Date(d.at).toISOString())}::timestamptz[], ${of((d) => d.why)}::text[],
      ${of((d) => d.bulk)}::bool[],
      ${of((d) => `"${d.stream}"`)}::text[],
      ${of((d) => d.weight)}::int[], ${of((d) => d.bytes)}::int[])`;
}

const endedDueRow = {
  ...mailStreamRow,
  emailId: text,
  why: oneOf("scheduled", "cap_hour", "cap_day", "quota_month", "deferred"),
};
export type EndedDue = RowOf<typeof endedDueRow>;

/** Locks due rows in the order of their keys and deletes them; hands back those that there were. */
export async function deleteDue(tx: Tx, keys: readonly EmailKey[]): Promise<EndedDue[]> {
  if (keys.length === 0) return [];
  return typed(tx, endedDueRow)`
    with held as materialized (${lockDueRows(tx, keys)})
    delete from due d using held where d.workspace_id = held.workspace_id and d.email_id = held.email_id
    returning d.email_id as "emailId", d.bulk, d.stream, d.why`;
}

/** These are due now, as far as they are deferred. Hands back how many. */
export async function makeDue(sql: Sql | Tx, keys: readonly EmailKey[], now: Date): Promise<number> {
  const made = await sql`
    with held as materialized (${lockDueRows(sql, keys)})
    update due d set at = ${now}, held_by = null from held
    where d.workspace_id = held.workspace_id and d.email_id = held.email_id and d.why = 'deferred'`;
  return made.count;
}

/** What is due in a suspended workspace is set aside; says how much. */
export async function holdDue(tx: Tx, keys: readonly EmailKey[]): Promise<number> {
  const held = await tx`
    with held as materialized (${lockDueRows(tx, keys)})
    update due d set is_held = true from held
    where d.workspace_id = held.workspace_id and d.email_id = held.email_id
      and d.why in ('scheduled', 'deferred')`;
  return held.count;
}

/** What receivers answered may name who was erased. */
export async function forgetReplies(tx: Tx, keys: readonly EmailKey[]): Promise<void> {
  await tx`
    with held as materialized (${lockDueRows(tx, keys)})
    update due d set reply = null from held where d.workspace_id = held.workspace_id
      and d.email_id = held.email_id`;
}

function lockDueRows(tx: Sql | Tx, keys: readonly EmailKey[]) {
  return tx`
    select d.workspace_id, d.email_id from due d
    join unnest(${keys.map((key) => key.workspaceId)}::uuid[], ${keys.map((key) => key.emailId)}::uuid[])
      as k(workspace_id, email_id) on d.workspace_id = k.workspace_id and d.email_id = k.email_id
    order by d.workspace_id, d.email_id for update of d`;
}
