/**
 * Erasing what was mailed to people who are no longer kept: at once as far as it is quick, and to the end by the
 * keeper, which also empties the audiences that were deleted.
 */
import type { Clock } from "../clock.ts";
import type { Sql } from "../record/connect.ts";
import { beginErasure, emptyDeletedAudience, eraseStep } from "../record/erasures.ts";

/** How long a caller waits, and how long a tick may take. */
const AT_ONCE_MS = 1_000;

/** Works on erasures, of one workspace or of all, for a while; says whether any may be left. */
export async function eraseMail(sql: Sql, workspaceId: string | null, clock: Clock): Promise<boolean> {
  const until = performance.now() + AT_ONCE_MS;
  while (performance.now() < until) {
    let left = await beginErasure(sql, workspaceId);
    if (!left) return false;
    while (left && performance.now() < until) left = await eraseStep(sql, left, new Date(clock.now()));
  }
  return true;
}

/**
 * Erases the contacts of deleted audiences for a while, so that many are looked for in the mail at once; says whether
 * any may be left.
 */
export async function emptyAudiences(sql: Sql, clock: Clock): Promise<boolean> {
  const until = performance.now() + AT_ONCE_MS;
  while (performance.now() < until)
    if ((await emptyDeletedAudience(sql, new Date(clock.now()))) === null) return false;
  return true;
}
