/** Requests as they are kept for some days: written in groups, read by their workspace. */
import { plainArray } from "../db/arrays.ts";
import type { Sql, Statement } from "../db/connect.ts";
import { float, integer, type RowOf, text, typed } from "../db/rowshape.ts";
import type { Page } from "../mail/read.ts";

const loggedRequestRow = {
  id: text,
  keyId: text,
  method: text,
  route: text,
  status: integer,
  ms: float,
  requestId: text,
};
export type LoggedRequest = RowOf<typeof loggedRequestRow>;

export async function insertRequests(
  sql: Sql,
  requests: readonly (LoggedRequest & { workspaceId: string })[],
): Promise<void> {
  const of = (pick: (one: (typeof requests)[number]) => string | number): string =>
    plainArray(requests.map(pick));
  await sql`
    insert into request (workspace_id, id, key_id, method, route, status, ms, request_id)
    select * from unnest(${of((r) => r.workspaceId)}::uuid[], ${of((r) => r.id)}::uuid[],
      ${of((r) => r.keyId)}::uuid[],
      ${requests.map(({ method }) => method)}::text[], ${requests.map(({ route }) => route)}::text[],
      ${of((r) => r.status)}::int[], ${of((r) => r.ms)}::real[], ${of((r) => r.requestId)}::uuid[])`;
}

export async function findRequest(sql: Sql, workspaceId: string, id: string): Promise<LoggedRequest | null> {
  const [row] = await typed(sql, loggedRequestRow)`
    select ${columns(sql)} from request where workspace_id = ${workspaceId} and id = ${id}`;
  return row ?? null;
}

/** A page and one more row. */
export async function listRequests(
  sql: Sql,
  workspaceId: string,
  { after, before, limit }: Page,
): Promise<LoggedRequest[]> {
  const position =
    before !== null ? sql`and id > ${before}` : after !== null ? sql`and id < ${after}` : sql``;
  return typed(sql, loggedRequestRow)`
    select ${columns(sql)} from request where workspace_id = ${workspaceId} ${position}
    order by id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}

function columns(sql: Sql): Statement {
  return sql`id, key_id as "keyId", method, route, status, ms, request_id as "requestId"`;
}
