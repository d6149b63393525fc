/**
 * Erasing what was mailed to people who are no longer kept: at once as far as it is quick, and to the end by the
 * keeper; and emptying the audiences that were deleted.
 */
import type { Clock } from "../clock.ts";
import type { Sql } from "../record/connect.ts";
import { type Erasure, emptyDeletedAudience, eraseDay, listErasures } from "../record/erasures.ts";

const AT_ONCE_MS = 1_000;
const ERASURES_MAX = 20;

/** Works on the erasures of a workspace until they are done or it takes too long for a caller to wait. */
export async function eraseSoon(sql: Sql, workspaceId: string, clock: Clock): Promise<void> {
  const until = performance.now() + AT_ONCE_MS;
  for (const erasure of await listErasures(sql, workspaceId, ERASURES_MAX)) {
    await eraseAll(sql, erasure, clock, () => performance.now() < until);
    if (performance.now() >= until) return;
  }
}

/** Whatever was left behind, of all workspaces; says whether there may be more. */
export async function eraseRest(sql: Sql, clock: Clock, isStopped: () => boolean): Promise<boolean> {
  const emptied = await emptyDeletedAudience(sql, new Date(clock.now()));
  const erasures = await listErasures(sql, null, ERASURES_MAX);
  for (const erasure of erasures) await eraseAll(sql, erasure, clock, () => !isStopped());
  return emptied !== null || erasures.length >= ERASURES_MAX;
}

async function eraseAll(sql: Sql, erasure: Erasure, clock: Clock, goesOn: () => boolean): Promise<void> {
  for (let day = erasure.nextDay; goesOn(); day--)
    if (await eraseDay(sql, { ...erasure, nextDay: day }, new Date(clock.now()))) return;
}
