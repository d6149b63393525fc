/**
 * An event as callers get it: in the event log and, without its sequence, as the payload of a webhook.
 * Contents are those of now, so that what was erased is not told any more. Shapes as the official client
 * types them, and more.
 */
import { parseMailbox } from "../address.ts";
import { isUuid } from "../ids.ts";
import { messageIdOf } from "../record/mail/emails.ts";
import type { EventName, EventRow } from "../record/outbox/outbox.ts";
import type { HistoryEntry } from "../rules/email.ts";

/** Standard Webhooks asks for payloads below this. */
export const PAYLOAD_BYTES_MAX = 20_000;
const SUBJECT_CHARS_SHORT = 200;

export type ShownEvent = { type: string; created_at: string; data: Record<string, unknown> };

/** The same on every attempt, and in the event log. A dot would make what is signed ambiguous. */
export function eventId({ subjectId, sequence }: EventName): string {
  return `${subjectId}_${sequence}`;
}

/** Null: this is the id of no event. */
export function eventNamed(id: string): EventName | null {
  const [, subjectId = "", sequence] = /^([0-9a-f-]{36})_([1-9]\d{0,15})$/i.exec(id) ?? [];
  return isUuid(subjectId) ? { subjectId: subjectId.toLowerCase(), sequence: Number(sequence) } : null;
}

export function shownEvent(event: EventRow): ShownEvent {
  return { type: event.type, created_at: event.at.toISOString(), data: dataOf(event) };
}

/**
 * JSON of at most PAYLOAD_BYTES_MAX: of an e-mail to very many, or with a very long subject, not all is in
 * it.
 */
export function payloadOf(event: EventRow): string {
  const { type, created_at: createdAt, data } = shownEvent(event);
  const { email_id, id, created_at } = data;
  const least = { email_id, id, created_at, is_shortened: true };
  for (const some of [() => data, () => shortened(data)]) {
    const text = JSON.stringify({ type, created_at: createdAt, data: some() });
    if (text.length * 3 <= PAYLOAD_BYTES_MAX || Buffer.byteLength(text) <= PAYLOAD_BYTES_MAX) return text;
  }
  return JSON.stringify({ type, created_at: createdAt, data: least });
}

/** Without what may be long: names of recipients, tags, the end of the subject, the words of the receiver. */
function shortened(data: Record<string, unknown>): Record<string, unknown> {
  const { to, subject, tags: _, detail: __, ...rest } = data;
  const addresses = (to as string[] | undefined)?.map((text) => parseMailbox(text)?.address ?? "");
  return {
    ...rest,
    from: parseMailbox(String(rest.from))?.address ?? "",
    ...(addresses && { to: addresses }),
    ...(subject !== undefined && { subject: [...String(subject)].slice(0, SUBJECT_CHARS_SHORT).join("") }),
    is_shortened: true,
  };
}

function dataOf(event: EventRow): Record<string, unknown> {
  const { type, subjectId, email, contact, domain, cap } = event;
  if (type.startsWith("email.")) return { email_id: subjectId, ...aboutEmail(type, subjectId, email) };
  return { id: subjectId, ...aboutContact(contact), ...aboutDomain(domain), ...aboutCap(cap) };
}

/** Nothing when it is not kept any more. */
function aboutEmail(type: string, id: string, email: EventRow["email"]) {
  if (!email) return {};
  const { head, createdAt, entry, tags } = email;
  const { from, to, subject } = head;
  const { recipient, detail } = entry ?? {};
  return {
    created_at: new Date(createdAt).toISOString(),
    message_id: messageIdOf(id, parseMailbox(from)),
    from,
    to,
    subject,
    ...(tags && { tags: Object.fromEntries(tags.map(({ name, value }) => [name, value])) }),
    ...(recipient && { recipient }),
    ...(detail && { detail: detail.slice(0, DETAIL_CHARS_MAX) }),
    ...(entry && fateOf(type, entry)),
  };
}
const DETAIL_CHARS_MAX = 1_000;

/** In the words of the official client. */
function fateOf(type: string, { detail = "", bounce }: HistoryEntry) {
  const message = detail.slice(0, DETAIL_CHARS_MAX);
  // receivers of webhooks drop addresses of permanent ones from their lists
  if (type === "email.bounced")
    return { bounce: { message, type: bounce ? "Transient" : "Permanent", subType: "General" } };
  if (type === "email.failed") return { failed: { reason: message } };
  if (type === "email.suppressed") return { suppressed: { message, type: "OnAccountSuppressionList" } };
  return {};
}

function aboutContact(contact: EventRow["contact"]) {
  if (!contact) return {};
  const { audienceId, email, firstName, lastName, status, createdAt, updatedAt } = contact;
  return {
    audience_id: audienceId,
    segment_ids: [audienceId],
    ...(email !== null && { email, first_name: firstName, last_name: lastName }),
    unsubscribed: status === "unsubscribed",
    created_at: new Date(createdAt).toISOString(),
    updated_at: new Date(updatedAt).toISOString(),
  };
}

function aboutDomain(domain: EventRow["domain"]) {
  if (!domain) return {};
  const { name, createdAt, isVerified, isSeen } = domain;
  if (createdAt === null) return { name };
  return {
    name,
    status: isVerified ? "verified" : isSeen ? "pending" : "not_started",
    created_at: new Date(createdAt).toISOString(),
    region: null,
  };
}

function aboutCap(cap: EventRow["cap"]) {
  if (!cap) return {};
  const { dayBefore, dayAfter, hourBefore, hourAfter, reason } = cap;
  return {
    cap_day: { before: dayBefore, after: dayAfter },
    cap_hour: { before: hourBefore, after: hourAfter },
    reason,
  };
}
