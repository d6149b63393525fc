/**
 * /suppressions: addresses that a workspace does not write to. Shapes as the official client types them, and
 * more.
 */

import Type from "typebox";
import { identity, parseMailbox } from "../address.ts";
import type { Clock } from "../clock.ts";
import { isUuid } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import type { HashOf } from "../record/mail/barred.ts";
import {
  findSuppression,
  listSuppressions,
  type Suppression,
  type SuppressionKey,
  undoSuppressions,
} from "../record/mail/suppressions.ts";
import { SUPPRESSION_REASONS, type SuppressionReason } from "../rules/suppression.ts";
import { entryOf, readScope, SCOPE_OF_ALL, suppress } from "../suppression/entry.ts";
import { checker } from "./check.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { type Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Id, inner, listOf, orNull, shape, Text, Time, told } from "./shapes.ts";
import { iso } from "./time.ts";

const PATH = "/api/v1/suppressions";
const BATCH_MAX = 100;
const EVIDENCE_CHARS_MAX = 500;

const reason = Type.Optional(Type.Enum([...SUPPRESSION_REASONS], { description: "default `manual`" }));
const evidence = Type.Optional(
  Type.String({ maxLength: EVIDENCE_CHARS_MAX, description: "what it is based on" }),
);
const scope = Type.Optional(
  Type.String({
    description: "a domain: only mail from it, and from those below it, is kept back; default all",
  }),
);
const someTexts = Type.Array(Type.String(), { minItems: 1, maxItems: BATCH_MAX });

export const NewSuppressionBody = Type.Object(
  { email: Type.String(), reason, scope, evidence },
  { $id: "NewSuppression" },
);
const AddSuppressions = Type.Object(
  { emails: someTexts, reason, scope, evidence },
  { $id: "AddSuppressions" },
);
const RemoveSuppressions = Type.Object(
  { emails: Type.Optional(someTexts), ids: Type.Optional(someTexts) },
  { $id: "RemoveSuppressions" },
);
const suppressionFields = {
  id: Id,
  email: orNull(Text),
  reason: Type.Enum([...SUPPRESSION_REASONS]),
  origin: Type.Enum([...SUPPRESSION_REASONS]),
  scope: Type.String({ description: "`workspace`, or a domain of senders" }),
  evidence: orNull(Text),
  source_id: orNull(Id),
  created_at: Time,
};
const Added = told("suppression");
const Removed = told("suppression", { deleted: Type.Literal(true) });
const checkNew = checker(NewSuppressionBody);
const checkAdd = checker(AddSuppressions);
const checkRemove = checker(RemoveSuppressions);

export type SuppressionParts = { reads: Sql; clock: Clock; hashOf: HashOf };

export function suppressionRoutes(parts: SuppressionParts): Route[] {
  const permissions = ["full"] as const;
  return [
    {
      method: "GET",
      path: PATH,
      permissions,
      summary: "List suppressed addresses, newest first",
      success: 200,
      answer: listOf(shape("SuppressionItem", suppressionFields)),
      query: [
        ...LIST_QUERY,
        {
          name: "reason",
          alias: "origin",
          description: "`bounce`, `complaint` or `manual`; also `origin`",
        },
      ],
      handle: (call) => list(parts, call),
    },
    {
      method: "POST",
      path: PATH,
      permissions,
      summary: "Suppress an address: nothing is sent to it any more",
      success: 201,
      request: NewSuppressionBody,
      answer: Added,
      handle: (call) => add(parts, call),
    },
    {
      method: "GET",
      path: `${PATH}/{id_or_email}`,
      permissions,
      summary: "Get one suppressed address, with its evidence",
      success: 200,
      answer: shape("Suppression", { object: Type.Literal("suppression"), ...suppressionFields }),
      handle: (call) => get(parts, call),
    },
    {
      method: "DELETE",
      path: `${PATH}/{id_or_email}`,
      permissions,
      summary: "Undo a suppression, and what was counted for it",
      success: 200,
      answer: Removed,
      handle: (call) => remove(parts, call),
    },
    {
      method: "POST",
      path: `${PATH}/batch/add`,
      permissions,
      summary: `Suppress up to ${BATCH_MAX} addresses`,
      success: 200,
      request: AddSuppressions,
      answer: inner({ data: Type.Array(Added) }),
      handle: (call) => addBatch(parts, call),
    },
    {
      method: "POST",
      path: `${PATH}/batch/remove`,
      permissions,
      summary: `Undo up to ${BATCH_MAX} suppressions`,
      success: 200,
      request: RemoveSuppressions,
      answer: inner({ data: Type.Array(Removed) }),
      handle: (call) => removeBatch(parts, call),
    },
  ];
}

async function list({ reads }: SuppressionParts, { caller, query }: Call): Promise<Answer> {
  const page = pageOf(query, ["reason", "origin"]);
  const rows = await listSuppressions(reads, caller.workspaceId, reasonIn(query), page);
  return { status: 200, body: envelope(rows, page, (row) => withoutObject(shown(row))) };
}

