/** One e-mail from close by: its source, its HTML in a frame, why it waits, and sending it again. */
import { type Mailbox, parseMailbox } from "../address.ts";
import { contentOf, readPeople } from "../content.ts";
import type { Signer } from "../domain/signer.ts";
import { isUuid } from "../ids.ts";
import { compose } from "../message/compose.ts";
import type { Sql } from "../record/db/connect.ts";
import { readAttachments } from "../record/mail/attachments.ts";
import { makeDue } from "../record/mail/due.ts";
import { findEmail, type WholeEmail } from "../record/mail/read.ts";
import { reasonOf } from "../rules/reason.ts";
import { nameOfStream } from "../rules/stream.ts";
import { type ConsoleCall, EVERYONE, type KnownWorkspace, type VisitOf, workspaceCall } from "./calls.ts";
import { framed } from "./frames.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

/** Attachments are taken along up to so many bytes. */
const ATTACHED_BYTES_MAX = 10 * 1024 * 1024;
/** Contents are in memory as they are, in the message made of them, and in that with its signature. */
const COPIES = 5;

export type EmailCallParts = {
  sql: Sql;
  signer: Signer;
  /** By which the operator finds the workspace of a mail. */
  markOf(workspaceId: string): string;
  /** POST /emails of the API, for this person. */
  send(visit: VisitOf<KnownWorkspace>, body: object): Promise<ConsoleAnswer>;
};

export function emailCalls(parts: EmailCallParts): ConsoleCall[] {
  const shared = { method: "GET", roles: EVERYONE } as const;
  return [
    workspaceCall({ ...shared, path: "emails/{id}/raw", handle: (visit) => raw(parts, visit) }),
    workspaceCall({ ...shared, path: "emails/{id}/html", handle: (visit) => html(parts, visit) }),
    workspaceCall({ ...shared, path: "emails/{id}/why", handle: (visit) => why(parts, visit) }),
    workspaceCall({
      ...{ method: "POST", path: "emails/{id}/again", roles: EVERYONE },
      handle: (visit) => again(parts, visit),
    }),
    workspaceCall({
      ...{ method: "POST", path: "emails/{id}/retry", roles: EVERYONE },
      handle: (visit) => retry(parts, visit),
    }),
  ];
}

/** As it left, where it has; before that without the signature, whose time is still to come. */
async function raw(parts: EmailCallParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { sql, markOf } = parts;
  const { id: workspaceId } = visit.workspace;
  const email = await emailOf(sql, visit);
  expectBody(email);
  const from = parseMailbox(email.head.from);
  if (!from) throw deny("not_found", "The e-mail has no valid sender.");
  const attachments = await attachmentsOf(sql, visit, email);
  const people = readPeople(email.head);
  const content = contentOf(email, from, people, attachments, email.createdAt, markOf(workspaceId));
  const message = await compose(content);
  // nothing that was sent is hidden but text, so that a signature would be of another message
  const hasLeft = email.sentAt !== null && email.extra?.private !== true;
  const headers = { "Content-Type": "text/plain; charset=utf-8" };
  return { status: 200, body: hasLeft ? await signed(parts, workspaceId, from, message) : message, headers };
}

async function signed(
  { signer }: EmailCallParts,
  workspaceId: string,
  { domain }: Mailbox,
  message: Buffer,
): Promise<Buffer> {
  const answer = await signer.sign(workspaceId, domain, message);
  if (!Buffer.isBuffer(answer))
    throw deny("service_unavailable", `The source cannot be shown: ${answer.text}.`);
  return answer;
}

async function html({ sql }: EmailCallParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const email = await emailOf(sql, visit);
  expectBody(email);
  return framed(email.html ?? "", visit.query);
}

async function why({ sql }: EmailCallParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const email = await emailOf(sql, visit);
  const { id, status, nextAttemptAt, history } = email;
  const sentence = reasonOf(email, history, visit.now) ?? `The e-mail is ${status}.`;
  const earliest_at = nextAttemptAt?.toISOString() ?? null;
  return { status: 200, body: { object: "why", id, status, sentence, earliest_at } };
}

/** This one alone: others to its receivers wait as before. */
async function retry({ sql }: EmailCallParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const { id, status } = await emailOf(sql, visit);
  if ((await makeDue(sql, [{ workspaceId: visit.workspace.id, emailId: id }], new Date(visit.now))) === 0)
    throw deny(
      "validation_error",
      status === "deferred"
        ? "The e-mail is being tried now."
        : `The e-mail is ${status}: nothing is to be retried.`,
    );
  return { status: 200, body: { object: "email", id } };
}

/** The same to the same recipients, as a new e-mail that counts as one. */
async function again(parts: EmailCallParts, visit: VisitOf<KnownWorkspace>): Promise<ConsoleAnswer> {
  const email = await emailOf(parts.sql, visit);
  expectBody(email);
  const { from, to, cc, bcc, reply_to, subject } = email.head;
  const attachments = await attachmentsOf(parts.sql, visit, email);
  const answer = await parts.send(visit, {
    ...{ from, to, cc, bcc, reply_to, subject, stream: nameOfStream(email) },
    ...(email.html !== null && { html: email.html }),
    ...(email.plain !== null && { text: email.plain }),
    ...(email.extra?.headers && { headers: email.extra.headers }),
    ...(email.extra?.tags && { tags: email.extra.tags }),
    ...(attachments.length > 0 && { attachments: attachments.map(given) }),
  });
  if (answer.status !== 200) return answer;
  const { id } = JSON.parse(String(answer.body)) as { id: string };
  return { status: 200, body: { object: "email", id }, detail: { id } };
}

type AttachedContent = {
  filename: string;
  content: Buffer;
  contentType: string | null;
  contentId: string | null;
};

function given({ filename, content, contentType, contentId }: AttachedContent) {
  return {
    ...{ filename, content: content.toString("base64") },
    ...(contentType !== null && { content_type: contentType }),
    ...(contentId !== null && { content_id: contentId }),
  };
}

async function attachmentsOf(
  sql: Sql,
  { request, workspace }: VisitOf<KnownWorkspace>,
  { extra, html, plain }: WholeEmail,
): Promise<AttachedContent[]> {
  const refs = extra?.attachments ?? [];
  const attached = refs.reduce((sum, { bytes }) => sum + bytes, 0);
  if (attached > ATTACHED_BYTES_MAX)
    throw deny("validation_error", "The attachments are too large for the console: over 10 MB.");
  if (!request.takeRoom(COPIES * (attached + (html?.length ?? 0) + (plain?.length ?? 0))))
    throw deny("service_unavailable", "There is no room for this e-mail now. Try again in 1 second.");
  const contents = await readAttachments(sql, workspace.id, refs);
  return refs.map(({ filename, content_type, content_id }, n) => {
    const content = contents[n];
    if (!content) throw deny("not_found", `The attachment ${filename} is no longer kept.`);
    return { filename, content, contentType: content_type, contentId: content_id };
  });
}

function expectBody({ html, plain, extra }: WholeEmail): void {
  if (html === null && plain === null && extra === null)
    throw deny("not_found", "The contents of this e-mail are no longer kept (BODY_RETENTION_DAYS).");
}

async function emailOf(sql: Sql, { workspace, params }: VisitOf<KnownWorkspace>): Promise<WholeEmail> {
  const id = (params[0] ?? "").toLowerCase();
  const email = isUuid(id) ? await findEmail(sql, workspace.id, id) : null;
  if (!email) throw deny("not_found", "There is no e-mail with this id.");
  return email;
}
