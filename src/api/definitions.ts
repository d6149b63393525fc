/**
 * /contact-properties, and what /events says of events: kept as callers of the official client give it.
 * Contacts and events are not checked against it.
 */
import Type, { type Static } from "typebox";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import {
  DEFINITIONS_MAX,
  type Definition,
  type DefinitionKind,
  deleteDefinition,
  findDefinition,
  insertDefinition,
  listDefinitions,
  updateDefinition,
} from "../record/workspaces/definitions.ts";
import { EVENT_NAME, EVENT_NAME_WORDS } from "../rules/eventname.ts";
import { patterned } from "../schemafault.ts";
import { checker } from "./check.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Id, listOf, orNull, shape, Text, Time, told } from "./shapes.ts";
import { iso } from "./time.ts";

export type DefinitionParts = { reads: Sql; clock: Clock };

const FIELDS_MAX = 100;
// limits of the key itself are ignored by Type.Record
const EventSchema = Type.Record(Type.String(), Type.Enum(["string", "number", "boolean", "date"]), {
  maxProperties: FIELDS_MAX,
  propertyNames: Type.String({ minLength: 1, maxLength: 100 }),
});
const DefineEvent = Type.Object(
  { name: patterned(EVENT_NAME, EVENT_NAME_WORDS), schema: orNull(EventSchema) },
  { $id: "DefineEvent" },
);
const UpdateEvent = Type.Object({ schema: orNull(EventSchema) }, { $id: "UpdateEvent" });
const Fallback = Type.Union([Type.String({ maxLength: 1_000 }), Type.Number(), Type.Null()]);
const NewProperty = Type.Object(
  {
    key: patterned("^[A-Za-z0-9_]{1,100}$", "1 to 100 letters, digits and underscores"),
    type: Type.Enum(["string", "number"]),
    fallback_value: Type.Optional(Fallback),
  },
  { $id: "NewContactProperty" },
);
const UpdateProperty = Type.Object(
  { fallback_value: Type.Optional(Fallback) },
  { $id: "UpdateContactProperty" },
);
const keepsNull = { keepsNull: true };
const checkEvent = checker(DefineEvent, keepsNull);
const checkEventUpdate = checker(UpdateEvent, keepsNull);
const checkProperty = checker(NewProperty, keepsNull);
const checkPropertyUpdate = checker(UpdateProperty, keepsNull);

type EventContent = { schema: Static<typeof EventSchema> | null };
type PropertyContent = { type: "string" | "number"; fallback_value: string | number | null };

const eventFields = {
  id: Id,
  name: Text,
  schema: orNull(EventSchema),
  created_at: Time,
  updated_at: orNull(Time),
};
const propertyFields = {
  id: Id,
  key: Text,
  type: Type.Enum(["string", "number"]),
  fallback_value: Fallback,
  created_at: Time,
};
export const EventDefined = told("event");

export function definitionRoutes(parts: DefinitionParts): Route[] {
  const shared = { permissions: ["full"], success: 200 } as const;
  const [events, event] = ["/api/v1/events", "/api/v1/events/{id_or_name}"];
  const [properties, property] = ["/api/v1/contact-properties", "/api/v1/contact-properties/{id_or_key}"];
  const gone = { deleted: Type.Literal(true) };
  return [
    {
      ...shared,
      method: "GET",
      path: events,
      summary: "List the events that were defined, newest first",
      query: LIST_QUERY,
      answer: listOf(shape("EventDefinitionItem", eventFields)),
      handle: (call) => list(parts, call, "event", showEvent),
    },
    {
      ...shared,
      method: "GET",
      path: event,
      summary: "Get what was said of an event",
      answer: shape("EventDefinition", { object: Type.Literal("event"), ...eventFields }),
      handle: (call) => get(parts, call, "event", showEvent),
    },
    {
      ...shared,
      method: "PATCH",
      path: event,
      summary: "Change what is said of an event",
      request: UpdateEvent,
      answer: EventDefined,
      handle: (call) => update<EventContent>(parts, call, "event", () => checkEventUpdate(call.body)),
    },
    {
      ...shared,
      method: "DELETE",
      path: event,
      summary: "Forget what was said of an event",
      answer: told("event", gone),
      handle: (call) => remove(parts, call, "event"),
    },
    {
      ...shared,
      method: "POST",
      path: properties,
      summary: "Define a property of contacts",
      success: 201,
      request: NewProperty,
      answer: told("contact_property"),
      handle: (call) => {
        const { key, type, fallback_value = null } = checkProperty(call.body);
        return define(parts, call, "contact_property", key, { type, fallback_value });
      },
    },
    {
      ...shared,
      method: "GET",
      path: properties,
      summary: "List the properties that were defined, newest first",
      query: LIST_QUERY,
      answer: listOf(shape("ContactPropertyItem", propertyFields)),
      handle: (call) => list(parts, call, "contact_property", showProperty),
    },
    {
      ...shared,
      method: "GET",
      path: property,
      summary: "Get a property",
      answer: shape("ContactProperty", { object: Type.Literal("contact_property"), ...propertyFields }),
      handle: (call) => get(parts, call, "contact_property", showProperty),
    },
    {
      ...shared,
      method: "PATCH",
      path: property,
      summary: "Change the fallback of a property",
      request: UpdateProperty,
      answer: told("contact_property"),
      handle: (call) =>
        update<PropertyContent>(parts, call, "contact_property", () => checkPropertyUpdate(call.body)),
    },
    {
      ...shared,
      method: "DELETE",
      path: property,
      summary: "Forget a property; contacts keep their values",
      answer: told("contact_property", gone),
      handle: (call) => remove(parts, call, "contact_property"),
    },
  ];
}

