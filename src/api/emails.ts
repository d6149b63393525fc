/** /emails: send one or a batch, read, list, reschedule, cancel. */
import { domainToUnicode } from "node:url";
import Type from "typebox";
import { parseMailbox } from "../address.ts";
import { allows } from "../admission/permissions.ts";
import { Unavailable } from "../admission/unavailable.ts";
import type { Clock } from "../clock.ts";
import type { Owners } from "../domain/owners.ts";
import { isUuid } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { type ChangeResult, cancel, reschedule } from "../record/mail/change.ts";
import { messageIdOf } from "../record/mail/emails.ts";
import { type EmailRow, findEmail, listEmails, type WholeEmail } from "../record/mail/read.ts";
import { type EmailFilter, searchEmails } from "../record/mail/search.ts";
import { readAttempt } from "../rules/connection.ts";
import { ENDINGS, type HistoryEntry, OPEN_STATUSES, type Shown } from "../rules/email.ts";
import { reasonOf } from "../rules/reason.ts";
import { isStreamName, nameOfStream } from "../rules/stream.ts";
import { type Outgoing, type QuotaRefusal, recall, type Submit, type Submitted } from "../submit.ts";
import type { TemplateCache } from "../template/cache.ts";
import { turn } from "../turn.ts";
import { checker, missingBody } from "./check.ts";
import {
  checkSchedule,
  type Draft,
  draftOf,
  READ_TO_REFUSE,
  refuseUnsupported,
  SendEmail,
  type Sender,
  SUBJECT_CHARS_MAX,
  TAG_TEXT,
  TAG_TEXT_WORDS,
  type WrittenEmail,
} from "./draft.ts";
import { badText, INVALID_KEY, lacks, SUSPENDED } from "./gate.ts";
import { IDEMPOTENCY_KEY, idempotencyKey, keyConflict, outcomeUnknown } from "./idempotency.ts";
import type { Json } from "./json.ts";
import { jsonInTurns } from "./jsonturns.ts";
import { writeDrafts } from "./mailmerge.ts";
import { Misspelt, type Warning, Warnings } from "./misspelt.ts";
import { envelopeOf, identityIn, LIST_QUERY, oneOf, pageOf, textIn } from "./page.ts";
import { type Problem, Refusal, refuse } from "./problem.ts";
import {
  type Answer,
  type Call,
  type CallHead,
  EMAIL_BODY_BYTES_MAX,
  type Parameter,
  type Route,
} from "./routes.ts";
import { Count, Id, inner, listOf, Named, orNull, shape, Text, Time, told } from "./shapes.ts";
import { iso, parseInstant } from "./time.ts";

const BATCH_MAX = 100;
const TAG = new RegExp(`^${TAG_TEXT}:${TAG_TEXT}$`);
const FILTER_QUERY = [
  { name: "status", description: "as `status` of an e-mail" },
  { name: "to", description: "an address in `to`, `cc` or `bcc`" },
  { name: "subject", description: "words that are all in the subject" },
  { name: "tag", description: "`name:value`" },
  { name: "stream", description: "`transactional`, `bulk` or a stream of the workspace" },
  { name: "api_key_id", description: "only e-mails sent with this key" },
  { name: "since", description: "accepted then or later, RFC 3339" },
  { name: "until", description: "accepted before, RFC 3339" },
];
const EMAIL_STATUSES = [...OPEN_STATUSES, ...ENDINGS.map(([, status]) => status)];
/** After so much work the event loop gets a turn. */
const DRAFT_MS_MAX = 10;

const BATCH_VALIDATION: Parameter = {
  name: "x-batch-validation",
  description: "`permissive` accepts the e-mails that are right and names the others; default `strict`",
  schema: { type: "string", enum: ["strict", "permissive"], default: "strict" },
};

const Reschedule = Type.Object({ scheduled_at: Type.String() }, { $id: "Reschedule" });

