/**
 * /templates: save, read, list, copy and delete. What is saved must parse; a refusal names line and column.
 */
import Type, { type Static } from "typebox";
import { firstChars } from "../chars.ts";
import type { Clock } from "../clock.ts";
import { isUuid, newId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import {
  amendTemplate,
  deleteTemplate,
  findTemplate,
  insertTemplate,
  listTemplates,
  putTemplate,
  type TemplateContent,
  type TemplateRow,
  type TemplateVariable,
  type WholeTemplate,
} from "../record/mail/templates.ts";
import { compile } from "../template/compile.ts";
import { TemplateFault } from "../template/fault.ts";
import { SOURCE_CHARS_MAX } from "../template/parse.ts";
import type { VariableUse } from "../template/variables.ts";
import { turnIfLate } from "../turn.ts";
import { checker } from "./check.ts";
import { checkFrom, checkSubject, OneOrMore, replyToOf, SUBJECT_CHARS_MAX } from "./draft.ts";
import type { Json } from "./json.ts";
import { jsonInTurns } from "./jsonturns.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { type Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Count, Id, inner, listOf, orNull, shape, Text, Time, told } from "./shapes.ts";
import { iso } from "./time.ts";
import { expectVersion, IfVersion } from "./version.ts";

const EXTERNAL_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const NAME_CHARS_MAX = 200;
const VARIABLES_MAX = 100;
const FALLBACK_CHARS_MAX = 4_000;

const Variable = Type.Object({
  key: Type.String({ minLength: 1, maxLength: NAME_CHARS_MAX }),
  type: Type.Optional(Type.Enum(["string", "number", "list", "object"])),
  fallback_value: Type.Optional(
    Type.Union([Type.String({ maxLength: FALLBACK_CHARS_MAX }), Type.Number(), Type.Null()]),
  ),
});
const Html = Type.String({
  maxLength: SOURCE_CHARS_MAX,
  description: "Liquid; `{{name}}` is escaped, `{{{name}}}` is not, `{{name|friend}}` falls back",
});
const fields = {
  name: Type.Optional(Type.String({ maxLength: NAME_CHARS_MAX })),
  subject: Type.Optional(Type.String({ maxLength: SUBJECT_CHARS_MAX })),
  from: Type.Optional(
    Type.String({ description: "`a@x.com` or `Name <a@x.com>`; an empty string removes it" }),
  ),
  reply_to: Type.Optional(OneOrMore),
  html: Type.Optional(Html),
  text: Type.Optional(
    Type.String({
      maxLength: SOURCE_CHARS_MAX,
      description: "derived from `html` when absent; an empty string suppresses it",
    }),
  ),
  variables: Type.Optional(
    Type.Array(Variable, { maxItems: VARIABLES_MAX, description: "fallbacks for variables" }),
  ),
};
const PutTemplate = Type.Object({ ...fields, html: Html }, { $id: "PutTemplate" });
const alias = Type.Optional(Type.String({ description: "the external id" }));
const CreateTemplate = Type.Object({ ...fields, html: Html, alias }, { $id: "CreateTemplate" });
const UpdateTemplate = Type.Object({ ...fields, alias, if_version: IfVersion }, { $id: "UpdateTemplate" });
type GivenTemplateFields = Omit<Static<typeof UpdateTemplate>, "if_version">;

const templateFields = {
  object: Type.Literal("template"),
  id: Id,
  external_id: orNull(Text),
  alias: orNull(Text),
  name: Text,
  version: Count,
  subject: orNull(Text),
  from: orNull(Text),
  reply_to: Type.Array(Text),
  status: Type.Literal("published"),
  variables: Type.Array(
    inner({
      ...{ key: Text, type: Text, fallback_value: Type.Union([Text, Type.Number(), Type.Null()]) },
      ...{ created_at: Time, updated_at: Time },
    }),
  ),
  created_at: Time,
  updated_at: Time,
  published_at: Time,
  current_version_id: Id,
  has_unpublished_versions: Type.Literal(false, { description: "what is saved is published" }),
};
const Changed = told("template");
const checkPut = checker(PutTemplate);
const checkCreate = checker(CreateTemplate);
const checkUpdate = checker(UpdateTemplate);

export type TemplateParts = { reads: Sql; clock: Clock };

export function templateRoutes(parts: TemplateParts): Route[] {
  const reads = { permissions: ["templates:read"], success: 200 } as const;
  const changes = { permissions: ["templates:write"], plan: "templates" } as const;
  const path = "/api/v1/templates";
  return [
    {
      ...reads,
      method: "GET",
      path,
      summary: "List templates, newest first",
      answer: listOf(shape("TemplateItem", templateFields)),
      query: LIST_QUERY,
      handle: (call) => list(parts, call),
    },
    {
      ...changes,
      method: "POST",
      path,
      summary: "Create a template",
      success: 201,
      request: CreateTemplate,
      answer: Changed,
      handle: (call) => create(parts, call),
    },
    {
      ...reads,
      method: "GET",
      path: `${path}/{id_or_external_id}`,
      summary: "Get a template with its HTML",
      answer: shape("Template", { ...templateFields, html: Text, text: orNull(Text) }),
      handle: (call) => get(parts, call),
    },
    {
      ...changes,
      method: "PUT",
      path: `${path}/{external_id}`,
      summary: "Create or replace a template: 201 when it is new, else 200",
      success: 201,
      alsoSucceeds: { 200: Changed },
      request: PutTemplate,
      answer: Changed,
      handle: (call) => put(parts, call),
    },
    {
      ...changes,
      method: "PATCH",
      path: `${path}/{id_or_external_id}`,
      summary: "Change parts of a template",
      success: 200,
      request: UpdateTemplate,
      answer: Changed,
      handle: (call) => patch(parts, call),
    },
    {
      method: "DELETE",
      path: `${path}/{id_or_external_id}`,
      permissions: ["templates:write"],
      summary: "Delete a template; e-mails already accepted keep their contents",
      success: 200,
      answer: told("template", { deleted: Type.Literal(true) }),
      handle: (call) => remove(parts, call),
    },
    {
      ...changes,
      method: "POST",
      path: `${path}/{id_or_external_id}/publish`,
      summary: "Does nothing: a saved template is live at once",
      success: 200,
      answer: Changed,
      handle: (call) => publish(parts, call),
    },
    {
      ...changes,
      method: "POST",
      path: `${path}/{id_or_external_id}/duplicate`,
      summary: "Copy a template; the copy has no external id",
      success: 201,
      answer: Changed,
      handle: (call) => duplicate(parts, call),
    },
  ];
}

async function list({ reads }: TemplateParts, { caller, query }: Call): Promise<Answer> {
  const page = pageOf(query);
  return { status: 200, body: envelope(await listTemplates(reads, caller.workspaceId, page), page, show) };
}

async function get({ reads }: TemplateParts, { caller, params }: Call): Promise<Answer> {
  const found = await findTemplate(reads, caller.workspaceId, refOf(params));
  if (!found) throw unknownTemplate();
  return { status: 200, body: await jsonInTurns(show(found), { html: found.html, text: found.plain }) };
}

async function put({ reads, clock }: TemplateParts, { caller, params, body }: Call): Promise<Answer> {
  const externalId = params[0] ?? "";
  if (!isExternalId(externalId)) throw badName("invalid_parameter", "external_id");
  const given = checkPut(object(body));
  const now = clock.now();
  const content = await contentOf(given, blank(given.name ?? externalId));
  const template = { workspaceId: caller.workspaceId, id: newId(now), externalId };
  const { id, isNew } = await putTemplate(reads, template, content, new Date(now));
  return answer(isNew ? 201 : 200, id);
}

async function create({ reads, clock }: TemplateParts, { caller, body }: Call): Promise<Answer> {
  const given = checkCreate(object(body));
  const externalId = given.alias === undefined ? null : aliasOf(given.alias);
  const now = clock.now();
  const content = await contentOf(given, blank(given.name ?? externalId ?? "Untitled"));
  const template = { workspaceId: caller.workspaceId, id: newId(now), externalId };
  if (!(await insertTemplate(reads, template, content, new Date(now)))) throw taken(externalId ?? "");
  return answer(201, template.id);
}

async function patch({ reads, clock }: TemplateParts, call: Call): Promise<Answer> {
  const { caller, params, body } = call;
  const ref = refOf(params);
  const { if_version, ...given } = checkUpdate(object(body));
  if (Object.keys(given).length === 0) return publish({ reads, clock }, call);
  const alias = given.alias === undefined ? null : aliasOf(given.alias);
  const amend = (whole: WholeTemplate) => {
    expectVersion(if_version, whole.version);
    return contentOf(given, whole);
  };
  const result = await amendTemplate(reads, caller.workspaceId, ref, alias, amend, new Date(clock.now()));
  if (result.kind === "unknown") throw unknownTemplate();
  if (result.kind === "taken") throw taken(alias ?? "");
  return answer(200, result.id);
}

async function publish({ reads }: TemplateParts, { caller, params }: Call): Promise<Answer> {
  const found = await findTemplate(reads, caller.workspaceId, refOf(params));
  if (!found) throw unknownTemplate();
  return answer(200, found.id);
}

async function duplicate({ reads, clock }: TemplateParts, { caller, params }: Call): Promise<Answer> {
  const found = await findTemplate(reads, caller.workspaceId, refOf(params));
  if (!found) throw unknownTemplate();
  const now = clock.now();
  const copy = { workspaceId: caller.workspaceId, id: newId(now), externalId: null };
  const name = firstChars(`Copy of ${found.name}`, NAME_CHARS_MAX);
  await insertTemplate(reads, copy, { ...found, name }, new Date(now));
  return answer(201, copy.id);
}

async function remove({ reads }: TemplateParts, { caller, params }: Call): Promise<Answer> {
  const id = await deleteTemplate(reads, caller.workspaceId, refOf(params));
  if (id === null) throw unknownTemplate();
  return { status: 200, body: JSON.stringify({ object: "template", id, deleted: true }) };
}

/** What was given over what is there, compiled to see that it can be sent. */
async function contentOf(given: GivenTemplateFields, last: TemplateContent): Promise<TemplateContent> {
  const content = {
    name: given.name ?? last.name,
    subject: given.subject === undefined ? last.subject : checkSubject(given.subject, ""),
    from: given.from === undefined ? last.from : given.from === "" ? null : checkFrom(given.from, ""),
    replyTo: given.reply_to === undefined ? last.replyTo : replyToOf(given.reply_to, "reply_to"),
    html: given.html ?? last.html,
    plain: given.text ?? last.plain,
    declared: given.variables === undefined ? last.declared : given.variables.map(declaredOf),
  };
  const late = turnIfLate();
  if (late) await late;
  const used = variablesOf(content);
  const isDeclared = new Set(content.declared.map(({ key }) => key));
  return { ...content, variables: [...content.declared, ...used.filter(({ key }) => !isDeclared.has(key))] };
}

function declaredOf({ key, type, fallback_value }: Static<typeof Variable>): TemplateVariable {
  return { key, type: type ?? "string", fallback_value: fallback_value ?? null };
}

function blank(name: string): TemplateContent {
  return {
    name,
    subject: null,
    from: null,
    replyTo: [],
    html: "",
    plain: null,
    variables: [],
    declared: [],
  };
}

function variablesOf(content: Omit<TemplateContent, "name" | "variables">): VariableUse[] {
  try {
    return compile({ ...content, text: content.plain }).variables;
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    const { part, line, column, message } = error;
    const place = line === null ? "" : ` at line ${line}, column ${column}`;
    throw refuse("validation_error", `The \`${part}\` field is not a valid template${place}: ${message}.`);
  }
}

function unknownTemplate(): Refusal {
  return refuse("not_found", "There is no template with this id.");
}

function taken(externalId: string): Refusal {
  return refuse(
    "validation_error",
    `The \`alias\` \`${externalId}\` is used by another template. Choose another one.`,
  );
}

function badName(name: "invalid_parameter" | "validation_error", field: string): Refusal {
  return refuse(
    name,
    `The \`${field}\` must have 1 to 128 letters, digits, \`.\`, \`_\`, \`:\` or \`-\`, start with a letter or digit, and not look like a UUID.`,
  );
}

function isExternalId(text: string): boolean {
  return EXTERNAL_ID.test(text) && !isUuid(text);
}

function aliasOf(alias: string): string {
  if (!isExternalId(alias)) throw badName("validation_error", "alias");
  return alias;
}

function refOf(params: readonly string[]): string {
  const ref = params[0] ?? "";
  if (isUuid(ref)) return ref.toLowerCase();
  if (!isExternalId(ref))
    throw refuse("invalid_parameter", "A template is addressed by its `id`, a UUID, or by its external id.");
  return ref;
}

function object(body: Json | undefined): Json | undefined {
  if (body === undefined || (body !== null && typeof body === "object" && !Array.isArray(body))) return body;
  throw refuse("validation_error", "A template must be a JSON object.");
}

function answer(status: number, id: string): Answer {
  return { status, body: JSON.stringify({ object: "template", id }) };
}

function show(template: TemplateRow) {
  const { id, externalId, name, version, subject, from, replyTo, variables, createdAt, updatedAt } = template;
  const times = { created_at: iso(createdAt), updated_at: iso(updatedAt) };
  return {
    object: "template",
    id,
    external_id: externalId,
    alias: externalId,
    name,
    version,
    subject,
    from,
    reply_to: replyTo,
    status: "published",
    variables: variables.map((variable) => ({ ...variable, ...times })),
    ...times,
    published_at: times.updated_at,
    // what is saved is published, and the client's types want an id
    current_version_id: id,
    has_unpublished_versions: false,
  };
}
