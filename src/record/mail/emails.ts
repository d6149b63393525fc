/** E-mail rows as they are accepted. Reading them is in readmail.ts, settling them in settle.ts. */
import { type Mailbox, parseMailbox } from "../../address.ts";
import type { Head, HistoryEntry } from "../../rules/email.ts";
import type { MailStream } from "../../rules/stream.ts";
import type { AskToConfirm } from "../contacts/confirmations.ts";
import { columns, plainArray, texts } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { integer, orNull, type RowOf, text, typed } from "../db/rowshape.ts";
import { mailStreamRow } from "./mailstream.ts";

const PIECE_CHARS_MAX = 1024 * 1024;

export type Standing = "accepted" | "scheduled" | "waiting" | "suppressed";

export type NewEmail = MailStream & {
  workspaceId: string;
  id: string;
  keyId: string | null;
  /** Whom an automation's mail is to: asked once more when it leaves. */
  contactId?: string;
  /**
   * Of the engine's own mail: not written once this contact is erased. `contactId` means the same, and more.
   */
  writtenFor?: string;
  /** JSON of `Head`. */
  head: string;
  /** Recipients of the envelope. */
  weight: number;
  bytes: number;
  html: string | null;
  plain: string | null;
  /** JSON of `Extra`, or null. */
  extra: string | null;
  scheduledAt: number | null;
};

/** Who and what, as sent: addresses in the form `a@x.com` or `Name <a@x.com>`. */
/** Whom the envelope names, in the order of the marks: who is named twice is one of them. */
export function recipientsOf({ to, cc, bcc }: Pick<Head, "to" | "cc" | "bcc">): readonly Mailbox[] {
  return eachOnce([...mailboxesOf(to), ...mailboxesOf(cc), ...mailboxesOf(bcc)]);
}

export function eachOnce(all: readonly Mailbox[]): readonly Mailbox[] {
  if (all.length === 1) return all;
  const found = new Map<string, Mailbox>();
  for (const mailbox of all) if (!found.has(mailbox.address)) found.set(mailbox.address, mailbox);
  return [...found.values()];
}

export function mailboxesOf(texts: readonly string[]): Mailbox[] {
  const read: Mailbox[] = [];
  for (const text of texts) {
    const mailbox = parseMailbox(text);
    if (mailbox) read.push(mailbox);
  }
  return read;
}

/** Fixed at acceptance: the same on every attempt. */
export function messageIdOf(id: string, from: Mailbox | null): string {
  return `<${id}@${from?.domain ?? "localhost"}>`;
}

export type AttachmentRef = {
  filename: string;
  hash: string;
  bytes: number;
  content_type: string | null;
  content_id: string | null;
};
export type Extra = {
  headers?: Record<string, string>;
  tags?: { name: string; value: string }[];
  attachments?: AttachmentRef[];
  /**
   * It is the operator's, to somebody of the console, and holds a secret of theirs: nobody of the workspace
   * is shown its text, and neither quota nor caps of the workspace keep it. Who writes it bounds how much.
   */
  private?: true;
  /** It is about an account of its recipient, whom no suppression of the workspace keeps from it. */
  account?: true;
  /** It asks this contact to confirm, by a link that was made at this time. */
  asks?: AskToConfirm;
  /** The link to the trace of the request that it came with. */
  trace?: string;
};

export type AcceptedEmail = { email: NewEmail; standing: Standing };

/** Of an e-mail that was just written: who of its recipients gets none, and why. */
export type MarkedEmail = Pick<NewEmail, "workspaceId" | "id"> & {
  marks: string;
  events: readonly HistoryEntry[];
};

export function markRecipients(tx: Tx | Sql, marked: readonly MarkedEmail[]): Statement {
  const ids = plainArray(marked.map(({ id }) => id));
  return tx`
    update email e set marks = m.marks, history = coalesce(e.history, '[]') || m.events::jsonb
    from unnest(${plainArray(marked.map(({ workspaceId }) => workspaceId))}::uuid[], ${ids}::uuid[],
                ${plainArray(marked.map(({ marks }) => marks))}::text[],
                ${texts(
                  tx,
                  marked.map(({ events }) => JSON.stringify(events)),
                )}) as m(workspace_id, id, marks, events)
    where e.workspace_id = m.workspace_id and e.id = m.id and e.id = any(${ids}::uuid[])`;
}

/** `bagOf`: in which bag each of those that go now travels. */
export function insertEmails(
  tx: Tx | Sql,
  accepted: readonly AcceptedEmail[],
  bagOf: ReadonlyMap<string, string>,
  now: Date,
): Statement {
  const at = now.toISOString();
  const rows = columns<AcceptedEmail>(tx, accepted, {
    workspace_id: ["uuid", ({ email }) => email.workspaceId],
    id: ["uuid", ({ email }) => email.id],
    key_id: ["uuid", ({ email }) => email.keyId],
    contact_id: ["uuid", ({ email }) => email.contactId ?? null],
    bulk: ["bool", ({ email }) => email.bulk],
    stream: ["word", ({ email }) => email.stream],
    status: ["word", ({ standing }) => standing],
    head: ["text", ({ email }) => email.head],
    weight: ["int", ({ email }) => email.weight],
    bytes: ["int", ({ email }) => email.bytes],
    scheduled_at: [
      "timestamptz",
      ({ email: { scheduledAt } }) => scheduledAt && new Date(scheduledAt).toISOString(),
    ],
    bag_id: ["uuid", ({ email }) => bagOf.get(email.id) ?? null],
  });
  return tx`
    insert into email (workspace_id, id, key_id, contact_id, bulk, stream, status, head, weight, bytes,
      created_at, updated_at,
                       scheduled_at, delayed_at, history, bag_id)
    select workspace_id, id, key_id, contact_id, bulk, stream, status, head::json, weight, bytes,
      ${at}::timestamptz, ${at}::timestamptz,
           scheduled_at,
           case when status = 'waiting' then ${at}::timestamptz end,
           case when status = 'waiting' then ${delayed(at)}::text::jsonb end, bag_id
    from (select ${rows}) e`;
}