const Accepted = inner({ id: Id });
const SendAnswer = inner({ id: Id, warnings: Warnings });
const BatchAnswer = inner({
  data: Type.Array(Accepted, { description: "in the order of the e-mails" }),
  errors: Type.Optional(
    Type.Array(Type.Object({ index: Type.Integer(), message: Type.String() }), {
      description: "with `x-batch-validation: permissive`: the e-mails that were refused",
    }),
  ),
  warnings: Warnings,
});

const emailFields = {
  object: Type.Literal("email"),
  id: Id,
  message_id: Text,
  from: Text,
  to: Type.Array(Text),
  cc: Type.Array(Text),
  bcc: Type.Array(Text),
  reply_to: Type.Array(Text),
  subject: orNull(Text),
  status: Type.Enum([...EMAIL_STATUSES]),
  last_event: Text,
  created_at: Time,
  updated_at: Time,
  scheduled_at: orNull(Time),
  sent_at: orNull(Time),
  delivered_at: orNull(Time),
  delayed_at: orNull(Time),
  bounced_at: orNull(Time),
  complained_at: orNull(Time),
  failed_at: orNull(Time),
  attempts: Count,
  stream: Text,
  waiting_for: orNull(Type.Enum(["cap_hour", "cap_day", "quota_month"])),
  next_attempt_at: orNull(Time),
  reason: orNull(Text),
};
const EmailAnswer = shape("Email", {
  ...emailFields,
  html: orNull(Text),
  text: orNull(Text),
  headers: orNull(Type.Record(Type.String(), Type.String())),
  tags: Type.Array(inner({ name: Text, value: Text })),
  events: Type.Array(
    inner({ type: Text, at: Time, recipient: Type.Optional(Text), detail: Type.Optional(Text) }),
  ),
  delivery_attempts: Type.Array(Named),
});
const EmailChanged = told("email");
const checkEmail = checker(SendEmail);
const checkReschedule = checker(Reschedule);

export type EmailParts = {
  submit: Submit;
  reads: Sql;
  templates: TemplateCache;
  owners: Owners;
  clock: Clock;
};

/** Who sends. */
type Asker = Pick<Call, "caller"> & { exchange: Pick<CallHead, "span"> };

export type AskedClaim = { scope: string; key: string; digest: string };

type Listing = { lists(): Sql };

export function emailRoutes(parts: EmailParts & Listing): Route[] {
  const sends = {
    permissions: ["emails:send"],
    bodyBytesMax: EMAIL_BODY_BYTES_MAX,
    alsoReads: READ_TO_REFUSE,
    commits: true,
    success: 200,
  } as const;
  const reads = { permissions: ["emails:send"], success: 200 } as const;
  return [
    {
      ...sends,
      method: "POST",
      path: "/api/v1/emails",
      summary: "Send an e-mail",
      request: SendEmail,
      answer: SendAnswer,
      headers: [IDEMPOTENCY_KEY],
      digestPrefix: () => "\n",
      handle: (call) => sendOne(parts, call),
    },
    {
      ...sends,
      method: "POST",
      path: "/api/v1/emails/batch",
      summary: `Send up to ${BATCH_MAX} e-mails`,
      request: Type.Array(SendEmail, { minItems: 1, maxItems: BATCH_MAX }),
      answer: BatchAnswer,
      headers: [IDEMPOTENCY_KEY, BATCH_VALIDATION],
      digestPrefix: (head) => `${isPermissive(head) ? "permissive" : "strict"}\n`,
      sparesItems: isPermissive,
      handle: (call) => sendBatch(parts, call),
    },
    {
      ...reads,
      method: "GET",
      path: "/api/v1/emails",
      summary:
        "List e-mails, newest first; a filtered page may hold fewer than match: go on with `next_cursor`",
      answer: listOf(shape("EmailItem", emailFields)),
      query: [...LIST_QUERY, ...FILTER_QUERY],
      handle: (call) => list(parts, call),
    },
    {
      ...reads,
      method: "GET",
      path: "/api/v1/emails/{id}",
      summary: "Get an e-mail: status, history and contents",
      answer: EmailAnswer,
      handle: (call) => get(parts, call),
    },
    {
      ...reads,
      method: "PATCH",
      path: "/api/v1/emails/{id}",
      summary: "Move a scheduled e-mail to another time",
      request: Reschedule,
      answer: EmailChanged,
      handle: (call) => patch(parts, call),
    },
    {
      ...reads,
      method: "POST",
      path: "/api/v1/emails/{id}/cancel",
      summary: "Cancel a scheduled or waiting e-mail",
      answer: EmailChanged,
      handle: (call) => cancelOne(parts, call),
    },
  ];
}

