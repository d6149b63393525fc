/** /usage: what of quota and limits the workspace has used. */
import Type from "typebox";
import type { Clock } from "../clock.ts";
import { DAY_MS } from "../clock.ts";
import { floorId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { readAccount } from "../record/workspaces/ledgers.ts";
import { countUse } from "../record/workspaces/usage.ts";
import { advance, sum } from "../rules/ledger.ts";
import { refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Count, inner, orNull, shape, Text, Time } from "./shapes.ts";
import { iso } from "./time.ts";

/** Counting more would take long. */
const COUNT_MAX = 100_000;

const use = { used: Count, limit: orNull(Count) };
const Period = inner({ ...use, sent: Count, received: Count, resets_at: Time });
const UsageAnswer = shape("Usage", {
  object: Type.Literal("usage"),
  plan: Text,
  emails: inner({ daily: Period, monthly: Period }),
  caps: inner({ hour: inner(use), day: inner(use), waiting: Count }),
  contacts: inner(use),
  segments: inner(use),
  broadcasts: inner(use),
  ai_credits: inner({ ...use, next_increase_at: Type.Null() }),
  automation_runs: inner({ ...use, resets_at: Time }),
  domains: inner(use),
  rate_limit: inner({ limit: Count, duration: Text }),
});

export function usageRoutes(parts: { reads: Sql; clock: Clock }): Route[] {
  return [
    {
      method: "GET",
      path: "/api/v1/usage",
      permissions: ["full"],
      summary: "Quota and limits, and how much of them is used",
      success: 200,
      answer: UsageAnswer,
      handle: (call) => usage(parts, call),
    },
  ];
}

async function usage({ reads, clock }: { reads: Sql; clock: Clock }, { caller }: Call): Promise<Answer> {
  const now = clock.now();
  const month = new Date(now);
  const monthBegan = Date.UTC(month.getUTCFullYear(), month.getUTCMonth());
  const monthEnds = new Date(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1));
  const [account, counts] = await Promise.all([
    readAccount(reads, caller.workspaceId),
    countUse(reads, caller.workspaceId, floorId(monthBegan), COUNT_MAX),
  ]);
  if (!account) throw refuse("not_found", "The workspace is gone.");
  const { ledger, allowance, plan, requestsPerSecond } = account;
  advance(ledger, now);
  const dayEnds = new Date((Math.floor(now / DAY_MS) + 1) * DAY_MS);
  const period = (used: number, limit: number | null, ends: Date) => ({
    ...{ used, limit, sent: used, received: 0 },
    resets_at: iso(ends),
  });
  const body = {
    object: "usage",
    plan,
    emails: {
      daily: period(ledger.dayUsed, allowance.dayLimit, dayEnds),
      monthly: period(ledger.monthUsed, allowance.monthLimit, monthEnds),
    },
    caps: {
      hour: { used: sum(ledger.hourUsed), limit: allowance.capHour },
      day: { used: ledger.capDayUsed, limit: allowance.capDay },
      waiting: ledger.waiting + ledger.waitingBulk,
    },
    contacts: { used: counts.contacts, limit: null },
    segments: { used: counts.audiences, limit: null },
    broadcasts: { used: 0, limit: null },
    ai_credits: { used: 0, limit: null, next_increase_at: null },
    automation_runs: { used: counts.runs, limit: null, resets_at: iso(monthEnds) },
    domains: { used: counts.domains, limit: null },
    rate_limit: { limit: requestsPerSecond, duration: "1s" },
  };
  return { status: 200, body: JSON.stringify(body) };
}
