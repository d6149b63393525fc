/**
 * One e-mail of a request: checked, completed from its template, and turned into rows. What the schema cannot
 * check (addresses, header names, times, base64) is checked here; a refusal names the field.
 */
import Type, { type Static } from "typebox";
import {
  HEADERS_GIVEN,
  hasDirectionMark,
  headerGivable,
  headerNameOk,
  headerReserved,
  headerValueOk,
  identity,
  type Mailbox,
  parseMailbox,
  reordersText,
} from "../address.ts";
import { hasMoreChars } from "../chars.ts";
import { DAY_MS } from "../clock.ts";
import { newId } from "../ids.ts";
import type { AttachmentRef, Extra, NewAttachment, NewEmail } from "../record/mail/emails.ts";
import type { Head, Shown } from "../rules/email.ts";
import { isJsonbOver } from "../rules/jsonb.ts";
import { isStreamName, type MailStream, streamNamed } from "../rules/stream.ts";
import { patterned } from "../schemafault.ts";
import type { RenderedEmail } from "../template/render.ts";
import { decodedOf } from "./attachment.ts";
import { missingField } from "./check.ts";
import type { Json } from "./json.ts";
import { type Refusal, refuse } from "./problem.ts";
import { parseTime } from "./time.ts";

const RECIPIENTS_MAX = 50;
export const CONTENT_BYTES_MAX = 2 * 1024 * 1024;
const VARIABLES_BYTES_MAX = 16_384;
const HEADERS_BYTES_MAX = 16_384;
/** Of one field: a batch holds a hundred times as much of each. */
const ADDRESSES_BYTES_MAX = 16_384;
export const SUBJECT_CHARS_MAX = 998;
const SCHEDULE_DAYS_MAX = 30;

export const OneOrMore = Type.Union([Type.String(), Type.Array(Type.String())]);
const Attachment = Type.Object(
  {
    filename: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    content: Type.Union(
      [
        Type.String({ description: "base64" }),
        Type.Object({
          type: Type.Literal("Buffer"),
          data: Type.Array(Type.Integer({ minimum: 0, maximum: 255 })),
        }),
        Type.Array(Type.Integer({ minimum: 0, maximum: 255 })),
      ],
      { description: "base64, or the bytes as older clients send them" },
    ),
    content_type: Type.Optional(Type.Union([Type.String({ maxLength: 255 }), Type.Null()])),
    content_id: Type.Optional(Type.Union([Type.String({ maxLength: 255 }), Type.Null()])),
  },
  { alsoRequired: ["filename"] },
);
export const TAG_TEXT = "[A-Za-z0-9_-]{1,256}";
export const TAG_TEXT_WORDS = "1 to 256 ASCII letters, digits, `_` or `-`";
const TagText = patterned(`^${TAG_TEXT}$`, TAG_TEXT_WORDS);
const Tag = Type.Object({ name: TagText, value: TagText });

export const SendEmail = Type.Object(
  {
    from: Type.Optional(
      Type.String({ description: "`a@x.com` or `Name <a@x.com>`; required unless from a template" }),
    ),
    to: Type.Optional(OneOrMore),
    cc: Type.Optional(OneOrMore),
    bcc: Type.Optional(OneOrMore),
    reply_to: Type.Optional(OneOrMore),
    subject: Type.Optional(Type.String({ description: "required unless from a template" })),
    html: Type.Optional(Type.String({ description: `at most ${CONTENT_BYTES_MAX} bytes` })),
    text: Type.Optional(
      Type.String({
        description: `derived from \`html\` when absent; an empty string suppresses it; at most ${CONTENT_BYTES_MAX} bytes`,
      }),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: `at most ${HEADERS_BYTES_MAX} bytes as JSON`,
      }),
    ),
    attachments: Type.Optional(Type.Array(Attachment)),
    tags: Type.Optional(Type.Array(Tag, { maxItems: 50 })),
    scheduled_at: Type.Optional(
      Type.String({ description: "RFC 3339, or `in 5 minutes`; at most 30 days ahead" }),
    ),
    template: Type.Optional(
      Type.Object({
        id: Type.String({ maxLength: 128, description: "id or external id" }),
        variables: Type.Optional(
          Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
            description: `at most ${VARIABLES_BYTES_MAX} bytes as JSON`,
          }),
        ),
      }),
    ),
    stream: Type.Optional(
      Type.String({
        description:
          "what kind of mail it is: `transactional`, `bulk` or a stream of the workspace; default: that of the key",
      }),
    ),
  },
  // told after what is wrong with the others
  { $id: "SendEmail", alsoRequired: ["to"] },
);
export type SendEmail = Static<typeof SendEmail>;

