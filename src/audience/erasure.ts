/**
 * Erasing what was mailed to people who are no longer kept: at once as far as it is quick, and to the end by the
 * keeper, which also empties the audiences that were deleted.
 */
import type { Clock } from "../clock.ts";
import type { Sql } from "../record/connect.ts";
import { type Erasure, emptyDeletedAudience, eraseStep, listErasures } from "../record/erasures.ts";

/** How long a caller waits, and how long a tick may take. */
const AT_ONCE_MS = 1_000;
const ERASURES_MAX = 20;

/** Works on erasures, of one workspace or of all, for a while; says whether any is left. */
export async function eraseMail(sql: Sql, workspaceId: string | null, clock: Clock): Promise<boolean> {
  const until = performance.now() + AT_ONCE_MS;
  const erasures = await listErasures(sql, workspaceId, ERASURES_MAX);
  for (const erasure of erasures) {
    let left: Erasure | null = erasure;
    while (left) {
      if (performance.now() >= until) return true;
      left = await eraseStep(sql, left, new Date(clock.now()));
    }
  }
  return erasures.length >= ERASURES_MAX;
}

/** Erases the contacts of deleted audiences, some at a time; says whether any is left. */
export async function emptyAudiences(sql: Sql, clock: Clock): Promise<boolean> {
  return (await emptyDeletedAudience(sql, new Date(clock.now()))) !== null;
}
