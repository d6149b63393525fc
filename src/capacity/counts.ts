/** The counts that the policy judges a workspace on; where its bounces are doubted, with the domains that they come from. */

import type { Sql } from "../record/db/connect.ts";
import { type BounceSources, bounceSources } from "../record/workspaces/bouncesources.ts";
import type { DayCounts, DayRow, SourceCounts } from "../record/workspaces/caps.ts";
import { isDoubted } from "./policy/evidence.ts";
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
  return withSources(days, await bounceSources(sql, workspaceId, now, COUNTED_DAYS_MAX));
}

/** Each source on each day, as all of them have their share in the mail of each. */
function withSources(days: readonly DayCounts[], { bounces, shares }: BounceSources): DayCounts[] {
  const names = [...new Set(bounces.map(({ name }) => name))];
  const bounced = new Map(bounces.map(({ day, name, bounced }) => [`${day} ${name}`, bounced]));
  return days.map((counts) => {
    const { day, attempted, sources = [] } = counts;
    const known = new Map(sources.map((one) => [one.name, one]));
    const found = names.map(
      (name): SourceCounts => ({
        ...(known.get(name) ?? { name, complained: 0, fblDelivered: 0 }),
        attempted: attempted * (shares.get(name) ?? 0),
        bounced: bounced.get(`${day} ${name}`) ?? 0,
      }),
    );
    return { ...counts, sources: [...sources.filter(({ name }) => !names.includes(name)), ...found] };
  });
}