export type WrittenEmail = {
  email: NewEmail;
  attachments: NewAttachment[];
  counted: number;
  /** Its domain must be one that the workspace may write from. */
  fromDomain: string;
  /** As in its draft. */
  at: string;
};

export type Sender = {
  workspaceId: string;
  keyId: string;
  now: number;
  /** Of mail that names none. */
  stream: string;
  /** Those of the workspace. */
  streams: string;
  /** The link to the trace of the request; null: it has none. */
  trace: string | null;
};

/** As it came, and where it writes from. */
type From = { text: string; domain: string };

/** An e-mail whose own fields are checked; what it takes from a template is not there yet. */
export type Draft = {
  body: SendEmail;
  sender: Sender;
  /** The path of the e-mail in a batch, such as `[3].`, or nothing. */
  at: string;
  /** This and the subject are null where its template gives them. */
  from: From | null;
  subject: string | null;
  to: string[];
  cc: string[];
  bcc: string[];
  shown: Shown | null;
  replyTo: string[] | null;
  recipients: number;
  scheduledAt: number | null;
  stream: MailStream;
  rest: { extra: string | null; attachments: NewAttachment[]; bytes: number };
};

export function draftOf(body: SendEmail, sender: Sender, at: string, shown: Shown | null = null): Draft {
  refuseTwoBodies(body, at);
  const fromTemplate = body.template !== undefined;
  const from = body.from === undefined && fromTemplate ? null : readFrom(body.from, at);
  if (body.to === undefined) throw missingField(`${at}to`);
  const seen = new Set<string>();
  const to = recipients(body.to, `${at}to`, seen);
  if (to.length === 0) throw missingField(`${at}to`);
  const cc = body.cc === undefined ? [] : recipients(body.cc, `${at}cc`, seen);
  const bcc = body.bcc === undefined ? [] : recipients(body.bcc, `${at}bcc`, seen);
  if (seen.size > RECIPIENTS_MAX)
    throw refuse(
      "validation_error",
      `The \`${at}to\` field may have at most ${RECIPIENTS_MAX} recipients, together with \`cc\` and \`bcc\`.`,
    );
  const replyTo = body.reply_to === undefined ? null : replyToOf(body.reply_to, `${at}reply_to`);
  const subject = body.subject === undefined && fromTemplate ? null : checkSubject(body.subject, at);
  if (!fromTemplate && body.html === undefined && body.text === undefined)
    throw refuse("missing_required_field", `Missing \`${at}html\` or \`${at}text\` field.`);
  checkContent(body, at);
  const scheduledAt = checkSchedule(body.scheduled_at, sender.now, at);
  const stream = checkStream(body.stream ?? sender.stream, sender, at);
  if (shown) checkShown(shown);
  const rest = writeExtra(body, sender, at);
  return {
    body,
    sender,
    at,
    from,
    subject,
    to,
    cc,
    bcc,
    shown,
    replyTo,
    recipients: seen.size,
    scheduledAt,
    stream,
    rest,
  };
}

