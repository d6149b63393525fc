/**
 * Erasing what was mailed to people who are no longer kept: at once as far as it is quick, and to the end by the
 * keeper, which also empties the audiences that were deleted.
 */
import type { Clock } from "../clock.ts";
import {
  beginErasure,
  type EraseSizes,
  emptyDeletedAudience,
  eraseSizes,
  eraseStep,
} from "../record/contacts/erasures.ts";
import type { Sql } from "../record/db/connect.ts";

/** How long a caller waits, and how long a tick may take. */
const AT_ONCE_MS = 1_000;

/** Works on erasures, of one workspace or of all, for a while; says whether any may be left. */
export async function eraseMail(
  sql: Sql,
  workspaceId: string | null,
  clock: Clock,
  sizes: EraseSizes = eraseSizes(AT_ONCE_MS),
): Promise<boolean> {
  const until = performance.now() + AT_ONCE_MS;
  while (performance.now() < until) {
    let left = await beginErasure(sql, workspaceId);
    if (!left) return false;
    while (left && performance.now() < until) left = await eraseStep(sql, left, new Date(clock.now()), sizes);
  }
  return true;
}

/**
 * Erases the contacts of deleted audiences for a while, so that many are looked for in the mail at once; says whether
 * any may be left.
 */
export async function emptyAudiences(
  sql: Sql,
  clock: Clock,
  sizes: EraseSizes = eraseSizes(AT_ONCE_MS),
): Promise<boolean> {
  const until = performance.now() + AT_ONCE_MS;
  while (performance.now() < until) {
    const emptied = await sizes.emptied.take(
      (most) => emptyDeletedAudience(sql, new Date(clock.now()), most),
      (count) => count ?? 0,
    );
    if (emptied === null) return false;
  }
  return true;
}
