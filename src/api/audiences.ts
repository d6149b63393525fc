/** /audiences, and /segments which is the same by another name: list, read, make and delete. */
import Type from "typebox";
import type { Caller } from "../admission/admit.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import {
  AUDIENCES_MAX,
  type Audience,
  deleteAudience,
  findAudience,
  insertAudience,
  listAudiences,
  renameAudience,
} from "../record/contacts/audiences.ts";
import type { Sql } from "../record/db/connect.ts";
import { checker } from "./check.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { type Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Id, listOf, shape, Text, Time, told } from "./shapes.ts";
import { iso } from "./time.ts";

const NewAudience = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 200 }),
    double_opt_in: Type.Optional(
      Type.Boolean({ description: "new contacts are pending until they confirm; default false" }),
    ),
  },
  { $id: "NewAudience" },
);
const RenameAudience = Type.Object({ name: NewAudience.properties.name }, { $id: "RenameAudience" });
const checkNew = checker(NewAudience);
const checkRename = checker(RenameAudience);

const AudienceItem = shape("AudienceItem", { id: Id, name: Text, created_at: Time });
const ofName = (object: string) => ({
  whole: told(object, { name: Text, created_at: Time, double_opt_in: Type.Boolean() }),
  made: told(object, { name: Text }),
  changed: told(object),
  deleted: told(object, { deleted: Type.Literal(true) }),
});

export type AudienceParts = { reads: Sql; clock: Clock };

/** The names an audience goes by: the official client has called it both. */
export const AUDIENCE_NAMES = [
  { path: "/api/v1/audiences", object: "audience" },
  { path: "/api/v1/segments", object: "segment" },
] as const;
type Name = (typeof AUDIENCE_NAMES)[number];

export function audienceRoutes(parts: AudienceParts): Route[] {
  return AUDIENCE_NAMES.flatMap((name): Route[] => [
    {
      method: "GET",
      path: name.path,
      permissions: ["contacts:read", "contacts:write", "events:write"],
      summary: `List ${name.object}s, newest first`,
      success: 200,
      answer: listOf(AudienceItem),
      query: LIST_QUERY,
      handle: (call) => list(parts, call),
    },
    {
      method: "GET",
      path: `${name.path}/{id}`,
      permissions: ["contacts:read"],
      summary: `Get one ${name.object}`,
      success: 200,
      answer: ofName(name.object).whole,
      handle: (call) => get(parts, name, call),
    },
    {
      method: "POST",
      path: name.path,
      permissions: ["full"],
      summary: `Create one ${name.object}`,
      success: 201,
      request: NewAudience,
      answer: ofName(name.object).made,
      handle: (call) => create(parts, name, call),
    },
    {
      method: "PATCH",
      path: `${name.path}/{id}`,
      permissions: ["full"],
      summary: `Rename one ${name.object}`,
      success: 200,
      request: RenameAudience,
      answer: ofName(name.object).changed,
      handle: (call) => rename(parts, name, call),
    },
    {
      method: "DELETE",
      path: `${name.path}/{id}`,
      permissions: ["full"],
      summary: `Delete one ${name.object}: its contacts are erased, its runs stop`,
      success: 200,
      answer: ofName(name.object).deleted,
      handle: (call) => remove(parts, name, call),
    },
  ]);
}

async function list({ reads }: AudienceParts, { caller, query }: Call): Promise<Answer> {
  const page = pageOf(query);
  const rows = await listAudiences(reads, caller.workspaceId, caller.audienceIds, page);
  const show = ({ id, name, createdAt }: Audience) => ({ id, name, created_at: iso(createdAt) });
  return { status: 200, body: envelope(rows, page, show) };
}

async function get({ reads }: AudienceParts, { object }: Name, { caller, params }: Call): Promise<Answer> {
  const id = visibleAudience(caller, audienceId(params));
  const found = await findAudience(reads, caller.workspaceId, id);
  if (!found) throw unknownAudience();
  const { name, createdAt, doubleOptIn } = found;
  return {
    status: 200,
    body: JSON.stringify({ object, id, name, created_at: iso(createdAt), double_opt_in: doubleOptIn }),
  };
}

async function create({ reads, clock }: AudienceParts, { object }: Name, call: Call): Promise<Answer> {
  const { workspaceId } = call.caller;
  refuseLimited(call.caller, "create one");
  const { name, double_opt_in: doubleOptIn = false } = checkNew(call.body);
  const now = clock.now();
  const id = newId(now);
  const inserted = await insertAudience(reads, { workspaceId, id, name, doubleOptIn }, new Date(now));
  if (inserted === "too many")
    throw refuse(
      "validation_error",
      `A workspace can have at most ${AUDIENCES_MAX} audiences. Delete one first.`,
    );
  return { status: 201, body: JSON.stringify({ object, id, name }) };
}

async function rename({ reads }: AudienceParts, { object }: Name, call: Call): Promise<Answer> {
  const id = visibleAudience(call.caller, audienceId(call.params));
  const { name } = checkRename(call.body);
  if (!(await renameAudience(reads, call.caller.workspaceId, id, name))) throw unknownAudience();
  return { status: 200, body: JSON.stringify({ object, id }) };
}

async function remove({ reads, clock }: AudienceParts, { object }: Name, call: Call): Promise<Answer> {
  const id = visibleAudience(call.caller, audienceId(call.params));
  if (!(await deleteAudience(reads, call.caller.workspaceId, id, new Date(clock.now()))))
    throw unknownAudience();
  return { status: 200, body: JSON.stringify({ object, id, deleted: true }) };
}

export function audienceId(params: readonly string[]): string {
  const id = params[0] ?? "";
  if (!isUuid(id)) throw refuse("invalid_parameter", "The `id` of an audience must be a UUID.");
  return id.toLowerCase();
}

/** For what concerns all audiences. */
export function refuseLimited({ audienceIds }: Caller, what: string): void {
  if (audienceIds !== null)
    throw refuse("restricted_api_key", `This API key is limited to certain audiences and cannot ${what}.`);
}

/** An audience that the key may not see is answered 404, as if it did not exist, without asking a store. */
export function visibleAudience({ audienceIds }: Caller, id: string): string {
  if (audienceIds !== null && !audienceIds.includes(id)) throw unknownAudience();
  return id;
}

export function unknownAudience(): Refusal {
  return refuse("not_found", "There is no audience with this id.");
}