/** The rows to store; the draft's own from, subject and reply_to override the template's. */
export function writeDraft(draft: Draft, fromTemplate: RenderedEmail | null): WrittenEmail {
  const { body, sender, at, to, cc, bcc, scheduledAt } = draft;
  const { extra, attachments, bytes } = draft.rest;
  const from = draft.from ?? readFrom(fromTemplate?.from ?? undefined, at);
  const subject = draft.subject ?? checkRendered(fromTemplate?.subject ?? null, at);
  const replyTo = draft.replyTo ?? fromTemplate?.replyTo ?? [];
  const html = fromTemplate ? fromTemplate.html : (body.html ?? null);
  const plain = fromTemplate ? fromTemplate.text : (body.text ?? null);
  const head: Head = { from: from.text, to, cc, bcc, reply_to: replyTo, subject };
  if (draft.shown) head.shown = draft.shown;
  const headText = JSON.stringify(head);
  const email: NewEmail = {
    workspaceId: sender.workspaceId,
    id: newId(sender.now),
    keyId: sender.keyId,
    bulk: draft.stream.bulk,
    stream: draft.stream.stream,
    head: headText,
    weight: draft.recipients,
    bytes: headText.length + (html?.length ?? 0) + (plain?.length ?? 0) + bytes,
    html,
    plain,
    extra,
    scheduledAt,
  };
  return { email, attachments, counted: to.length, fromDomain: from.domain, at };
}

/** Text and what is made of it cost time with every e-mail. */
function checkContent(body: SendEmail, at: string): void {
  for (const name of ["html", "text"] as const) {
    const content = body[name];
    if (content !== undefined && isOver(content, CONTENT_BYTES_MAX))
      throw refuse(
        "validation_error",
        `The \`${at}${name}\` field must have at most ${CONTENT_BYTES_MAX} bytes.`,
      );
  }
  const variables = body.template?.variables;
  if (variables && isJsonbOver(variables, VARIABLES_BYTES_MAX))
    throw refuse(
      "validation_error",
      `The \`${at}template.variables\` field must have at most ${VARIABLES_BYTES_MAX} bytes as JSON, with all numbers written out in full.`,
    );
}

function isOver(text: string, bytes: number): boolean {
  return text.length * 3 > bytes && Buffer.byteLength(text) > bytes;
}

/** `a@x.com` or `Name <a@x.com>`, as it came. */
export function checkFrom(from: string | undefined, at: string): string {
  return readFrom(from, at).text;
}

function readFrom(text: string | undefined, at: string): From {
  if (text === undefined) throw missingField(`${at}from`);
  const mailbox = parseMailbox(text);
  if (!mailbox)
    throw refuse(
      "invalid_from_address",
      `The \`${at}from\` field must be \`a@x.com\` or \`Name <a@x.com>\`.`,
    );
  if (hasDirectionMark(text)) throw reordering(`The \`${at}from\` field`);
  return { text, domain: mailbox.domain };
}

export function replyToOf(given: string | string[], field: string): string[] {
  return recipients(given, field, new Set());
}

/** Fields that are no part of a request, and are refused rather than ignored. */
export const READ_TO_REFUSE = ["topic_id"];

/**
 * Checked first: an attachment with a `path` has no content, and its refusal must say that URLs are not
 * fetched.
 */
export function refuseUnsupported(body: { [name: string]: Json }, at: string): void {
  if (!isAbsent(body.topic_id))
    throw refuse("validation_error", `The \`${at}topic_id\` field is not supported. Remove it.`);
  if (!Array.isArray(body.attachments)) return;
  for (const [n, attachment] of body.attachments.entries()) {
    if (attachment === null || typeof attachment !== "object" || Array.isArray(attachment)) continue;
    if (!isAbsent(attachment.path))
      throw refuse(
        "invalid_attachment",
        `The \`${at}attachments[${n}].path\` field is not supported: URLs are never fetched. Send the file itself as base64 in \`content\`.`,
      );
  }
}

function isAbsent(value: Json | undefined): boolean {
  return value === undefined || value === null;
}

function refuseTwoBodies(body: SendEmail, at: string): void {
  if (body.template === undefined) return;
  for (const name of ["html", "text"] as const) {
    if (body[name] !== undefined)
      throw refuse(
        "validation_error",
        `The \`${at}${name}\` field cannot be given together with \`template\`.`,
      );
  }
}

function recipients(given: string | string[], field: string, seen: Set<string>): string[] {
  if (typeof given === "string") return readRecipient(given, field, seen) ? [given.trim()] : [];
  if (given.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0) > ADDRESSES_BYTES_MAX)
    throw refuse("validation_error", `The \`${field}\` field may have at most ${ADDRESSES_BYTES_MAX} bytes.`);
  const kept: string[] = [];
  for (const [n, text] of given.entries()) {
    if (!readRecipient(text, `${field}[${n}]`, seen)) continue;
    kept.push(text.trim());
    if (kept.length > RECIPIENTS_MAX)
      throw refuse(
        "validation_error",
        `The \`${field}\` field may have at most ${RECIPIENTS_MAX} recipients.`,
      );
  }
  return kept;
}

