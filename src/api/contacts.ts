/** /audiences/{id}/contacts: add or update, list, read, change, tag, archive and erase. */
import Type, { type Static } from "typebox";
import { identity, parseMailbox } from "../address.ts";
import { allows } from "../admission/permissions.ts";
import { rolledBack, Unavailable } from "../admission/unavailable.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import { findAudience } from "../record/contacts/audiences.ts";
import type { ContactCommit, ContactVerdict } from "../record/contacts/commit.ts";
import { findContact, listContacts, type Who } from "../record/contacts/contacts.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Contact, ContactChange, ContactFields, GivenConsent, OptIn } from "../rules/contact.ts";
import { PROPERTIES_BYTES_MAX, TAGS_MAX } from "../rules/contact.ts";
import { AUDIENCE_NAMES, audienceId, unknownAudience, visibleAudience } from "./audiences.ts";
import { checker, missingField } from "./check.ts";
import { lacks } from "./gate.ts";
import type { Json } from "./json.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { OUTCOME_UNKNOWN, Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { iso, parseInstant } from "./time.ts";

const NAME_CHARS_MAX = 200;
const TAG_CHARS_MAX = 100;
const TAGS_PER_CALL_MAX = 50;
const CONSENT_TEXT_CHARS_MAX = 10_000;
const CONSENT_CHARS_MAX = 500;
/** Of an entry beside its request. */
const ENTRY_BYTES = 500;

const orNull = <S extends Type.TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));
const Tags = Type.Array(Type.String({ minLength: 1, maxLength: TAG_CHARS_MAX }), { maxItems: TAGS_MAX });
const CallTags = Type.Array(Type.String({ minLength: 1, maxLength: TAG_CHARS_MAX }), {
  maxItems: TAGS_PER_CALL_MAX,
});
const Given = Type.String({ maxLength: CONSENT_CHARS_MAX });

export const ConsentRecord = Type.Object({
  source: Type.String({ minLength: 1, maxLength: CONSENT_CHARS_MAX }),
  captured_at: Type.String({ description: "RFC 3339" }),
  ip_address: orNull(Given),
  user_agent: orNull(Given),
  text: orNull(Type.String({ maxLength: CONSENT_TEXT_CHARS_MAX })),
  text_version: orNull(Given),
});

const fields = {
  first_name: orNull(Type.String({ maxLength: NAME_CHARS_MAX })),
  last_name: orNull(Type.String({ maxLength: NAME_CHARS_MAX })),
  unsubscribed: orNull(Type.Boolean()),
  properties: orNull(
    Type.Record(Type.String({ maxLength: NAME_CHARS_MAX }), Type.Unknown(), {
      description: `merged by key, null clears; at most ${PROPERTIES_BYTES_MAX} bytes in all`,
    }),
  ),
  tags: orNull(Tags),
  double_opt_in: orNull(
    Type.Boolean({ description: "true: must confirm; false, with `consent` and `full`: need not" }),
  ),
  consent: orNull(ConsentRecord),
};
export const AddContact = Type.Object({ email: Type.String(), ...fields }, { $id: "AddContact" });
export const EditContact = Type.Object(fields, { $id: "EditContact" });
export const TagContact = Type.Object(
  { add: orNull(CallTags), remove: orNull(CallTags) },
  { $id: "TagContact" },
);
type GivenContactFields = Static<typeof EditContact>;

const checkAdd = checker(AddContact, { keepsNull: true });
const checkEdit = checker(EditContact, { keepsNull: true });
const checkTags = checker(TagContact, { keepsNull: true });

export type ContactParts = {
  commit: ContactCommit;
  reads: Sql;
  clock: Clock;
  /** A committed change asked this contact to confirm. */
  onAsk(workspaceId: string, contactId: string): void;
  /** A contact was erased: what was mailed to it goes too. */
  eraseMail(workspaceId: string): Promise<void>;
};