function sendOne(parts: EmailParts, call: Call): Promise<Answer> {
  const claim = claimOf(idempotencyKey(call), "emails", call);
  return sendEmail(parts, call, { claim, shown: null });
}

/**
 * One e-mail of whoever was admitted, by HTTP or otherwise. `shown`: what its header names besides its
 * recipients.
 */
export async function sendEmail(
  parts: EmailParts,
  call: Asker & Pick<Call, "body">,
  { claim, shown }: { claim: AskedClaim | null; shown: Shown | null },
): Promise<Answer> {
  const draft = draftOf(checkItem(call.body, ""), senderOf(parts, call), "", shown);
  const misspelt = new Misspelt(READ_TO_REFUSE);
  misspelt.look(call.body, SendEmail, "");
  const warnings = warningsOf(misspelt);
  return unlessAnswered(parts, call, claim, async () => {
    const written = await writeDrafts(parts.templates, [draft], (_, refusal) => {
      throw refusal;
    });
    await dropForeign(parts, call, written, (_, refusal) => {
      throw refusal;
    });
    return send(parts, call, written, JSON.stringify({ id: written[0]?.email.id, ...warnings }), claim);
  });
}

async function sendBatch(parts: EmailParts, call: Call): Promise<Answer> {
  const key = idempotencyKey(call);
  checkValidationMode(call);
  const permissive = isPermissive(call.exchange);
  const { body } = call;
  if (body === undefined) throw missingBody("an array of e-mails");
  if (!Array.isArray(body)) throw refuse("validation_error", "The request body must be an array of e-mails.");
  if (body.length === 0 || body.length > BATCH_MAX)
    throw refuse(
      "validation_error",
      `A batch must hold 1 to ${BATCH_MAX} e-mails; this one holds ${body.length}.`,
    );
  const claim = claimOf(key, "emails/batch", call);
  const errors = new BatchErrors(permissive);
  const misspelt = new Misspelt(READ_TO_REFUSE);
  for (const [n, path] of call.badItems ?? []) errors.note(n, badText(path));
  const drafts = await draftBatch(body, senderOf(parts, call), errors, misspelt);
  const warnings = warningsOf(misspelt);
  return unlessAnswered(parts, call, claim, async () => {
    const filled = await writeDrafts(
      parts.templates,
      drafts.map(({ draft }) => draft),
      (n, refusal) => errors.note(drafts[n]?.index ?? 0, refusal),
    );
    const indexOf = new Map(drafts.map(({ index, draft }) => [draft.at, index]));
    const written = await dropForeign(parts, call, filled, ({ at }, refusal) =>
      errors.note(indexOf.get(at) ?? 0, refusal),
    );
    const data = written.map(({ email }) => ({ id: email.id }));
    const answer = JSON.stringify({ data, ...(permissive && { errors: errors.inOrder() }), ...warnings });
    // under a key it is an answer to be given again, even when nothing was written
    if (written.length > 0 || claim !== null) return send(parts, call, written, answer, claim);
    return { status: 200, body: answer };
  });
}

/** What is wrong with single e-mails of a batch: noted in a permissive one, the end of a strict one. */
class BatchErrors {
  readonly #isPermissive: boolean;
  readonly #found: { index: number; message: string }[] = [];