async function get(parts: SuppressionParts, { caller, params }: Call): Promise<Answer> {
  const found = await findSuppression(parts.reads, caller.workspaceId, keyOf(parts.hashOf, params[0] ?? ""));
  if (!found) throw unknownSuppression();
  return { status: 200, body: JSON.stringify(shown(found)) };
}

async function add({ reads, clock, hashOf }: SuppressionParts, { caller, body }: Call): Promise<Answer> {
  const { email, ...rest } = checkNew(body);
  const now = clock.now();
  const entry = entryOf(hashOf, caller.workspaceId, { email, ...termsOf(rest) }, now);
  if (!entry) throw noAddress("email");
  const [id] = await suppress(reads, [entry], now);
  return { status: 201, body: JSON.stringify({ object: "suppression", id }) };
}

async function addBatch({ reads, clock, hashOf }: SuppressionParts, { caller, body }: Call): Promise<Answer> {
  const { emails, ...rest } = checkAdd(body);
  const now = clock.now();
  const terms = termsOf(rest);
  const entries = emails.map((email, n) => {
    const entry = entryOf(hashOf, caller.workspaceId, { email, ...terms }, now);
    if (!entry) throw noAddress(`emails[${n}]`);
    return entry;
  });
  const ids = await suppress(reads, entries, now);
  return { status: 200, body: JSON.stringify({ data: ids.map((id) => ({ object: "suppression", id })) }) };
}

async function remove(parts: SuppressionParts, { caller, params }: Call): Promise<Answer> {
  const { reads, clock, hashOf } = parts;
  const key = keyOf(hashOf, params[0] ?? "");
  const [undone] = await undoSuppressions(reads, caller.workspaceId, [key], byKey(clock));
  if (!undone) throw unknownSuppression();
  return { status: 200, body: JSON.stringify({ object: "suppression", id: undone.id, deleted: true }) };
}

/** What is not suppressed is passed over: a repeated call takes nothing away from the rest. */
async function removeBatch(parts: SuppressionParts, { caller, body }: Call): Promise<Answer> {
  const { reads, clock, hashOf } = parts;
  const { emails, ids } = checkRemove(body);
  if ((emails === undefined) === (ids === undefined))
    throw refuse("validation_error", "Either the `emails` or the `ids` field must be given.");
  const keys = emails
    ? emails.map((email, n) => hashKey(hashOf, email) ?? thrown(noAddress(`emails[${n}]`)))
    : (ids ?? []).map((id, n) => idKey(id) ?? thrown(noId(`ids[${n}]`)));
  const undone = await undoSuppressions(reads, caller.workspaceId, keys, byKey(clock));
  const data = undone.map(({ id }) => ({ object: "suppression", id, deleted: true }));
  return { status: 200, body: JSON.stringify({ data }) };
}

function byKey(clock: Clock) {
  return { now: new Date(clock.now()), by: "key" } as const;
}

type SuppressionTerms = { reason?: string; scope?: string; evidence?: string };

function termsOf({ reason = "manual", scope = "", evidence = "" }: SuppressionTerms) {
  const domain = readScope(scope);
  if (domain === null)
    throw refuse("validation_error", "The `scope` field must be a domain, such as `example.com`.");
  return { reason: reason as SuppressionReason, scope: domain, evidence: evidence || null };
}

function reasonIn(query: URLSearchParams): SuppressionReason | null {
  const name = query.has("reason") ? "reason" : "origin";
  const given = query.get(name);
  if (given === null) return null;
  const known = SUPPRESSION_REASONS.find((one) => one === given);
  if (!known)
    throw refuse("invalid_parameter", `\`${name}\` must be one of \`${SUPPRESSION_REASONS.join("`, `")}\`.`);
  return known;
}

function keyOf(hashOf: HashOf, idOrEmail: string): SuppressionKey {
  const key = idKey(idOrEmail) ?? hashKey(hashOf, idOrEmail);
  if (!key) throw refuse("invalid_parameter", "A suppression is named by its id or by its e-mail address.");
  return key;
}

function idKey(text: string): SuppressionKey | null {
  return isUuid(text) ? { id: text.toLowerCase() } : null;
}

function hashKey(hashOf: HashOf, text: string): SuppressionKey | null {
  const mailbox = parseMailbox(text);
  return mailbox && { hash: hashOf(identity(mailbox.address)) };
}

function thrown(refusal: Refusal): never {
  throw refusal;
}

function noAddress(field: string): Refusal {
  return refuse("validation_error", `The \`${field}\` field must be an e-mail address.`);
}

function noId(field: string): Refusal {
  return refuse("validation_error", `The \`${field}\` field must be a UUID.`);
}

function unknownSuppression(): Refusal {
  return refuse("not_found", "There is no suppression with this id or e-mail address.");
}

/** `origin` and `source_id` are the official client's names. */
function shown({ id, email, reason, scope, evidence, emailId, createdAt }: Suppression) {
  return {
    object: "suppression",
    id,
    email,
    reason,
    origin: reason,
    scope: scope === "" ? SCOPE_OF_ALL : scope,
    evidence,
    source_id: emailId,
    created_at: iso(createdAt),
  };
}

function withoutObject({ object: _, ...rest }: ReturnType<typeof shown>) {
  return rest;
}
