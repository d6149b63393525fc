/** Evidence and overrides for the policy of caps, given by what matters. */
import type { DayCounts, Override } from "../../src/capacity/policy.ts";

export function counts(day: string, some: Partial<DayCounts> = {}): DayCounts {
  const delivered = some.delivered ?? 0;
  return {
    day,
    attempted: delivered + (some.bounced ?? 0) + (some.blocked ?? 0),
    delivered,
    bounced: 0,
    blocked: 0,
    complained: 0,
    fblDelivered: Math.floor(delivered / 2),
    delayed: 0,
    used: delivered + (some.bounced ?? 0),
    ...some,
  };
}

export function override(some: Partial<Override>): Override {
  return {
    minimum: null,
    maximum: null,
    fixed: null,
    fixedHour: null,
    until: null,
    by: "sre",
    reason: "test",
    ...some,
  };
}