export const emailKeyRow = {
  workspaceId: text,
  emailId: text,
};
export type EmailKey = RowOf<typeof emailKeyRow>;
const lockedEmailRow = {
  ...emailKeyRow,
  ...mailStreamRow,
  status: text,
  bytes: integer,
  bagId: orNull(text),
  /** Recipients that still have to be reached. */
  open: integer,
};
export type LockedEmail = RowOf<typeof lockedEmailRow>;

/** Locks e-mails in the order of their keys. `skip`: those that somebody else holds are left out. */
export async function lockEmails(
  tx: Tx,
  keys: readonly EmailKey[],
  whenHeld: "wait" | "skip" = "wait",
): Promise<LockedEmail[]> {
  const ids = keys.map(({ emailId }) => emailId);
  return typed(tx, lockedEmailRow)`
    select e.workspace_id as "workspaceId", e.id as "emailId", e.status, e.bulk, e.stream, e.bytes,
      e.bag_id as "bagId",
           coalesce(length(e.marks) - length(replace(e.marks, 'o', '')), e.weight) as open
    from email e
    join unnest(${keys.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]) as k(workspace_id, id)
      on e.workspace_id = k.workspace_id and e.id = k.id
    where e.id = any(${ids}::uuid[])
    order by e.workspace_id, e.id for update of e ${whenHeld === "skip" ? tx`skip locked` : tx``}`;
}

/** Most have no such word in what else is kept of them, and are not read for it. */
export function isPrivateMail({ extra }: Pick<NewEmail, "extra">): boolean {
  return extra?.includes('"private"') === true && (JSON.parse(extra) as Extra).private === true;
}

/** The ids of those among these that wait for no cap. */
export async function privateMails(tx: Tx | Sql, keys: readonly EmailKey[]): Promise<Set<string>> {
  const ids = keys.map(({ emailId }) => emailId);
  const rows = await typed(tx, { id: text })`
    select b.id from body b
    join unnest(${keys.map(({ workspaceId }) => workspaceId)}::uuid[], ${ids}::uuid[]) as k(workspace_id, id)
      on b.workspace_id = k.workspace_id and b.id = k.id
    where b.id = any(${ids}::uuid[]) and b.extra -> 'private' is not null`;
  return new Set(rows.map(({ id }) => id));
}

/** Which of these are written already. */
export async function existingEmails(
  tx: Tx | Sql,
  emails: readonly Pick<NewEmail, "workspaceId" | "id">[],
): Promise<string[]> {
  const ids = emails.map(({ id }) => id).sort();
  const rows = await typed(tx, { id: text })`
    select e.id from email e
    join unnest(${emails.map((e) => e.workspaceId)}::uuid[],
      ${emails.map((e) => e.id)}::uuid[]) as a(workspace_id, id)
      on e.workspace_id = a.workspace_id and e.id = a.id
    where e.id between ${ids[0] as string} and ${ids.at(-1) as string}`.execute();
  return rows.map(({ id }) => id);
}

export function insertBodies(tx: Tx | Sql, emails: readonly NewEmail[]): Statement {
  const rows = columns<NewEmail>(tx, emails, {
    workspace_id: ["uuid", ({ workspaceId }) => workspaceId],
    id: ["uuid", ({ id }) => id],
    html: ["text", ({ html }) => html],
    plain: ["text", ({ plain }) => plain],
    extra: ["text", ({ extra }) => extra],
  });
  return tx`
    insert into body (workspace_id, id, html, plain, extra)
    select workspace_id, id, html, plain, extra::json from (select ${rows}) b`;
}

/** About what its body takes in a statement. */
export function bodyChars({ html, plain, extra }: NewEmail): number {
  return (html?.length ?? 0) + (plain?.length ?? 0) + (extra?.length ?? 0);
}

/** For statements that are put together without holding up others. */
export function inPieces(emails: readonly NewEmail[]): NewEmail[][] {
  const pieces: NewEmail[][] = [];
  let chars = PIECE_CHARS_MAX;
  for (const email of emails) {
    chars += bodyChars(email);
    if (chars > PIECE_CHARS_MAX) {
      pieces.push([]);
      chars = bodyChars(email);
    }
    pieces.at(-1)?.push(email);
  }
  return pieces;
}

/** Of bodies that this transaction wrote. */
export function dropBodies(tx: Tx | Sql, emails: readonly NewEmail[]): Statement {
  return tx`
    delete from body b
    using unnest(${plainArray(emails.map((e) => e.workspaceId))}::uuid[],
      ${plainArray(emails.map((e) => e.id))}::uuid[])
      as k(workspace_id, id)
    where b.workspace_id = k.workspace_id and b.id = k.id
      and b.id = any(${plainArray(emails.map((e) => e.id))}::uuid[])`;
}

export type NewAttachment = { workspaceId: string; hash: string; content: Buffer };

function delayed(at: string): string {
  return JSON.stringify([{ type: "delivery_delayed", at }]);
}
