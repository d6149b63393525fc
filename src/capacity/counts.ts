/**
 * The counts that the policy judges a workspace on; where its bounces are doubted, with the domains that they
 * come from.
 */

import type { Sql } from "../record/db/connect.ts";
import {
  type BounceSource,
  type BounceSources,
  bounceSources,
  LATEST_MAX,
} from "../record/workspaces/bouncesources.ts";
import type { DayCounts, DayRow, SourceCounts } from "../record/workspaces/caps.ts";
import { dayOf, isDoubted } from "./policy/evidence.ts";
import { withPostmaster } from "./policy/health.ts";
import { type CapState, COUNTED_DAYS_MAX, type Policy, watchOf } from "./policy.ts";

/** `rows`: of one workspace. */
export async function judgedCounts(
  sql: Sql,
  policies: readonly Policy[],
  { workspaceId, state }: { workspaceId: string; state: CapState },
  rows: readonly DayRow[],
  now: number,
): Promise<DayCounts[]> {
  const days = rows.map(({ workspaceId: _, ...counts }) => counts);
  const known = withPostmaster(days);
  if (!policies.some((policy) => isDoubted(policy, watchOf(policy, state), known, now))) return days;
  return withSources(days, await bounceSources(sql, workspaceId, now, COUNTED_DAYS_MAX), now);
}

/** No domain has a space in it. */
const REST = "other domains";

/**
 * Each source on the days on which it bounced; all of them have their share in the latest mail. What bounced
 * was mail, too: a sender could send good mail after a list until none of the list is among the latest.
 */
function withSources(
  days: readonly DayCounts[],
  { bounces, latest, today, earlier }: BounceSources,
  now: number,
): DayCounts[] {
  const bouncesOn = new Map<string, BounceSource[]>(days.map(({ day }) => [day, []]));
  for (const one of bounces) bouncesOn.get(one.day)?.push(one);
  return days.map((counts, n) => {
    const usual = n === days.length - 1 && counts.day === dayOf(now) ? today : earlier;
    const { day, attempted, sources = [] } = counts;
    const found = new Map(sources.map((one) => [one.name, one]));
    const ofBounces = bouncedShares(days.slice(0, n + 1), bouncesOn);
    for (const { name, bounced } of bouncesOn.get(day) ?? []) {
      const ofLatest = Math.max(latest.get(name ?? "") ?? 0, ofBounces.get(name) ?? 0);
      const source: SourceCounts = {
        ...(found.get(name ?? REST) ?? { complained: 0, fblDelivered: 0 }),
        ...{ name: name ?? REST, bounced, latest: ofLatest, attempted: attempted * ofLatest },
      };
      if (name === null) source.isRest = true;
      if (usual) source.usual = usual.shares.get(name ?? "") ?? 0;
      found.set(source.name, source);
    }
    return { ...counts, sources: [...found.values()], ...(usual && { newSources: usual.newSources }) };
  });
}

/**
 * Of the mail of the last of these days, and of as many before as have the mail of a sample. No more bounced
 * than the day has counted, whatever is suppressed.
 */
function bouncedShares(
  days: readonly DayCounts[],
  bouncesOn: ReadonlyMap<string, readonly BounceSource[]>,
): Map<string | null, number> {
  const shares = new Map<string | null, number>();
  let mails = 0;
  for (let n = days.length - 1; n >= 0 && mails < LATEST_MAX; n--) {
    const { day, attempted, bounced: ofAll } = days[n] as DayCounts;
    mails += attempted;
    const told = bouncesOn.get(day) ?? [];
    const share = Math.min(1, ofAll / told.reduce((sum, { bounced }) => sum + bounced, 0));
    for (const { name, bounced } of told) shares.set(name, (shares.get(name) ?? 0) + bounced * share);
  }
  for (const [name, bounced] of shares) shares.set(name, Math.min(1, bounced / Math.max(1, mails)));
  return shares;
}