export function contactRoutes(parts: ContactParts): Route[] {
  return AUDIENCE_NAMES.flatMap(({ path: base }): Route[] => {
    const all = `${base}/{id}/contacts`;
    const one = `${all}/{email_or_id}`;
    return [
      {
        method: "POST",
        path: all,
        permissions: ["contacts:write"],
        summary: "Add or update a contact",
        success: 201,
        request: AddContact,
        commits: true,
        handle: (call) => add(parts, call),
      },
      {
        method: "GET",
        path: all,
        permissions: ["contacts:read"],
        summary: "List contacts, newest first",
        success: 200,
        query: LIST_QUERY,
        handle: (call) => list(parts, call),
      },
      {
        method: "GET",
        path: one,
        permissions: ["contacts:read"],
        summary: "Get a contact by address or id",
        success: 200,
        handle: (call) => get(parts, call),
      },
      {
        method: "PATCH",
        path: one,
        permissions: ["contacts:write"],
        summary: "Update or unsubscribe a contact",
        success: 200,
        request: EditContact,
        commits: true,
        handle: (call) => edit(parts, call),
      },
      {
        method: "DELETE",
        path: one,
        permissions: ["contacts:write"],
        permissionByQuery: (query) => (query.get("mode") === "erase" ? "full" : null),
        summary: "Archive a contact, or erase it",
        success: 200,
        query: [{ name: "mode", description: "`erase` removes everything kept of the contact, for good" }],
        commits: true,
        handle: (call) => remove(parts, call),
      },
      {
        method: "POST",
        path: `${one}/tags`,
        permissions: ["contacts:write"],
        summary: "Add and remove tags",
        success: 200,
        request: TagContact,
        commits: true,
        handle: (call) => tag(parts, call),
      },
    ];
  });
}

async function add(parts: ContactParts, call: Call): Promise<Answer> {
  checkSkipping(call);
  const audience = audienceId(call.params);
  const body = checkAdd(call.body);
  const email = body.email.trim();
  const mailbox = parseMailbox(email);
  // as it is spelt it is shown, and sent to
  if (!mailbox || mailbox.name !== null || email.endsWith(">"))
    throw refuse("validation_error", "The `email` field must be an address: `a@x.com`.");
  const now = parts.clock.now();
  const who = { identity: identity(mailbox.address) };
  const verdict = await commit(parts, call, audience, who, {
    kind: "add",
    id: newId(now),
    identity: who.identity,
    email,
    fields: fieldsOf(body),
    optIn: optInOf(body),
  });
  return { status: 201, body: JSON.stringify({ object: "contact", id: verdict.contact.id }) };
}

async function edit(parts: ContactParts, call: Call): Promise<Answer> {
  checkSkipping(call);
  const audience = audienceId(call.params);
  const who = whoIs(call.params);
  const body = checkEdit(call.body);
  const optIn = optInOf(body);
  const verdict = await commit(parts, call, audience, who, { kind: "edit", fields: fieldsOf(body), optIn });
  return { status: 200, body: JSON.stringify({ object: "contact", id: verdict.contact.id }) };
}

async function tag(parts: ContactParts, call: Call): Promise<Answer> {
  const audience = audienceId(call.params);
  const who = whoIs(call.params);
  const body = checkTags(call.body);
  const { add: added, remove: removed } = { add: body.add ?? [], remove: body.remove ?? [] };
  if (added.length + removed.length === 0)
    throw refuse("validation_error", "The request must have tags in `add` or `remove`.");
  const both = added.find((name) => removed.includes(name));
  if (both !== undefined)
    throw refuse(
      "validation_error",
      `The tag \`${both}\` is in \`add\` and in \`remove\`. Keep one of them.`,
    );
  const verdict = await commit(parts, call, audience, who, { kind: "tag", add: added, remove: removed });
  const { id, tags } = verdict.contact;
  const mayRead = allows(call.caller.permissions, "contacts:read");
  return { status: 200, body: JSON.stringify({ object: "contact", id, ...(mayRead && { tags }) }) };
}

async function remove(parts: ContactParts, call: Call): Promise<Answer> {
  const mode = call.query.get("mode") ?? "archive";
  const audience = audienceId(call.params);
  const who = whoIs(call.params);
  if (mode !== "archive" && mode !== "erase")
    throw refuse("invalid_parameter", "`mode` must be `archive` or `erase`.");
  await commit(parts, call, audience, who, { kind: mode });
  if (mode === "erase") await parts.eraseMail(call.caller.workspaceId);
  return {
    status: 200,
    body: JSON.stringify({ object: "contact", contact: call.params[1], deleted: true }),
  };
}

async function list({ reads }: ContactParts, { caller, params, query }: Call): Promise<Answer> {
  const id = audienceId(params);
  const page = pageOf(query);
  const { workspaceId } = caller;
  visibleAudience(caller, id);
  const [audience, rows] = await Promise.all([
    findAudience(reads, workspaceId, id),
    listContacts(reads, workspaceId, id, page),
  ]);
  if (!audience) throw unknownAudience();
  return { status: 200, body: envelope(rows, page, show) };
}