  constructor(isPermissive: boolean) {
    this.#isPermissive = isPermissive;
  }

  note(index: number, refusal: Refusal): void {
    if (!this.#isPermissive) throw refusal;
    this.#found.push({ index, message: refusal.problem.message });
  }

  has(index: number): boolean {
    return this.#found.some((one) => one.index === index);
  }

  inOrder(): { index: number; message: string }[] {
    return this.#found.sort((a, b) => a.index - b.index);
  }
}

async function draftBatch(
  body: readonly Json[],
  sender: Sender,
  errors: BatchErrors,
  misspelt: Misspelt,
): Promise<{ index: number; draft: Draft }[]> {
  const drafts: { index: number; draft: Draft }[] = [];
  let until = performance.now() + DRAFT_MS_MAX;
  for (const [index, item] of body.entries()) {
    if (errors.has(index)) continue;
    try {
      drafts.push({ index, draft: draftOf(checkItem(item, `[${index}].`), sender, `[${index}].`) });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      errors.note(index, error);
    }
    misspelt.look(item, SendEmail, `[${index}].`);
    if (performance.now() < until) continue;
    await turn();
    until = performance.now() + DRAFT_MS_MAX;
  }
  return drafts;
}

/** The first answer stands, even if the template or the sender's domain has changed or gone since. */
async function unlessAnswered(
  parts: EmailParts,
  call: Asker,
  claim: AskedClaim | null,
  write: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await write();
  } catch (error) {
    const mayHaveChanged = error instanceof Refusal && isOfOneEmail(error.problem);
    const earlier = mayHaveChanged ? await earlierAnswer(parts, call, claim) : null;
    if (earlier) return earlier;
    throw error;
  }
}

/** Drops drafts whose sender the workspace may not use; `onRefused` is called for each. */
async function dropForeign(
  { owners }: EmailParts,
  { caller }: Asker,
  written: readonly WrittenEmail[],
  onRefused: (one: WrittenEmail, refusal: Refusal) => void,
): Promise<readonly WrittenEmail[]> {
  let refused = owners.refused(
    caller,
    written.map(({ fromDomain }) => fromDomain),
  );
  if (refused instanceof Promise)
    refused = await refused.catch((error: unknown) => {
      throw new Unavailable("postgres", "Postgres did not answer", error);
    });
  if (refused.size === 0) return written;
  const foreign = refused;
  return written.filter((one) => {
    if (!foreign.has(one.fromDomain)) return true;
    onRefused(one, notVerified(one, caller.workspaceId));
    return false;
  });
}

function notVerified({ fromDomain, at }: WrittenEmail, workspaceId: string): Refusal {
  const where = at === "" ? "" : ` (the \`${at}from\` field)`;
  const about = `${fromDomain} --workspace ${workspaceId}`;
  return refuse(
    "validation_error",
    `The domain \`${fromDomain}\` is not verified for this workspace${where}. ` +
      `Add it with \`POST /domains\` or \`postrider domain add ${about}\`, publish the DNS record that this shows, ` +
      `then verify it with \`POST /domains/{id}/verify\` or \`postrider domain verify ${about}\`.`,
    { status: 403 },
  );
}

function isOfOneEmail({ status, name }: Problem): boolean {
  return [404, 422].includes(status) || (status === 403 && name === "validation_error");
}

async function earlierAnswer(
  { reads, clock }: EmailParts,
  { caller }: Asker,
  claim: AskedClaim | null,
): Promise<Answer | null> {
  const earlier = claim && (await recall(reads, caller.workspaceId, claim, clock.given()));
  return earlier && answerTo(earlier, claim, "");
}

function checkItem(item: Json | undefined, at: string): SendEmail {
  const email = object(item, at);
  refuseUnsupported(email, at);
  return checkEmail(email, at);
}