/** The official client defines an event where others are tracked: its body has a `schema`. */
export function defineEvent(parts: DefinitionParts, call: Call): Promise<Answer> {
  const { name, schema } = checkEvent(call.body);
  return define(parts, call, "event", name, { schema });
}

async function define(
  { reads, clock }: DefinitionParts,
  { caller }: Call,
  kind: DefinitionKind,
  name: string,
  content: object,
): Promise<Answer> {
  const now = clock.now();
  const id = newId(now);
  const result = await insertDefinition(
    reads,
    caller.workspaceId,
    kind,
    { id, name, content },
    new Date(now),
  );
  if (result === "taken")
    throw refuse("validation_error", `\`${name}\` is defined already. Change it with PATCH.`);
  if (result === "too many")
    throw refuse("validation_error", `At most ${DEFINITIONS_MAX} events and properties can be defined.`);
  return answer(201, kind, id);
}

async function list<Content extends object>(
  { reads }: DefinitionParts,
  { caller, query }: Call,
  kind: DefinitionKind,
  show: (one: Definition<Content>) => object,
): Promise<Answer> {
  const page = pageOf(query);
  const rows = await listDefinitions<Content>(reads, caller.workspaceId, kind, page);
  return { status: 200, body: envelope(rows, page, show) };
}

async function get<Content extends object>(
  parts: DefinitionParts,
  call: Call,
  kind: DefinitionKind,
  show: (one: Definition<Content>) => object,
): Promise<Answer> {
  const found = await find<Content>(parts, call, kind);
  return { status: 200, body: JSON.stringify({ object: kind, ...show(found) }) };
}

async function update<Content extends object>(
  parts: DefinitionParts,
  call: Call,
  kind: DefinitionKind,
  change: () => Partial<Content>,
): Promise<Answer> {
  const given = change();
  const { id, content } = await find<Content>(parts, call, kind);
  const changed = { ...content, ...given };
  await updateDefinition(parts.reads, call.caller.workspaceId, id, changed, new Date(parts.clock.now()));
  return answer(200, kind, id);
}

async function remove(parts: DefinitionParts, call: Call, kind: DefinitionKind): Promise<Answer> {
  const { id } = await find(parts, call, kind);
  await deleteDefinition(parts.reads, call.caller.workspaceId, id);
  return { status: 200, body: JSON.stringify({ object: kind, id, deleted: true }) };
}

async function find<Content extends object>(
  { reads }: DefinitionParts,
  { caller, params }: Call,
  kind: DefinitionKind,
): Promise<Definition<Content>> {
  const text = params[0] ?? "";
  const ref = isUuid(text) ? { id: text.toLowerCase() } : { name: text };
  if (text.includes("\0")) throw refuse("invalid_parameter", "A name must not contain U+0000.");
  const found = await findDefinition<Content>(reads, caller.workspaceId, kind, ref);
  if (!found) throw refuse("not_found", "Nothing is defined with this id or name.");
  return found;
}

function answer(status: number, object: DefinitionKind, id: string): Answer {
  return { status, body: JSON.stringify({ object, id }) };
}

function showEvent({ id, name, content, createdAt, updatedAt }: Definition<EventContent>) {
  const { schema } = content;
  return { id, name, schema, created_at: iso(createdAt), updated_at: iso(updatedAt) };
}

function showProperty({ id, name, content, createdAt }: Definition<PropertyContent>) {
  const { type, fallback_value } = content;
  return { id, key: name, type, fallback_value, created_at: iso(createdAt) };
}
