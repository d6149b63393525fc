import { codeOf } from "../../caught.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { text, typed } from "../db/rowshape.ts";

/** What the fence says to whoever writes rows of a workspace that is moving to another cell. */
const MOVING = "23W01";

/** Nothing was written; soon the workspace goes on, here or in another cell. */
export function isMoving(error: unknown): boolean {
  for (let one = error; one instanceof Error; one = one.cause) if (codeOf(one) === MOVING) return true;
  return false;
}

/** What the fence would say, to who has found nothing and would tell so. */
class Away extends Error {
  readonly code = MOVING;
}

/** Throws when the workspace has left for another cell: what was not found here may be there. */
export async function expectHere(sql: Sql, workspaceId: string): Promise<void> {
  const [away] = await sql`select from workspace where id = ${workspaceId} and strpos(handle, ' ') > 0`;
  if (away) throw new Away(`workspace ${workspaceId} is not in this cell`);
}

/**
 * Workspaces whose rows nobody may write now. The fence ends a whole statement for one row of theirs, so what
 * is done for all workspaces at once passes over them.
 */
export async function fencedNow(sql: Sql | Tx): Promise<string[]> {
  const rows = await typed(sql, { id: text })`
    select workspace_id as id from workspace_move where state <> 'leaving'
      or paused_until > clock_timestamp()`;
  return rows.map(({ id }) => id);
}

/**
 * Whether what the fence refuses of it now will be refused for ever: its rows here are only waiting to be
 * removed.
 */
export async function hasLeft(sql: Sql, workspaceId: string): Promise<boolean> {
  const [gone] = await sql`
    select from workspace_move where workspace_id = ${workspaceId} and state = 'gone'`;
  return gone !== undefined;
}

/** Which of these workspaces are on their way to this cell, or have left it. */
export async function movingAmong(sql: Sql | Tx, workspaceIds: readonly string[]): Promise<Set<string>> {
  if (workspaceIds.length === 0) return new Set();
  const rows = await typed(sql, { id: text })`
    select workspace_id as id from workspace_move
    where workspace_id = any(${[...new Set(workspaceIds)]}::uuid[]) and state <> 'leaving'`;
  return new Set(rows.map(({ id }) => id));
}