/** Part of the answer only when there is one. */
function warningsOf({ warnings }: Misspelt): { warnings?: Warning[] } {
  return warnings.length > 0 ? { warnings } : {};
}

async function send(
  { submit }: EmailParts,
  { caller, exchange }: Asker,
  written: readonly WrittenEmail[],
  answer: string,
  claim: AskedClaim | null,
): Promise<Answer> {
  let counted = 0;
  const outgoing: Outgoing = {
    emails: written.map(({ email }) => email),
    attachments: written.flatMap(({ attachments }) => attachments),
    counted: 0,
    span: exchange.span,
    claim: claim && { ...claim, answer },
  };
  for (const one of written) counted += one.counted;
  outgoing.counted = counted;
  return answerTo(await submit(caller, outgoing), claim, answer);
}

function answerTo(submitted: Submitted, claim: { key: string } | null, answer: string): Answer {
  switch (submitted.kind) {
    case "accepted":
      return { status: 200, body: answer };
    case "replayed":
      return { status: 200, body: submitted.answer };
    case "concurrent":
      throw refuse(
        "concurrent_idempotent_requests",
        "A request with this `Idempotency-Key` is still being processed. Try again later.",
      );
    case "conflict":
      throw keyConflict();
    case "over quota":
      throw overQuota(submitted.refusal);
    case "key revoked":
      throw new Refusal(INVALID_KEY);
    case "workspace suspended":
      throw new Refusal(SUSPENDED);
    case "outcome unknown":
      throw outcomeUnknown(claim);
  }
}

function overQuota(refusal: QuotaRefusal): Refusal {
  const { period, limit, used, requested, plan, requiredPlan, retryAfterSeconds } = refusal;
  const name = period === "day" ? "daily" : "monthly";
  return refuse(
    "quota_exceeded",
    `This request would exceed the ${name} quota: ${used} of ${limit} used, ${requested} requested. The quota resets in ${retryAfterSeconds} second${retryAfterSeconds === 1 ? "" : "s"}.`,
    {
      details: {
        period,
        limit,
        used,
        requested,
        plan,
        required_plan: requiredPlan,
        retry_after: retryAfterSeconds,
      },
      headers: { "Retry-After": String(retryAfterSeconds) },
    },
  );
}

async function get({ reads, clock }: EmailParts, { caller, params }: Call): Promise<Answer> {
  const id = emailId(params);
  const email = await findEmail(reads, caller.workspaceId, id);
  if (!email) throw unknownEmail();
  if (email.keyId !== caller.keyId && !allows(caller.permissions, "full")) throw lacks("full");
  const { html, plain: text } = email;
  return { status: 200, body: await jsonInTurns(showWhole(email, clock.now()), { html, text }) };
}

async function list(
  { lists, clock }: Listing & Pick<EmailParts, "clock">,
  { caller, query }: Call,
): Promise<Answer> {
  const page = pageOf(query, FILTER_NAMES);
  const ownKey = allows(caller.permissions, "full") ? null : caller.keyId;
  const filter = filterOf(query, ownKey);
  const now = clock.now();
  const { workspaceId } = caller;
  const shown = (email: EmailRow) => show(email, null, now);
  if (Object.values(filter).every((one) => one === null)) {
    const { rows, isMore } = await listEmails(lists(), workspaceId, page);
    return { status: 200, body: envelopeOf(rows, isMore, page, shown) };
  }
  // a key that asks for the mail of another gets nothing, as it is shown only its own
  if (ownKey !== null && filter.keyId !== ownKey)
    return { status: 200, body: envelopeOf([], false, page, shown) };
  const { rows, isMore, next } = await searchEmails(lists(), workspaceId, filter, page);
  return { status: 200, body: envelopeOf(rows, isMore, page, shown, next) };
}

const FILTER_NAMES = FILTER_QUERY.map(({ name }) => name);

