/** Audiences of a workspace. */
import type { Sql } from "./connect.ts";

export type Audience = { id: string; name: string; doubleOptIn: boolean; createdAt: Date };

export async function insertAudience(
  sql: Sql,
  audience: { workspaceId: string; id: string; name: string; doubleOptIn: boolean },
  now: Date,
): Promise<boolean> {
  const rows = await sql`
    insert into audience (workspace_id, id, name, double_opt_in, created_at)
    select id, ${audience.id}, ${audience.name}, ${audience.doubleOptIn}, ${now} from workspace
    where id = ${audience.workspaceId} returning id`;
  return rows.length > 0;
}

export async function listAudiences(sql: Sql, workspaceId: string): Promise<Audience[]> {
  return sql<Audience[]>`
    select id, name, double_opt_in as "doubleOptIn", created_at as "createdAt" from audience
    where workspace_id = ${workspaceId} order by id desc`;
}
