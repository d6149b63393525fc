/**
 * /events: what happened to a contact is committed, with the runs of automations that it starts. /events/send
 * is the same as the official client asks for it, without an audience.
 */
import Type from "typebox";
import { identity, parseMailbox } from "../address.ts";
import { allows } from "../admission/permissions.ts";
import { rolledBack, Unavailable } from "../admission/unavailable.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newEventId } from "../ids.ts";
import { answeredBefore, type EventCommit, type EventEntry } from "../record/automations/events.ts";
import { placeContact } from "../record/contacts/contacts.ts";
import type { Sql } from "../record/db/connect.ts";
import { EVENT_NAME, EVENT_NAME_WORDS } from "../rules/eventname.ts";
import { isJsonbOver } from "../rules/jsonb.ts";
import { patterned } from "../schemafault.ts";
import { visibleAudience } from "./audiences.ts";
import { checker, missingField } from "./check.ts";
import { defineEvent, EventDefined } from "./definitions.ts";
import { lacks } from "./gate.ts";
import { IDEMPOTENCY_KEY, idempotencyKey, keyConflict, outcomeUnknown } from "./idempotency.ts";
import type { Json } from "./json.ts";
import { refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Id, shape, Text } from "./shapes.ts";

const PROPERTIES_BYTES_MAX = 16_384;
/** Of an entry beside its properties. */
const ENTRY_BYTES = 500;

const TrackEvent = Type.Object(
  {
    audience_id: Type.String({ description: "the audience the contact belongs to" }),
    email: Type.String({ description: "the contact; must be in the audience" }),
    name: patterned(EVENT_NAME, EVENT_NAME_WORDS, {
      description: "automations of the audience that wait for exactly this name start",
    }),
    properties: Type.Optional(
      Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
        description: `at most ${PROPERTIES_BYTES_MAX} bytes as compact JSON`,
      }),
    ),
  },
  { $id: "TrackEvent" },
);
const SendEvent = Type.Object(
  {
    event: TrackEvent.properties.name,
    email: Type.Optional(Type.String({ description: "the contact; or `contact_id`" })),
    contact_id: Type.Optional(Type.String()),
    payload: TrackEvent.properties.properties,
  },
  { $id: "SendEvent" },
);
const EventId = Type.String({ pattern: "^evt_[0-9a-z]{26}$", examples: ["evt_01kahxp7d4xgr2c8m5v9tq3wzn"] });
const EventTracked = shape("EventTracked", {
  object: Type.Literal("event"),
  id: EventId,
  name: Text,
  contact_id: Id,
  accepted: Type.Literal(true),
});
const EventSent = shape("EventSent", {
  object: Type.Literal("event"),
  event: Text,
  id: EventId,
  contact_id: Id,
});
const checkEvent = checker(TrackEvent);
const checkSend = checker(SendEvent);

export type EventParts = { commit: EventCommit; reads: Sql; clock: Clock };

export function eventRoutes(parts: EventParts): Route[] {
  const shared = { permissions: ["events:write"], plan: "events", commits: true, success: 202 } as const;
  return [
    {
      ...shared,
      method: "POST",
      path: "/api/v1/events",
      summary: "Track an event and start automations; with `schema`, define one as the official client does",
      request: TrackEvent,
      alsoReads: ["schema"],
      answer: EventTracked,
      alsoSucceeds: { 201: EventDefined },
      headers: [IDEMPOTENCY_KEY],
      handle: (call) => (isDefinition(call) ? defineEvent(parts, call) : track(parts, call)),
    },
    {
      ...shared,
      method: "POST",
      path: "/api/v1/events/send",
      summary: "Track an event of a contact, wherever it is: in the default audience, else in the newest",
      request: SendEvent,
      answer: EventSent,
      headers: [IDEMPOTENCY_KEY],
      handle: (call) => send(parts, call),
    },
  ];
}

function isDefinition({ caller, body }: Call): boolean {
  const isOne = isFields(body) && "schema" in body && !("audience_id" in body);
  if (isOne && !allows(caller.permissions, "full")) throw lacks("full");
  return isOne;
}

async function track(parts: EventParts, call: Call): Promise<Answer> {
  const key = idempotencyKey(call);
  const { audience_id, email, name, properties } = checkEvent(
    call.body === undefined ? undefined : object(call.body),
  );
  if (!isUuid(audience_id)) throw refuse("validation_error", "The `audience_id` field must be a UUID.");
  if (email === "") throw missingField("email");
  const event = {
    audienceId: audience_id.toLowerCase(),
    identity: identityOf(email),
    name,
    properties: jsonOf(properties, "properties"),
  };
  visibleAudience(call.caller, event.audienceId);
  const id = newEventId(parts.clock.now());
  return commit(parts, call, key, event, id, (contactId) => ({
    object: "event",
    id,
    name,
    contact_id: contactId,
    accepted: true,
  }));
}