function filterOf(query: URLSearchParams, ownKey: string | null): EmailFilter {
  const keyId = textIn(query, "api_key_id", 36);
  if (keyId !== null && !isUuid(keyId)) throw refuse("invalid_parameter", "`api_key_id` must be a UUID.");
  return {
    keyId: keyId?.toLowerCase() ?? ownKey,
    status: oneOf(query, "status", EMAIL_STATUSES),
    recipient: recipientIn(query),
    subject: textIn(query, "subject", SUBJECT_CHARS_MAX),
    tag: tagIn(query),
    stream: streamIn(query),
    since: timeIn(query, "since"),
    until: timeIn(query, "until"),
  };
}

/** As it was asked for and as it is known: a domain may be written in two alphabets. */
function recipientIn(query: URLSearchParams): string[] | null {
  const known = identityIn(query, "to");
  const asked = query.get("to")?.replaceAll(" ", "+").toLowerCase();
  if (known === null || asked === undefined) return null;
  const at = known.lastIndexOf("@") + 1;
  const spelt = known.slice(0, at) + domainToUnicode(known.slice(at));
  return [...new Set([known, asked, spelt])];
}

function tagIn(query: URLSearchParams): EmailFilter["tag"] {
  const text = query.get("tag");
  if (text === null) return null;
  if (!TAG.test(text))
    throw refuse("invalid_parameter", `\`tag\` must be \`name:value\`, each of ${TAG_TEXT_WORDS}.`);
  const [name = "", value = ""] = text.split(":");
  return { name, value };
}

function streamIn(query: URLSearchParams): string | null {
  const name = textIn(query, "stream", 32);
  if (name === null || isStreamName(name)) return name;
  throw refuse("invalid_parameter", "`stream` must be 1 to 32 characters of `a-z`, `0-9` and `-`.");
}

function timeIn(query: URLSearchParams, name: string): Date | null {
  const text = query.get(name);
  if (text === null) return null;
  const at = parseInstant(text.replaceAll(" ", "+"));
  if (at === null)
    throw refuse(
      "invalid_parameter",
      `\`${name}\` must be an RFC 3339 time, such as \`2026-11-20T20:00:00Z\`.`,
    );
  return new Date(at);
}

async function patch({ reads, clock }: EmailParts, { caller, params, body }: Call): Promise<Answer> {
  const id = emailId(params);
  const now = clock.now();
  const at = checkSchedule(checkReschedule(object(body)).scheduled_at, now, "") ?? now;
  const keyId = allows(caller.permissions, "full") ? null : caller.keyId;
  return changed(
    await reschedule(reads, { workspaceId: caller.workspaceId, id, keyId }, at, new Date(now)),
    id,
  );
}

async function cancelOne({ reads, clock }: EmailParts, { caller, params }: Call): Promise<Answer> {
  const id = emailId(params);
  const keyId = allows(caller.permissions, "full") ? null : caller.keyId;
  return changed(
    await cancel(reads, { workspaceId: caller.workspaceId, id, keyId }, new Date(clock.now())),
    id,
  );
}

function changed(result: ChangeResult, id: string): Answer {
  switch (result) {
    case "changed":
      return { status: 200, body: JSON.stringify({ object: "email", id }) };
    case "not found":
      throw unknownEmail();
    case "another key's":
      throw lacks("full");
    case "too late":
      throw refuse(
        "validation_error",
        "It is too late: only a scheduled e-mail can be moved, and only a scheduled or waiting one can be canceled.",
      );
  }
}

export function unknownEmail(): Refusal {
  return refuse("not_found", "There is no e-mail with this id.");
}

export function emailId(params: readonly string[]): string {
  const id = params[0] ?? "";
  if (!isUuid(id)) throw refuse("invalid_parameter", "The `id` of an e-mail must be a UUID.");
  return id.toLowerCase();
}

function senderOf({ clock }: EmailParts, { caller, exchange }: Asker): Sender {
  const { workspaceId, keyId, stream, streams } = caller;
  return { workspaceId, keyId, stream, streams, now: clock.now(), trace: exchange.span?.link ?? null };
}

