/** Changes of an e-mail that has not left: another time, or canceling it. */
import { addWaiting } from "../../rules/ledger.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { orNull, text, typed } from "../db/rowshape.ts";
import { type Account, lockAccounts, saveLedgers } from "../workspaces/ledgers.ts";
import { deleteDue } from "./due.ts";
import { lockEmails } from "./emails.ts";
import { mailStreamRow } from "./mailstream.ts";
import { endingSql, withoutOpen } from "./status.ts";

export type ChangeResult = "changed" | "not found" | "too late" | "another key's";

/** Moves a scheduled e-mail to another time. */
export async function reschedule(
  sql: Sql,
  email: { workspaceId: string; id: string; keyId: string | null },
  at: number,
  now: Date,
): Promise<ChangeResult> {
  const time = new Date(at);
  return sql.begin(async (tx) => {
    const found = await lockEmail(tx, email);
    if (found.result !== "changed") return found.result;
    if (found.status !== "scheduled") return "too late";
    const moved = await tx`update due set at = ${time}
      where workspace_id = ${email.workspaceId} and email_id = ${email.id} and why = 'scheduled' returning 1`;
    if (moved.length === 0) return "too late";
    await tx`update email set scheduled_at = ${time}, updated_at = ${now}
      where workspace_id = ${email.workspaceId} and id = ${email.id}`;
    return "changed";
  });
}

/** Cancels a scheduled or waiting e-mail by deleting its due row. */
export async function cancel(
  sql: Sql,
  email: { workspaceId: string; id: string; keyId: string | null },
  now: Date,
): Promise<ChangeResult> {
  return sql.begin(async (tx) => {
    const [account] = await lockAccounts(tx, [email.workspaceId]);
    if (!account) return "not found"; // it left for another cell while we waited for it
    const found = await lockEmail(tx, email);
    if (found.result !== "changed") return found.result;
    if (found.status !== "scheduled" && found.status !== "waiting") return "too late";
    const [due] = await typed(tx, { ...mailStreamRow, why: text })`
      delete from due where workspace_id = ${email.workspaceId} and email_id = ${email.id}
        and why <> 'deferred' returning bulk, stream, why`;
    if (!due) return "too late";
    if (due.why !== "scheduled") {
      addWaiting(account.ledger, due, -1);
      await saveLedgers(tx, [account]);
    }
    await tx`update email set status = ${endingSql(tx, withoutOpen(tx))}, updated_at = ${now},
        marks = ${withoutOpen(tx)},
        history = coalesce(history, '[]') || ${tx.json([{ type: "canceled", at: now.toISOString() }])}
      where workspace_id = ${email.workspaceId} and id = ${email.id}`;
    return "changed";
  });
}

/** E-mails per transaction, so that no send of the workspace waits for long. */
const CANCELED_MAX = 1_000;
const ID_FIRST = "00000000-0000-0000-0000-000000000000";

/** E-mails that a key scheduled and that have not left: ids after a given one, in order. */
async function scheduledOf(
  sql: Sql | Tx,
  { workspaceId, keyId }: { workspaceId: string; keyId: string },
  after: string,
  most: number,
): Promise<string[]> {
  const rows = await typed(sql, { id: text })`
    select d.email_id as id from due d
    join email e on e.workspace_id = d.workspace_id and e.id = d.email_id
    where d.workspace_id = ${workspaceId} and d.email_id > ${after} and d.why <> 'deferred'
      and e.key_id = ${keyId} and e.scheduled_at is not null
    order by d.email_id limit ${most}`;
  return rows.map(({ id }) => id);
}

/** How many e-mails a key scheduled that have not left; `most` when there are more. */
export async function countScheduled(
  sql: Sql,
  key: { workspaceId: string; keyId: string },
  most: number,
): Promise<number> {
  return (await scheduledOf(sql, key, ID_FIRST, most)).length;
}

/**
 * Cancels what a key scheduled, some at a time; returns how many. Each step locks the ledger, so that it sees
 * every commit under the key.
 */
export async function cancelScheduled(
  sql: Sql,
  key: { workspaceId: string; keyId: string },
  now: Date,
): Promise<number> {
  let canceled = 0;
  for (let after = ID_FIRST; ; ) {
    const { last, count } = await sql.begin(async (tx) => {
      const accounts = await lockAccounts(tx, [key.workspaceId]);
      const ids = await scheduledOf(tx, key, after, CANCELED_MAX);
      return { last: ids.at(-1), count: await cancelSome(tx, accounts, key.workspaceId, ids, now) };
    });
    canceled += count;
    if (last === undefined) return canceled;
    after = last;
  }
}

async function cancelSome(
  tx: Tx,
  accounts: readonly Account[],
  workspaceId: string,
  ids: readonly string[],
  now: Date,
): Promise<number> {
  const keys = ids.map((emailId) => ({ workspaceId, emailId }));
  const open = (await lockEmails(tx, keys)).filter(
    ({ status }) => status === "scheduled" || status === "waiting",
  );
  const ended = await deleteDue(tx, open);
  for (const one of ended)
    if (one.why !== "scheduled") for (const { ledger } of accounts) addWaiting(ledger, one, -1);
  if (ended.length > 0) await saveLedgers(tx, accounts);
  const endedIds = ended.map(({ emailId }) => emailId);
  const event = JSON.stringify([
    { type: "canceled", at: now.toISOString(), detail: "canceled with the key that scheduled it" },
  ]);
  await tx`update email set status = ${endingSql(tx, withoutOpen(tx))}, updated_at = ${now},
      marks = ${withoutOpen(tx)},
      history = coalesce(history, '[]') || ${event}::text::jsonb
    where workspace_id = ${workspaceId} and id = any(${endedIds}::uuid[])`;
  return ended.length;
}

async function lockEmail(
  tx: Tx,
  { workspaceId, id, keyId }: { workspaceId: string; id: string; keyId: string | null },
): Promise<{ result: ChangeResult; status: string }> {
  const [row] = await typed(tx, { status: text, keyId: orNull(text) })`
    select status, key_id as "keyId" from email where workspace_id = ${workspaceId}
      and id = ${id} for update`;
  if (!row) return { result: "not found", status: "" };
  if (keyId !== null && row.keyId !== keyId) return { result: "another key's", status: row.status };
  return { result: "changed", status: row.status };
}
