/** What a caller may still change of an e-mail that has not left: its time, or that it goes at all. */
import type { Sql, Tx } from "./connect.ts";
import { lockAccounts, saveLedgers } from "./ledgers.ts";

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

/** Cancels a scheduled or waiting e-mail: the row that would make it due is what is taken away. */
export async function cancel(
  sql: Sql,
  email: { workspaceId: string; id: string; keyId: string | null },
  now: Date,
): Promise<ChangeResult> {
  return sql.begin(async (tx) => {
    const [account] = await lockAccounts(tx, [email.workspaceId]);
    const found = await lockEmail(tx, email);
    if (found.result !== "changed" || !account) return found.result;
    if (found.status !== "scheduled" && found.status !== "waiting") return "too late";
    const [due] = await tx<{ bulk: boolean; why: string }[]>`
      delete from due where workspace_id = ${email.workspaceId} and email_id = ${email.id}
        and why <> 'deferred' returning bulk, why`;
    if (!due) return "too late";
    if (due.why !== "scheduled") {
      if (due.bulk) account.ledger.waitingBulk--;
      else account.ledger.waiting--;
      await saveLedgers(tx, [account]);
    }
    await tx`update email set status = case when marks like '%d%' then 'delivered' else 'canceled' end, updated_at = ${now},
        marks = replace(coalesce(marks, repeat('o', weight)), 'o', 'x'),
        history = coalesce(history, '[]') || ${tx.json([{ type: "canceled", at: now.toISOString() }])}
      where workspace_id = ${email.workspaceId} and id = ${email.id}`;
    return "changed";
  });
}

async function lockEmail(
  tx: Tx,
  { workspaceId, id, keyId }: { workspaceId: string; id: string; keyId: string | null },
): Promise<{ result: ChangeResult; status: string }> {
  const [row] = await tx<{ status: string; keyId: string | null }[]>`
    select status, key_id as "keyId" from email where workspace_id = ${workspaceId} and id = ${id} for update`;
  if (!row) return { result: "not found", status: "" };
  if (keyId !== null && row.keyId !== keyId) return { result: "another key's", status: row.status };
  return { result: "changed", status: row.status };
}