async function get({ reads }: ContactParts, { caller, params }: Call): Promise<Answer> {
  const id = audienceId(params);
  const who = whoIs(params);
  const { workspaceId } = caller;
  visibleAudience(caller, id);
  const [audience, contact] = await Promise.all([
    findAudience(reads, workspaceId, id),
    findContact(reads, { workspaceId, audienceId: id, who }),
  ]);
  if (!audience) throw unknownAudience();
  if (!contact) throw unknownContact();
  return { status: 200, body: JSON.stringify(show(contact)) };
}

async function commit(
  parts: ContactParts,
  { caller, bodyBytes }: Call,
  audience: string,
  who: Who,
  change: ContactChange,
): Promise<Extract<ContactVerdict, { kind: "changed" }>> {
  visibleAudience(caller, audience);
  const { workspaceId, keyId } = caller;
  const size = bodyBytes + ENTRY_BYTES;
  const room = parts.commit.takeRoom(1, size);
  if (!room) throw new Unavailable("capacity", "the commit is full");
  try {
    const given = parts.clock.given();
    const entry = { workspaceId, audienceId: audience, who, change, keyId, given, bytes: size };
    const verdict = await parts.commit.submit(entry);
    switch (verdict.kind) {
      case "changed":
        if (verdict.asks) parts.onAsk(workspaceId, verdict.contact.id);
        return verdict;
      case "no audience":
        throw unknownAudience();
      case "no contact":
      case "not open":
        throw unknownContact();
      case "too much":
        throw refuse("validation_error", `The \`${verdict.field}\` field ${verdict.message}.`);
      case "failed":
        throw rolledBack(verdict);
      case "unknown":
        throw new Refusal(OUTCOME_UNKNOWN);
    }
  } finally {
    room.release();
  }
}

/** Refused by the field alone, before the rest of the body is looked at. */
function checkSkipping({ body, caller }: Call): void {
  const skips = isObject(body) && body.double_opt_in === false;
  if (skips && !allows(caller.permissions, "full")) throw lacks("full");
}

function fieldsOf({
  first_name,
  last_name,
  unsubscribed,
  properties,
  tags,
}: GivenContactFields): ContactFields {
  return {
    ...(first_name !== undefined && { firstName: first_name }),
    ...(last_name !== undefined && { lastName: last_name }),
    ...(properties !== undefined && { properties }),
    ...(typeof unsubscribed === "boolean" && { unsubscribed }),
    ...(tags !== undefined && { tags }),
  };
}

function optInOf({ double_opt_in, consent }: GivenContactFields): OptIn {
  if (double_opt_in === false && !consent) throw missingField("consent");
  return {
    ...(typeof double_opt_in === "boolean" && { doubleOptIn: double_opt_in }),
    consent: consent ? consentOf(consent) : null,
  };
}

function consentOf(given: Static<typeof ConsentRecord>): GivenConsent {
  const { source, captured_at, ip_address, user_agent, text, text_version } = given;
  const at = parseInstant(captured_at);
  if (at === null)
    throw refuse(
      "validation_error",
      "The `consent.captured_at` field must be an RFC 3339 time with an offset.",
    );
  return {
    source,
    capturedAt: new Date(at),
    ipAddress: ip_address ?? null,
    userAgent: user_agent ?? null,
    wording: text ?? null,
    textVersion: text_version ?? null,
  };
}

function whoIs(params: readonly string[]): Who {
  const text = params[1] ?? "";
  if (isUuid(text)) return { id: text.toLowerCase() };
  const mailbox = parseMailbox(text);
  if (!mailbox || mailbox.name !== null)
    throw refuse("invalid_parameter", "A contact is addressed by its e-mail address or its id.");
  return { identity: identity(mailbox.address) };
}

function show(contact: Contact) {
  const { id, email, firstName, lastName, createdAt, updatedAt, status, tags, properties } = contact;
  return {
    object: "contact",
    id,
    email,
    first_name: firstName,
    last_name: lastName,
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
    unsubscribed: status === "unsubscribed",
    status,
    tags,
    properties,
  };
}

function unknownContact(): Refusal {
  return refuse("not_found", "There is no such contact in this audience.");
}

function isObject(body: Json | undefined): body is { [name: string]: Json } {
  return body !== null && typeof body === "object" && !Array.isArray(body);
}
