/** What people call the things that they change: for the audit log, which outlives them. */
import { isUuid } from "../../ids.ts";
import type { Sql, Statement } from "../db/connect.ts";
import { text, typed } from "../db/rowshape.ts";

/** `kind`: as paths of the API have it. null: it has no name of its own, or there is no such thing. */
export async function nameOf(
  sql: Sql,
  workspaceId: string,
  kind: string,
  id: string,
): Promise<string | null> {
  const wanted = named(sql, workspaceId, kind, id);
  const [row] = wanted ? await typed(sql, { name: text })`${wanted}` : [];
  return row?.name ?? null;
}

function named(sql: Sql, workspaceId: string, kind: string, id: string): Statement | null {
  const uuid = isUuid(id) ? id : null;
  const its = sql`workspace_id = ${workspaceId} and id = ${uuid}::uuid`;
  switch (kind) {
    case "audiences":
    case "segments":
      return sql`select name from audience where ${its}`;
    case "automations":
      return sql`select name from automation where ${its}`;
    case "domains":
      return sql`select domain as name from domain where ${its}`;
    case "webhooks":
      return sql`select endpoint as name from webhook where ${its}`;
    case "templates":
      return sql`
        select v.name from template t join template_version v
          on v.workspace_id = t.workspace_id and v.template_id = t.id and v.version = t.version
        where t.workspace_id = ${workspaceId} and (t.id = ${uuid}::uuid or t.external_id = ${id}) limit 1`;
    default:
      return null;
  }
}