function object(body: Json | undefined, at = ""): { [name: string]: Json } {
  if (body === undefined) return {};
  if (body !== null && typeof body === "object" && !Array.isArray(body)) return body;
  const subject = at === "" ? "The request body" : `The \`${at.slice(0, -1)}\` item`;
  throw refuse("validation_error", `${subject} must be a JSON object.`);
}

/** The same request is the same bytes under the same validation mode. */
function claimOf(key: string | null, scope: string, { digest }: Call): AskedClaim | null {
  return key === null ? null : { scope, key, digest: digest() };
}

function isPermissive({ head }: CallHead): boolean {
  return head.batchValidation === "permissive";
}

function checkValidationMode({ exchange }: Call): void {
  if (["", "strict", "permissive"].includes(exchange.head.batchValidation)) return;
  throw refuse("validation_error", "The `x-batch-validation` header must be `strict` or `permissive`.");
}

function show(email: EmailRow, history: HistoryEntry[] | null, now: number) {
  const { head } = email;
  return {
    object: "email",
    id: email.id,
    message_id: messageIdOf(email.id, parseMailbox(head.from)),
    from: head.from,
    to: head.to,
    cc: head.cc,
    bcc: head.bcc,
    reply_to: head.reply_to,
    subject: head.subject,
    status: email.status,
    last_event: lastEvent(email),
    created_at: iso(email.createdAt),
    updated_at: iso(email.updatedAt),
    scheduled_at: iso(email.scheduledAt),
    sent_at: iso(email.sentAt),
    delivered_at: iso(email.deliveredAt),
    delayed_at: iso(email.delayedAt),
    bounced_at: iso(email.bouncedAt),
    complained_at: iso(email.complainedAt),
    failed_at: iso(email.failedAt),
    attempts: email.attempts,
    stream: nameOfStream(email),
    waiting_for:
      email.waitingFor === "scheduled" || email.waitingFor === "deferred" ? null : email.waitingFor,
    next_attempt_at: iso(email.nextAttemptAt),
    reason: reasonOf(email, history, now),
  };
}

/** But for its contents. */
function showWhole(email: WholeEmail, now: number) {
  const shown = show(email, email.history, now);
  return Object.assign(shown, {
    headers: email.extra?.headers ?? null,
    tags: email.extra?.tags ?? [],
    events: eventsOf(email),
    delivery_attempts: attemptsOf(email),
  });
}

function lastEvent({ status, sentAt }: EmailRow): string {
  if (status === "accepted") return sentAt === null ? "queued" : "sent";
  if (status === "waiting" || status === "deferred") return "delivery_delayed";
  return status;
}

function eventsOf({ createdAt, scheduledAt, sentAt, history }: WholeEmail): HistoryEntry[] {
  const events: HistoryEntry[] = [
    { type: scheduledAt ? "scheduled" : "queued", at: createdAt.toISOString() },
  ];
  if (sentAt) events.push({ type: "sent", at: sentAt.toISOString() });
  for (const { type, at, recipient, detail } of history ?? [])
    events.push({
      type,
      at,
      ...(recipient !== undefined && { recipient }),
      ...(detail !== undefined && { detail }),
    });
  return events.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

/** Each attempt for each recipient, with the literal reply; oldest first. */
function attemptsOf({ history }: WholeEmail) {
  return (history ?? [])
    .filter(({ attempt }) => attempt !== undefined)
    .map(({ at, recipient, attempt = "", detail }) => {
      const { phase, ms, host, ip, tls, isVerified, policy, from } = readAttempt(attempt);
      return {
        at,
        recipient: recipient ?? null,
        host,
        ip,
        source_ip: from,
        tls,
        tls_verified: isVerified,
        tls_policy: policy ?? "none",
        phase,
        reply: detail ?? null,
        duration_ms: ms,
      };
    });
}
