/** A suppression as an operator or a caller asks for it: what may be said, and the row that it becomes. */

import { identity, parseMailbox } from "../address.ts";
import { newId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import type { HashOf } from "../record/mail/barred.ts";
import { addComplaints, addSuppressions, type NewSuppression } from "../record/mail/suppressions.ts";
import type { SuppressionReason } from "../rules/suppression.ts";

export type Wish = {
  email: string;
  reason: SuppressionReason;
  /** A domain of senders, or empty. */
  scope: string;
  evidence: string | null;
};
/** As lists show the scope of all mail. */
export const SCOPE_OF_ALL = "workspace";

/** A scope as somebody writes it; null: it is no domain that an address could have. */
export function readScope(text: string): string | null {
  const scope = text.trim();
  if (scope === "" || scope.toLowerCase() === SCOPE_OF_ALL) return "";
  return /[<>@]/.test(scope) ? null : (parseMailbox(`any@${scope}`)?.domain ?? null);
}

export type Entry = NewSuppression & { identity: string };

/** Null: this is no address. */
export function entryOf(hashOf: HashOf, workspaceId: string, wish: Wish, now: number): Entry | null {
  const mailbox = parseMailbox(wish.email);
  if (!mailbox) return null;
  const { address } = mailbox;
  return {
    workspaceId,
    id: newId(now),
    hash: hashOf(identity(address)),
    identity: identity(address),
    email: address,
    scope: wish.scope,
    reason: wish.reason,
    evidence: wish.evidence,
    emailId: null,
    countedDay: null,
  };
}

/**
 * Adds them; hands back the id in force of each, in their order. Who complained is unsubscribed everywhere as
 * well.
 */
export async function suppress(sql: Sql, entries: readonly Entry[], now: number): Promise<string[]> {
  const date = new Date(now);
  const complaints = entries.filter(({ reason }) => reason === "complaint");
  if (complaints.length > 0) await addComplaints(sql, complaints, () => newId(now), date);
  return addSuppressions(sql, entries, date);
}
