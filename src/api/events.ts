/** /events: what happened to a contact is committed, with the runs of automations that it starts. */
import Type from "typebox";
import { identity, parseMailbox } from "../address.ts";
import { rolledBack, Unavailable } from "../admission/unavailable.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newEventId } from "../ids.ts";
import type { EventCommit, EventEntry } from "../record/automations/events.ts";
import { EVENT_NAME, EVENT_NAME_WORDS } from "../rules/eventname.ts";
import { jsonbBytes } from "../rules/jsonb.ts";
import { patterned } from "../schemafault.ts";
import { visibleAudience } from "./audiences.ts";
import { checker, missingField } from "./check.ts";
import { idempotencyKey, keyConflict, outcomeUnknown } from "./idempotency.ts";
import type { Json } from "./json.ts";
import { refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";

const PROPERTIES_BYTES_MAX = 16_384;
/** Of an entry beside its properties. */
const ENTRY_BYTES = 500;

export const TrackEvent = Type.Object(
  {
    audience_id: Type.String({ description: "the audience the contact belongs to" }),
    email: Type.String({ description: "the contact; must be in the audience" }),
    name: patterned(EVENT_NAME, EVENT_NAME_WORDS, {
      description: "automations of the audience that wait for exactly this name start",
    }),
    properties: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: `at most ${PROPERTIES_BYTES_MAX} bytes as compact JSON`,
      }),
    ),
  },
  { $id: "TrackEvent" },
);
const checkEvent = checker(TrackEvent);

export type EventParts = { commit: EventCommit; clock: Clock };

export function eventRoutes(parts: EventParts): Route[] {
  return [
    {
      method: "POST",
      path: "/api/v1/events",
      permissions: ["events:write"],
      plan: "events",
      commits: true,
      summary: "Track an event and start automations",
      request: TrackEvent,
      success: 202,
      handle: (call) => track(parts, call),
    },
  ];
}

async function track({ commit, clock }: EventParts, call: Call): Promise<Answer> {
  const key = idempotencyKey(call);
  const event = readEvent(call, clock);
  visibleAudience(call.caller, event.audienceId);
  const digest = call.digest();
  const entry: EventEntry = { ...event, claim: key === null ? null : { key, digest } };
  const room = commit.takeRoom(1, entry.bytes);
  if (!room) throw new Unavailable("capacity", "the commit is full");
  try {
    const verdict = await commit.submit(entry);
    switch (verdict.kind) {
      case "accepted":
        return { status: 202, body: verdict.answer };
      case "claimed":
        if (verdict.claim.digest !== digest) throw keyConflict();
        return { status: 202, body: verdict.claim.answer };
      case "no contact":
        throw refuse("not_found", "There is no contact with this address in the audience. Add it first.");
      case "failed":
        throw rolledBack(verdict);
      case "unknown":
        throw outcomeUnknown();
    }
  } finally {
    room.release();
  }
}

function readEvent({ caller, body }: Call, clock: Clock): Omit<EventEntry, "claim"> {
  const given = checkEvent(body === undefined ? undefined : object(body));
  const { audience_id, email, name } = given;
  if (!isUuid(audience_id)) throw refuse("validation_error", "The `audience_id` field must be a UUID.");
  if (email === "") throw missingField("email");
  const mailbox = parseMailbox(email);
  if (!mailbox || mailbox.name !== null)
    throw refuse("validation_error", "The `email` field must be an address: `a@x.com`.");
  const properties = given.properties === undefined ? null : JSON.stringify(given.properties);
  const bytes = properties === null ? 0 : Buffer.byteLength(properties);
  if (bytes > PROPERTIES_BYTES_MAX)
    throw refuse(
      "validation_error",
      `The \`properties\` field must have at most ${PROPERTIES_BYTES_MAX} bytes as JSON, not ${bytes}.`,
    );
  if (jsonbBytes(given.properties ?? null, PROPERTIES_BYTES_MAX) > PROPERTIES_BYTES_MAX)
    throw refuse(
      "validation_error",
      `The \`properties\` field must have at most ${PROPERTIES_BYTES_MAX} bytes as JSON, with all numbers written out in full.`,
    );
  const id = newEventId(clock.now());
  return {
    workspaceId: caller.workspaceId,
    audienceId: audience_id.toLowerCase(),
    identity: identity(mailbox.address),
    id,
    name,
    properties,
    given: clock.given(),
    bytes: bytes + ENTRY_BYTES,
    answer: (contactId) =>
      JSON.stringify({ object: "event", id, name, contact_id: contactId, accepted: true }),
  };
}

function object(body: Json): Json {
  if (body !== null && typeof body === "object" && !Array.isArray(body)) return body;
  throw refuse("validation_error", "An event must be a JSON object.");
}
