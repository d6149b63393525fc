/** What a workspace may use now: its plan, its own limits, and its caps as they have grown. */

import type { Allowance } from "./ledger.ts";
import { limitsOf, type Overrides, type Plan } from "./plans.ts";
import { type StreamDefinitions, type StreamShares, streamLimits } from "./stream.ts";

export type AllowanceRow = {
  plan: Plan;
  limits: Overrides;
  grownCapDay: number;
  grownCapHour: number;
  reservedShare: number;
  streams: StreamDefinitions;
  streamShares: StreamShares;
};

export function allowanceOf(row: AllowanceRow): Allowance {
  const limits = limitsOf(row.plan, row.limits);
  return {
    dayLimit: limits.emails_per_day,
    monthLimit: limits.emails_per_month,
    capDay: limits.cap_day ?? row.grownCapDay,
    capHour: limits.cap_hour ?? row.grownCapHour,
    reservedShare: row.reservedShare,
    streams: streamLimits(row.streams, row.streamShares),
  };
}