/**
 * Whether this address is new to the e-mail: repeated ones collapse, in any letter case, and the first
 * spelling stays.
 */
function readRecipient(text: string, field: string, seen: Set<string>): boolean {
  const mailbox: Mailbox | null = parseMailbox(text);
  if (!mailbox)
    throw refuse(
      "validation_error",
      /[,;]/.test(text)
        ? `The \`${field}\` field must be one address: \`a@x.com\` or \`Name <a@x.com>\`. Send several as an array.`
        : `The \`${field}\` field must be an address: \`a@x.com\` or \`Name <a@x.com>\`.`,
    );
  if (hasDirectionMark(text)) throw reordering(`The \`${field}\` field`);
  const person = identity(mailbox.address);
  if (seen.has(person)) return false;
  seen.add(person);
  return true;
}

export function checkSubject(subject: string | undefined, at: string): string {
  if (subject === undefined) throw missingField(`${at}subject`);
  return expectSubject(subject, `The \`${at}subject\` field`);
}

/** The request has no such field: what is wrong came with a variable. */
function checkRendered(subject: string | null, at: string): string {
  if (subject === null) throw missingField(`${at}subject`);
  return expectSubject(subject, `The \`${at}subject\` that the template makes of its variables`);
}

function expectSubject(subject: string, whose: string): string {
  if (!headerValueOk(subject))
    throw refuse("validation_error", `${whose} must not contain line breaks or control characters.`);
  if (reordersText(subject)) throw reordering(whose);
  if (hasMoreChars(subject, SUBJECT_CHARS_MAX))
    throw refuse("validation_error", `${whose} must have at most ${SUBJECT_CHARS_MAX} characters.`);
  return subject;
}

/** In another order `gpj.exe` looks like `exe.jpg`, and one address like another. */
function reordering(what: string): Refusal {
  return refuse(
    "validation_error",
    `${what} must not contain characters that change the direction of text, such as U+202E.`,
  );
}

function checkStream(name: string, { streams, workspaceId }: Sender, at: string): MailStream {
  const found = streamNamed(name, streams);
  if (found) return found;
  throw refuse(
    "validation_error",
    isStreamName(name)
      ? `The \`${at}stream\` field names a stream that this workspace does not have: \`${name}\`. Create it with \`postrider stream create ${name} --workspace ${workspaceId}\`.`
      : `The \`${at}stream\` field must be 1 to 32 characters of \`a-z\`, \`0-9\` and \`-\`.`,
  );
}

/** When it is due in ms; null when it may go at once. */
export function checkSchedule(text: string | undefined, now: number, at: string): number | null {
  if (text === undefined) return null;
  const time = parseTime(text, now);
  if (time === null)
    throw refuse(
      "validation_error",
      `The \`${at}scheduled_at\` field must be an RFC 3339 time with an offset, such as \`2026-11-20T20:07:38Z\`, or a span such as \`in 5 minutes\`.`,
    );
  if (time > now + SCHEDULE_DAYS_MAX * DAY_MS)
    throw refuse(
      "validation_error",
      `The \`${at}scheduled_at\` field may be at most ${SCHEDULE_DAYS_MAX} days ahead.`,
    );
  return time > now ? time : null;
}

function writeExtra(
  { headers, tags, attachments }: SendEmail,
  { workspaceId, trace }: Sender,
  at: string,
): { extra: string | null; attachments: NewAttachment[]; bytes: number } {
  const extra: Extra = {};
  if (headers && Object.keys(headers).length > 0) extra.headers = checkHeaders(headers, at);
  if (tags && tags.length > 0) extra.tags = tags.map(({ name, value }) => ({ name, value }));
  if (trace !== null) extra.trace = trace;
  const kept: NewAttachment[] = [];
  let bytes = 0;
  if (attachments && attachments.length > 0) {
    extra.attachments = attachments.map((attachment, n) => {
      const { ref, content } = readAttachment(attachment, `${at}attachments[${n}]`);
      kept.push({ workspaceId, hash: ref.hash, content });
      bytes += ref.bytes;
      return ref;
    });
  }
  const text = Object.keys(extra).length > 0 ? JSON.stringify(extra) : null;
  return { extra: text, attachments: kept, bytes: bytes + (text?.length ?? 0) };
}

