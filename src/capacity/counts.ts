/**
 * The counts that the policy judges a workspace on; where its bounces are doubted, with the domains that they
 * come from.
 */

import type { Sql } from "../record/db/connect.ts";
import { type BounceSources, bounceSources } from "../record/workspaces/bouncesources.ts";
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

/** Each source on each day, as all of them have their share in the mail of each. */
function withSources(
  days: readonly DayCounts[],
  { bounces, latest, today, earlier }: BounceSources,
  now: number,
): DayCounts[] {
  const isNamed = new Set(bounces.map(({ name }) => name).filter((name) => name !== null));
  const names = [...isNamed];
  const bounced = new Map(bounces.map(({ day, name, bounced }) => [`${day} ${name ?? REST}`, bounced]));
  return days.map((counts, n) => {
    const usual = n === days.length - 1 && counts.day === dayOf(now) ? today : earlier;
    const { day, attempted, sources = [] } = counts;
    const known = new Map(sources.map((one) => [one.name, one]));
    const found = names.map(
      (name): SourceCounts => ({
        ...(known.get(name) ?? { name, complained: 0, fblDelivered: 0 }),
        attempted: attempted * (latest.get(name) ?? 0),
        ...(usual && { usual: usual.shares.get(name) ?? 0 }),
        bounced: bounced.get(`${day} ${name}`) ?? 0,
      }),
    );
    const others = sources.filter(({ name }) => !isNamed.has(name));
    const ofRest = bounced.get(`${day} ${REST}`);
    if (ofRest !== undefined)
      found.push({
        ...{ name: REST, isRest: true, attempted: 0, complained: 0, fblDelivered: 0 },
        ...(usual && { usual: 0 }),
        bounced: ofRest,
      });
    return { ...counts, sources: [...others, ...found], ...(usual && { newSources: usual.newSources }) };
  });
}
