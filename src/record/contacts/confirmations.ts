/** Confirmation mails that are owed: asked for by a committed change, and not yet written. */
import type { Sql } from "../db/connect.ts";
import { float, orNull, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";

const owedConfirmationRow = {
  workspaceId: text,
  handle: text,
  audienceId: text,
  audienceName: text,
  contactId: text,
  email: text,
  firstName: orNull(text),
  lastName: orNull(text),
  askedAt: timestamp,
};
export type OwedConfirmation = RowOf<typeof owedConfirmationRow>;

/**
 * Of one contact, or of all whose mail was asked for in this span; the oldest first, without the first
 * `passed`.
 */
export async function owedConfirmations(
  sql: Sql,
  of: { workspaceId: string; contactId: string } | { after: Date; before: Date },
  most: number,
  passed = 0,
): Promise<OwedConfirmation[]> {
  const wanted =
    "contactId" in of
      ? sql`f.workspace_id = ${of.workspaceId} and f.contact_id = ${of.contactId}`
      : sql`f.asked_at > ${of.after} and f.asked_at < ${of.before}`;
  return typed(sql, owedConfirmationRow)`
    select f.workspace_id as "workspaceId", w.handle, c.audience_id as "audienceId", a.name as "audienceName",
           f.contact_id as "contactId", c.email, c.first_name as "firstName", c.last_name as "lastName",
           f.asked_at as "askedAt"
    from confirmation f
    join workspace w on w.id = f.workspace_id
    join contact c on c.workspace_id = f.workspace_id and c.id = f.contact_id
    join audience a on a.workspace_id = c.workspace_id and a.id = c.audience_id
    where not f.is_mailed and f.is_open and ${wanted} and c.archived_at is null and a.deleted_at is null
      and w.suspended_at is null
    order by f.asked_at, f.workspace_id, f.contact_id limit ${most} offset ${passed}`;
}

/** The mail is committed; one that was asked for since then is still owed. */
export async function noteMailed(
  sql: Sql,
  { workspaceId, contactId, askedAt }: OwedConfirmation,
): Promise<void> {
  await sql`
    update confirmation set is_mailed = true
    where workspace_id = ${workspaceId} and contact_id = ${contactId} and asked_at = ${askedAt}`;
}

/** Whom a mail asks to confirm, and when that was asked: its link means both. */
export type AskToConfirm = { contactId: string; askedAt: number };

const askRow = { contactId: text, askedAt: float };

/** Which of these can still be confirmed by their link, and were asked for after this time. */
export async function standingAsks(
  sql: Sql,
  workspaceId: string,
  asks: readonly AskToConfirm[],
  after: Date,
): Promise<AskToConfirm[]> {
  return typed(sql, askRow)`
    select f.contact_id as "contactId", round(date_part('epoch', f.asked_at) * 1000) as "askedAt"
    from confirmation f join contact c on c.workspace_id = f.workspace_id and c.id = f.contact_id
    where f.workspace_id = ${workspaceId} and f.contact_id = any(${asks.map((one) => one.contactId)}::uuid[])
      and f.is_open and f.asked_at > ${after} and c.archived_at is null`;
}