/** They get no mail for being shown, so there may be more of them than recipients. */
function checkShown(shown: Shown): void {
  for (const [name, texts] of Object.entries(shown)) {
    if (texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0) > ADDRESSES_BYTES_MAX)
      throw refuse(
        "validation_error",
        `The \`${name}\` field may have at most ${ADDRESSES_BYTES_MAX} bytes.`,
      );
    const seen = new Set<string>();
    for (const [n, text] of texts.entries()) readRecipient(text, `${name}[${n}]`, seen);
  }
}

/** Headers that are written from a field of the request, which whoever gives them was looking for. */
const FIELD_OF: ReadonlyMap<string, string> = new Map([
  ...["from", "to", "cc", "bcc", "subject"].map((name) => [name, name] as const),
  ["reply-to", "reply_to"],
]);

function checkHeaders(headers: Record<string, string>, at: string): Record<string, string> {
  if (Buffer.byteLength(JSON.stringify(headers)) > HEADERS_BYTES_MAX)
    throw refuse(
      "validation_error",
      `The \`${at}headers\` field must have at most ${HEADERS_BYTES_MAX} bytes as JSON.`,
    );
  const seen = new Map<string, string>();
  for (const name of Object.keys(headers)) {
    const field = `${at}headers.${name}`;
    if (!headerNameOk(name))
      throw refuse(
        "validation_error",
        `The \`${at}headers\` field has a name that is not a valid header name.`,
      );
    if (headerReserved(name))
      throw refuse(
        "validation_error",
        FIELD_OF.has(name.toLowerCase())
          ? `The \`${field}\` field cannot be given: use the \`${at}${FIELD_OF.get(name.toLowerCase())}\` field.`
          : `The \`${field}\` field cannot be given: the engine sets this header.`,
      );
    if (!headerGivable(name))
      throw refuse(
        "validation_error",
        `The \`${field}\` field cannot be given. Allowed headers are ${HEADERS_GIVEN}.`,
      );
    const other = seen.get(name.toLowerCase());
    if (other !== undefined)
      throw refuse(
        "validation_error",
        `The \`${field}\` field is given twice: \`${other}\` is the same header.`,
      );
    seen.set(name.toLowerCase(), name);
    if (reordersText(headers[name] as string)) throw reordering(`The \`${field}\` field`);
    if (!headerValueOk(headers[name] as string))
      throw refuse(
        "validation_error",
        `The \`${field}\` field must not contain line breaks or control characters.`,
      );
  }
  return headers;
}

type GivenAttachment = NonNullable<SendEmail["attachments"]>[number];

function readAttachment(given: GivenAttachment, field: string): { ref: AttachmentRef; content: Buffer } {
  const { filename, content_type = null, content_id = null } = given;
  if (filename === undefined) throw missingField(`${field}.filename`);
  for (const [name, value] of Object.entries({ filename, content_type, content_id })) {
    if (value !== null && !headerValueOk(value))
      throw refuse(
        "invalid_attachment",
        `The \`${field}.${name}\` field must not contain line breaks or control characters.`,
      );
  }
  if (hasDirectionMark(filename)) throw reordering(`The \`${field}.filename\` field`);
  const decoded = decodedOf(given);
  switch (decoded.kind) {
    case "content": {
      const { bytes: content, hash } = decoded;
      const ref = { filename, hash, bytes: content.byteLength, content_type };
      // an empty one can be named by no HTML
      return { ref: { ...ref, content_id: content_id || null }, content };
    }
    case "not base64":
      throw refuse(
        "invalid_attachment",
        `The \`${field}.content\` field must be base64, without a prefix such as \`data:text/plain;base64,\`.`,
      );
    case "too large":
      throw refuse(
        "invalid_attachment",
        `The \`${field}.content\` field is too large for an array of bytes. Send base64.`,
      );
  }
}
