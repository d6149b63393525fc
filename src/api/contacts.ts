/**
 * /audiences/{id}/contacts: add or update, list, read, change, tag, archive and erase. /contacts is the same
 * without an audience: a contact is added to the default one, or to those that are named, and found in any
 * that the key may see.
 */
import { isIP } from "node:net";
import Type, { type Static } from "typebox";
import { identity, parseMailbox } from "../address.ts";
import { allows } from "../admission/permissions.ts";
import { rolledBack, Unavailable } from "../admission/unavailable.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import { defaultAudience, findAudience } from "../record/contacts/audiences.ts";
import type { ContactCommit, ContactEntry, ContactVerdict } from "../record/contacts/commit.ts";
import {
  audiencesOfContact,
  type ContactFilter,
  findContact,
  listContacts,
  placeContact,
  searchContacts,
  type Who,
} from "../record/contacts/contacts.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Contact, ContactChange, ContactFields, GivenConsent, OptIn } from "../rules/contact.ts";
import { PROPERTIES_BYTES_MAX, TAGS_MAX } from "../rules/contact.ts";
import { AUDIENCE_NAMES, audienceId, unknownAudience, visibleAudience } from "./audiences.ts";
import { checker, missingBody, missingField } from "./check.ts";
import { lacks } from "./gate.ts";
import type { Json } from "./json.ts";
import { envelope, identityIn, LIST_QUERY, oneOf, pageOf, textIn } from "./page.ts";
import { OUTCOME_UNKNOWN, Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Id, inner, listOf, Named, shape, orNull as shapeOrNull, Text, Time, told } from "./shapes.ts";
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

