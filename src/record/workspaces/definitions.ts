/** What a workspace says of its events and of the properties of its contacts. */
import type { Sql, Statement } from "../db/connect.ts";
import { json, orNull, text, timestamp, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

export const DEFINITIONS_MAX = 1_000;
const UNIQUE_VIOLATION = "23505";

export type DefinitionKind = "event" | "contact_property";
export type Definition<Content extends object> = {
  id: string;
  name: string;
  content: Content;
  createdAt: Date;
  updatedAt: Date | null;
};

/** What an event or a property is said to be, as its kind says. */
function definitionRow<Content>() {
  return {
    id: text,
    name: text,
    content: json<Content>(),
    createdAt: timestamp,
    updatedAt: orNull(timestamp),
  };
}

export async function insertDefinition(
  sql: Sql,
  workspaceId: string,
  kind: DefinitionKind,
  { id, name, content }: Pick<Definition<object>, "id" | "name" | "content">,
  now: Date,
): Promise<"inserted" | "taken" | "too many"> {
  const inserted = sql`
    insert into definition (workspace_id, id, kind, name, content, created_at)
    select ${workspaceId}, ${id}, ${kind}, ${name}, ${JSON.stringify(content)}::text::jsonb, ${now}
    where (select count(*) from definition where workspace_id = ${workspaceId}) < ${DEFINITIONS_MAX}
    returning id`;
  return inserted.then(
    (rows) => (rows.length > 0 ? "inserted" : "too many"),
    (error: { code?: string }) => {
      if (error.code === UNIQUE_VIOLATION) return "taken";
      throw error;
    },
  );
}

/** By its id or its name. */
export async function findDefinition<Content extends object>(
  sql: Sql,
  workspaceId: string,
  kind: DefinitionKind,
  ref: { id: string } | { name: string },
): Promise<Definition<Content> | null> {
  const [row] = await typed(sql, definitionRow<Content>())`
    select ${columns(sql)} from definition
    where workspace_id = ${workspaceId} and kind = ${kind}
      and ${"id" in ref ? sql`id = ${ref.id}` : sql`name = ${ref.name}`}`;
  return row ?? null;
}

/** A page and one more row. */
export async function listDefinitions<Content extends object>(
  sql: Sql,
  workspaceId: string,
  kind: DefinitionKind,
  { after, before, limit }: Page,
): Promise<Definition<Content>[]> {
  const position =
    before !== null ? sql`and id > ${before}` : after !== null ? sql`and id < ${after}` : sql``;
  return typed(sql, definitionRow<Content>())`
    select ${columns(sql)} from definition where workspace_id = ${workspaceId} and kind = ${kind} ${position}
    order by id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

export async function updateDefinition(
  sql: Sql,
  workspaceId: string,
  id: string,
  content: object,
  now: Date,
): Promise<void> {
  await sql`
    update definition set content = ${JSON.stringify(content)}::text::jsonb, updated_at = ${now}
    where workspace_id = ${workspaceId} and id = ${id}`;
}

export async function deleteDefinition(sql: Sql, workspaceId: string, id: string): Promise<void> {
  await sql`delete from definition where workspace_id = ${workspaceId} and id = ${id}`;
}

function columns(sql: Sql): Statement {
  return sql`id, name, content, created_at as "createdAt", updated_at as "updatedAt"`;
}