async function send(parts: EventParts, call: Call): Promise<Answer> {
  const key = idempotencyKey(call);
  const {
    event: name,
    email,
    contact_id,
    payload,
  } = checkSend(call.body === undefined ? undefined : object(call.body));
  if ((email === undefined) === (contact_id === undefined))
    throw refuse("validation_error", "Either the `email` or the `contact_id` field must be given.");
  if (contact_id !== undefined && !isUuid(contact_id))
    throw refuse("validation_error", "The `contact_id` field must be a UUID.");
  const properties = jsonOf(payload, "payload");
  const who =
    contact_id === undefined ? { identity: identityOf(email ?? "") } : { id: contact_id.toLowerCase() };
  const { workspaceId, audienceIds } = call.caller;
  if (key !== null) {
    // the contact may be gone since, or now be found in another audience, where the key is free
    const claim = { key, digest: call.digest() };
    const given = parts.clock.given();
    const answer = await answeredBefore(parts.reads, workspaceId, audienceIds, claim, given);
    if (answer !== null) return { status: 202, body: answer };
  }
  const place = await placeContact(parts.reads, workspaceId, audienceIds, who);
  if (!place) throw refuse("not_found", "There is no such contact. Add it first.");
  const { audienceId, identity } = place;
  const id = newEventId(parts.clock.now());
  return commit(parts, call, key, { audienceId, identity, name, properties }, id, (contactId) => ({
    object: "event",
    event: name,
    id,
    contact_id: contactId,
  }));
}

type Tracked = Pick<EventEntry, "audienceId" | "identity" | "name" | "properties">;

async function commit(
  parts: EventParts,
  call: Call,
  key: string | null,
  event: Tracked,
  id: string,
  answer: (contactId: string) => object,
): Promise<Answer> {
  const digest = call.digest();
  const { audienceId, identity, name, properties } = event;
  const entry: EventEntry = {
    audienceId,
    identity,
    name,
    properties,
    workspaceId: call.caller.workspaceId,
    id,
    given: parts.clock.given(),
    bytes: Buffer.byteLength(event.properties ?? "") + ENTRY_BYTES,
    answer: (contactId) => JSON.stringify(answer(contactId)),
    claim: key === null ? null : { key, digest },
  };
  const room = parts.commit.takeRoom(1, entry.bytes);
  if (!room) throw new Unavailable("capacity", "the commit is full");
  try {
    const verdict = await parts.commit.submit(entry);
    switch (verdict.kind) {
      case "accepted":
        return { status: 202, body: verdict.answer };
      case "claimed":
        if (verdict.claim.digest !== digest) throw keyConflict();
        return { status: 202, body: verdict.claim.answer };
      case "no contact":
        throw refuse(
          "not_found",
          "There is no such audience, or no contact with this address in it. Add the contact first.",
        );
      case "too much":
        throw refuse(
          "validation_error",
          "The filters of the automations that this event may start compare too much with it. Send fewer or shorter properties, or shorten the filters.",
        );
      case "failed":
        throw rolledBack(verdict);
      case "unknown":
        throw outcomeUnknown(entry.claim);
    }
  } finally {
    room.release();
  }
}

function identityOf(email: string): string {
  const mailbox = parseMailbox(email);
  if (!mailbox || mailbox.name !== null)
    throw refuse("validation_error", "The `email` field must be an address: `a@x.com`.");
  return identity(mailbox.address);
}

/** null: none were given. */
function jsonOf(given: Record<string, unknown> | null | undefined, field: string): string | null {
  if (given === undefined || given === null) return null;
  if (isJsonbOver(given, PROPERTIES_BYTES_MAX))
    throw refuse(
      "validation_error",
      `The \`${field}\` field must have at most ${PROPERTIES_BYTES_MAX} bytes as JSON, with all numbers written out in full.`,
    );
  return JSON.stringify(given);
}

function isFields(body: Json | undefined): body is { [name: string]: Json } {
  return body !== null && typeof body === "object" && !Array.isArray(body);
}

function object(body: Json): Json {
  if (isFields(body)) return body;
  throw refuse("validation_error", "An event must be a JSON object.");
}