const ConsentRecord = Type.Object({
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
    Type.Record(Type.String(), Type.Unknown(), {
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
const AUDIENCES_MAX = 50;
const AddContactAnywhere = Type.Object(
  {
    email: Type.String(),
    ...fields,
    audience_id: orNull(Type.String({ description: "default: the workspace's default audience" })),
    segments: orNull(
      Type.Array(Type.Object({ id: Type.String() }), {
        maxItems: AUDIENCES_MAX,
        description: "audiences, by the name that newer versions of the official client have for them",
      }),
    ),
  },
  { $id: "AddContactAnywhere" },
);
const EditContact = Type.Object(fields, { $id: "EditContact" });
export const TagContact = Type.Object(
  { add: orNull(CallTags), remove: orNull(CallTags) },
  { $id: "TagContact" },
);
type GivenContactFields = Static<typeof EditContact>;

const checkAdd = checker(AddContact, { keepsNull: true });
const checkAddAnywhere = checker(AddContactAnywhere, { keepsNull: true });
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

const contactFields = {
  object: Type.Literal("contact"),
  id: Id,
  email: Text,
  first_name: shapeOrNull(Text),
  last_name: shapeOrNull(Text),
  created_at: Time,
  updated_at: Time,
  unsubscribed: Type.Boolean(),
  status: Type.Enum(["pending", "subscribed", "unsubscribed"]),
  tags: Type.Array(Text),
  properties: Named,
};
const ContactAnswer = shape("Contact", contactFields);
const AnyContact = shape("ContactOfAnAudience", { ...contactFields, audience_id: Id });
const ContactChanged = told("contact");
const ContactGone = inner({
  object: Type.Literal("contact"),
  contact: Type.String({ description: "as in the path" }),
  deleted: Type.Literal(true),
});
const ContactTagged = told("contact", { tags: Type.Optional(Type.Array(Text)) });

/** Which contact of which audience a request is about. */
type Target = { audienceId: string; who: Who };
/**
 * Reads the path at once; looks later, when the body has been checked. `archived`: one that is archived
 * counts too.
 */
type FindTarget = (parts: ContactParts, call: Call) => (archived: boolean) => Target | Promise<Target>;

const FILTER_QUERY = [
  { name: "status", description: "`pending`, `subscribed` or `unsubscribed`" },
  { name: "tag", description: "only contacts with this tag" },
  { name: "email", description: "only the contact with this address" },
];
const CONTACT_LIST_QUERY = [...LIST_QUERY, ...FILTER_QUERY];

export function contactRoutes(parts: ContactParts): Route[] {
  return [
    ...AUDIENCE_NAMES.flatMap(({ path }) => routesOfAudience(parts, path)),
    ...routesWithoutAudience(parts),
  ];
}

function routesOfAudience(parts: ContactParts, base: string): Route[] {
  const all = `${base}/{id}/contacts`;
  return [
    {
      method: "POST",
      path: all,
      permissions: ["contacts:write"],
      summary: "Add or update a contact",
      success: 201,
      request: AddContact,
      answer: ContactChanged,
      commits: true,
      handle: (call) => add(parts, call),
    },
    {
      method: "GET",
      path: all,
      permissions: ["contacts:read"],
      summary: "List contacts, newest first",
      success: 200,
      answer: listOf(ContactAnswer),
      query: CONTACT_LIST_QUERY,
      handle: (call) => list(parts, call),
    },
    ...routesOfOne(parts, `${all}/{email_or_id}`, inAudience),
  ];
}

function routesWithoutAudience(parts: ContactParts): Route[] {
  const all = "/api/v1/contacts";
  const one = `${all}/{email_or_id}`;
  return [
    {
      method: "POST",
      path: all,
      permissions: ["contacts:write"],
      summary: "Add or update a contact, in the default audience or in those that are named",
      success: 201,
      request: AddContactAnywhere,
      answer: ContactChanged,
      commits: true,
      handle: (call) => addAnywhere(parts, call),
    },
    {
      method: "GET",
      path: all,
      permissions: ["contacts:read"],
      summary: "List the contacts of all audiences, newest first",
      success: 200,
      answer: listOf(AnyContact),
      query: CONTACT_LIST_QUERY,
      handle: (call) => listAnywhere(parts, call),
    },
    ...routesOfOne(parts, one, anywhere),
    {
      method: "GET",
      path: `${one}/segments`,
      permissions: ["contacts:read"],
      summary: "List the audiences in which the address of a contact is",
      success: 200,
      answer: listOf(inner({ id: Id, name: Text, created_at: Time })),
      query: LIST_QUERY,
      handle: (call) => listAudiencesOf(parts, call),
    },
    {
      method: "POST",
      path: `${one}/segments/{id}`,
      permissions: ["contacts:write"],
      summary: "Add the address of a contact to an audience, with its names, properties and tags",
      success: 201,
      answer: ContactChanged,
      commits: true,
      handle: (call) => copyTo(parts, call),
    },
    {
      method: "DELETE",
      path: `${one}/segments/{id}`,
      permissions: ["contacts:write"],
      summary: "Archive the contact that an audience has under the address of a contact",
      success: 200,
      answer: inner({ id: Id, audience_id: Id, audienceId: Id, deleted: Type.Literal(true) }),
      commits: true,
      handle: (call) => removeFrom(parts, call),
    },
  ];
}

function routesOfOne(parts: ContactParts, one: string, find: FindTarget): Route[] {
  return [
    {
      method: "GET",
      path: one,
      permissions: ["contacts:read"],
      summary: "Get a contact by address or id",
      success: 200,
      answer: ContactAnswer,
      handle: (call) => get(parts, call, find),
    },
    {
      method: "PATCH",
      path: one,
      permissions: ["contacts:write"],
      summary: "Update or unsubscribe a contact",
      success: 200,
      request: EditContact,
      answer: ContactChanged,
      commits: true,
      handle: (call) => edit(parts, call, find),
    },
    {
      method: "DELETE",
      path: one,
      permissions: ["contacts:write"],
      permissionByQuery: (query) => (query.get("mode") === "erase" ? "full" : null),
      summary: "Archive a contact, or erase it",
      success: 200,
      answer: ContactGone,
      query: [{ name: "mode", description: "`erase` removes everything kept of the contact, for good" }],
      commits: true,
      handle: (call) => remove(parts, call, find),
    },
    {
      method: "POST",
      path: `${one}/tags`,
      permissions: ["contacts:write"],
      summary: "Add and remove tags",
      success: 200,
      request: TagContact,
      answer: ContactTagged,
      commits: true,
      handle: (call) => tag(parts, call, find),
    },
  ];
}

const inAudience: FindTarget = (_, { caller, params }) => {
  const audience = audienceId(params);
  const who = whoIs(params[1]);
  return () => ({ audienceId: visibleAudience(caller, audience), who });
};

const anywhere: FindTarget = ({ reads }, { caller, params }) => {
  const who = whoIs(params[0]);
  return async (archived) => {
    const place = await placeContact(reads, caller.workspaceId, caller.audienceIds, who, archived);
    if (!place)
      throw refuse("not_found", "There is no such contact in any audience that this key may access.");
    return { audienceId: place.audienceId, who: { id: place.id } };
  };
};

async function add(parts: ContactParts, call: Call): Promise<Answer> {
  checkSkipping(call);
  const audience = audienceId(call.params);
  const change = addition(parts, checkAdd(call.body));
  return added(await addTo(parts, call, visibleAudience(call.caller, audience), change));
}

async function addAnywhere(parts: ContactParts, call: Call): Promise<Answer> {
  checkSkipping(call);
  const { reads, clock } = parts;
  const { workspaceId } = call.caller;
  const { audience_id, segments, ...body } = checkAddAnywhere(call.body);
  const isNamed = audience_id !== undefined && audience_id !== null;
  if (isNamed && segments)
    throw refuse("validation_error", "Only one of `audience_id` and `segments` may be given.");
  refuseTopics(call.body);
  const change = addition(parts, body);
  const named = isNamed
    ? [idInBody(audience_id, "audience_id")]
    : (segments ?? []).map(({ id }, n) => idInBody(id, `segments[${n}].id`));
  const wanted = [...new Set(named)];
  if (wanted.length === 0) {
    const id = await defaultAudience(reads, workspaceId, new Date(clock.now()));
    if (id === null) throw unknownAudience();
    return added(await addTo(parts, call, visibleAudience(call.caller, id), change));
  }
  // nothing is written when one of them is not there
  const known = await Promise.all(
    wanted.map((id) => findAudience(reads, workspaceId, visibleAudience(call.caller, id))),
  );
  if (known.includes(null)) throw unknownAudience();
  const verdicts: Changed[] = [];
  for (const id of wanted) verdicts.push(await addTo(parts, call, id, { ...change, id: newId(clock.now()) }));
  return added(verdicts[0] as Changed);
}

/** Topics are no part of this engine, and consent that is not kept would be lost. */
function refuseTopics(body: Json | undefined): void {
  if (isObject(body) && body.topics !== undefined && body.topics !== null)
    throw refuse("validation_error", "The `topics` field is not part of this engine. Use audiences or tags.");
}

type Addition = Extract<ContactChange, { kind: "add" }>;

function addition({ clock }: ContactParts, body: Static<typeof AddContact>): Addition {
  const email = body.email.trim();
  const mailbox = parseMailbox(email);
  // as it is spelt it is shown, and sent to
  if (!mailbox || mailbox.name !== null || email.endsWith(">"))
    throw refuse("validation_error", "The `email` field must be an address: `a@x.com`.");
  return {
    kind: "add",
    id: newId(clock.now()),
    identity: identity(mailbox.address),
    email,
    fields: fieldsOf(body),
    optIn: optInOf(body),
  };
}

function addTo(parts: ContactParts, call: Call, audienceId: string, change: Addition): Promise<Changed> {
  return commit(parts, call, { audienceId, who: { identity: change.identity } }, change);
}

function added({ contact: { id } }: Changed): Answer {
  return { status: 201, body: JSON.stringify({ object: "contact", id }) };
}

async function edit(parts: ContactParts, call: Call, find: FindTarget): Promise<Answer> {
  checkSkipping(call);
  const locate = find(parts, call);
  const body = checkEdit(call.body);
  const optIn = optInOf(body);
  const verdict = await commit(parts, call, await locate(false), {
    kind: "edit",
    fields: fieldsOf(body),
    optIn,
  });
  return { status: 200, body: JSON.stringify({ object: "contact", id: verdict.contact.id }) };
}

async function tag(parts: ContactParts, call: Call, find: FindTarget): Promise<Answer> {
  const locate = find(parts, call);
  if (call.body === undefined) throw missingBody("tags in `add` or `remove`");
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
  const verdict = await commit(parts, call, await locate(false), {
    kind: "tag",
    add: added,
    remove: removed,
  });
  const { id, tags } = verdict.contact;
  const mayRead = allows(call.caller.permissions, "contacts:read");
  return { status: 200, body: JSON.stringify({ object: "contact", id, ...(mayRead && { tags }) }) };
}

async function remove(parts: ContactParts, call: Call, find: FindTarget): Promise<Answer> {
  const mode = call.query.get("mode") ?? "archive";
  const locate = find(parts, call);
  if (mode !== "archive" && mode !== "erase")
    throw refuse("invalid_parameter", "`mode` must be `archive` or `erase`.");
  await commit(parts, call, await locate(mode === "erase"), { kind: mode });
  if (mode === "erase") await parts.eraseMail(call.caller.workspaceId);
  return {
    status: 200,
    body: JSON.stringify({ object: "contact", contact: call.params.at(-1), deleted: true }),
  };
}

async function list({ reads }: ContactParts, { caller, params, query }: Call): Promise<Answer> {
  const id = audienceId(params);
  const page = pageOf(query, FILTER_NAMES);
  const filter = filterOf(query);
  const { workspaceId } = caller;
  visibleAudience(caller, id);
  const [audience, rows] = await Promise.all([
    findAudience(reads, workspaceId, id),
    isFilter(filter)
      ? searchContacts(reads, workspaceId, [id], filter, page)
      : listContacts(reads, workspaceId, id, page),
  ]);
  if (!audience) throw unknownAudience();
  return { status: 200, body: envelope(rows, page, show) };
}

async function listAnywhere({ reads }: ContactParts, { caller, query }: Call): Promise<Answer> {
  const page = pageOf(query, FILTER_NAMES);
  const rows = await searchContacts(reads, caller.workspaceId, caller.audienceIds, filterOf(query), page);
  return {
    status: 200,
    body: envelope(rows, page, (row) => ({ ...show(row), audience_id: row.audienceId })),
  };
}

const FILTER_NAMES = FILTER_QUERY.map(({ name }) => name);
const STATUSES = ["pending", "subscribed", "unsubscribed"] as const;

function filterOf(query: URLSearchParams): ContactFilter {
  return {
    status: oneOf(query, "status", STATUSES),
    tag: textIn(query, "tag", TAG_CHARS_MAX),
    identity: identityIn(query, "email"),
  };
}

function isFilter({ status, tag, identity }: ContactFilter): boolean {
  return status !== null || tag !== null || identity !== null;
}

async function get(parts: ContactParts, call: Call, find: FindTarget): Promise<Answer> {
  const { workspaceId } = call.caller;
  const target = await find(parts, call)(false);
  const { audienceId: id } = target;
  const [audience, contact] = await Promise.all([
    findAudience(parts.reads, workspaceId, id),
    findContact(parts.reads, { workspaceId, ...target }),
  ]);
  if (!audience) throw unknownAudience();
  if (!contact) throw unknownContact();
  return { status: 200, body: JSON.stringify(show(contact)) };
}

async function listAudiencesOf(parts: ContactParts, call: Call): Promise<Answer> {
  const { workspaceId, audienceIds } = call.caller;
  const page = pageOf(call.query);
  const { who } = await anywhere(parts, call)(false);
  const rows = await audiencesOfContact(
    parts.reads,
    workspaceId,
    audienceIds,
    (who as { id: string }).id,
    page,
  );
  const show = ({ id, name, createdAt }: (typeof rows)[number]) => ({ id, name, created_at: iso(createdAt) });
  return { status: 200, body: envelope(rows, page, show) };
}

async function copyTo(parts: ContactParts, call: Call): Promise<Answer> {
  const audienceId = segmentOf(call);
  const known = await whole(parts, call);
  const { email, identity } = known;
  const verdict = await commit(
    parts,
    call,
    { audienceId, who: { identity }, copyOf: known },
    {
      kind: "add",
      id: newId(parts.clock.now()),
      identity,
      email,
      fields: {},
      optIn: { consent: null },
    },
  );
  return added(verdict);
}

async function removeFrom(parts: ContactParts, call: Call): Promise<Answer> {
  const audienceId = segmentOf(call);
  const { identity } = await whole(parts, call);
  const verdict = await commit(parts, call, { audienceId, who: { identity } }, { kind: "archive" });
  const { id } = verdict.contact;
  return { status: 200, body: JSON.stringify({ id, audience_id: audienceId, audienceId, deleted: true }) };
}

function segmentOf({ caller, params }: Call): string {
  return visibleAudience(caller, audienceId(params.slice(1)));
}

async function whole(parts: ContactParts, call: Call): Promise<Contact> {
  const target = await anywhere(parts, call)(false);
  const contact = await findContact(parts.reads, { workspaceId: call.caller.workspaceId, ...target });
  if (!contact) throw unknownContact();
  return contact;
}

type Changed = Extract<ContactVerdict, { kind: "changed" }>;

async function commit(
  parts: ContactParts,
  { caller, bodyBytes }: Call,
  target: Target & Pick<ContactEntry, "copyOf">,
  change: ContactChange,
): Promise<Changed> {
  const { workspaceId, keyId } = caller;
  const size = bodyBytes + ENTRY_BYTES;
  const room = parts.commit.takeRoom(1, size);
  if (!room) throw new Unavailable("capacity", "the commit is full");
  try {
    const given = parts.clock.given();
    const entry = { workspaceId, ...target, change, keyId, given, bytes: size };
    const verdict = await parts.commit.submit(entry);
    switch (verdict.kind) {
      case "changed":
        if (verdict.asks) parts.onAsk(workspaceId, verdict.contact.id);
        return verdict;
      case "no audience":
        throw unknownAudience();
      case "no contact":
      case "known":
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
  if (typeof ip_address === "string" && isIP(ip_address) === 0)
    throw refuse("validation_error", "The `consent.ip_address` field must be an IPv4 or IPv6 address.");
  return {
    source,
    capturedAt: new Date(at),
    ipAddress: ip_address ?? null,
    userAgent: user_agent ?? null,
    wording: text ?? null,
    textVersion: text_version ?? null,
  };
}

function idInBody(text: string, field: string): string {
  if (!isUuid(text)) throw refuse("validation_error", `The \`${field}\` field must be a UUID.`);
  return text.toLowerCase();
}

function whoIs(text = ""): Who {
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
