/**
 * The counts that the policy judges a workspace on; where its bounces are doubted, with the domains that they
 * come from.
 */

import type { Sql } from "../record/db/connect.ts";
import { type BounceSource, type BounceSources, bounceSources } from "../record/workspaces/bouncesources.ts";
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

/** Each source on the days on which it bounced; all of them have their share in the latest mail. */
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
    for (const { name, bounced } of bouncesOn.get(day) ?? []) {
      const ofLatest = latest.get(name ?? "") ?? 0;
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
