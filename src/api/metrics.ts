/**
 * /emails/metrics: what happened to the mail of a workspace. Each recipient counts, on the UTC day on which
 * it happened, as `tally` has it: what is not counted so (opens, hours, single e-mails) is refused and never
 * shown as zero.
 */

import Type from "typebox";
import { type Clock, DAY_MS } from "../clock.ts";
import { isOneOf, keysOf, recordOf } from "../names.ts";
import type { Sql } from "../record/db/connect.ts";
import { COUNTS_KEPT_DAYS } from "../record/workspaces/caps.ts";
import { countsSince, type HappenedCounts } from "../record/workspaces/usage.ts";
import { oneOf, refuseFilters } from "./page.ts";
import { type Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Count, inner, shape, Time } from "./shapes.ts";
import { parseInstant } from "./time.ts";

const DAYS_DEFAULT = 7;
const VALUE_CHARS_SHOWN = 50;
const GRANULARITIES = ["daily", "weekly", "monthly"] as const;
type Granularity = (typeof GRANULARITIES)[number];

type SummedCounts = Omit<HappenedCounts, "span">;
/** In the order in which they are shown. Rates are parts of one; of nothing the rate is 0. */
const METRICS = {
  sent: ({ attempted }: SummedCounts) => attempted,
  delivered: ({ delivered }: SummedCounts) => delivered,
  delivery_delayed: ({ deferred }: SummedCounts) => deferred,
  bounced: (counts: SummedCounts) => bouncedOf(counts),
  bounced_permanent: ({ hard_bounced }: SummedCounts) => hard_bounced,
  bounced_transient: ({ soft_bounced, blocked }: SummedCounts) => soft_bounced + blocked,
  complained: ({ complained }: SummedCounts) => complained,
  delivery_rate: ({ delivered, attempted }: SummedCounts) => rate(delivered, attempted),
  bounce_rate: (counts: SummedCounts) => rate(bouncedOf(counts), counts.attempted),
  complaint_rate: ({ complained, delivered }: SummedCounts) => rate(complained, delivered),
};
type Metric = keyof typeof METRICS;
const NAMES = keysOf(METRICS);

const shown = Object.fromEntries(
  NAMES.map((name) => [name, Type.Optional(name.endsWith("_rate") ? Type.Number({ minimum: 0 }) : Count)]),
);
const MetricsAnswer = shape("Metrics", {
  object: Type.Literal("metrics"),
  start_date: Time,
  end_date: Time,
  metrics: Type.Array(Type.Enum(NAMES)),
  dimensions: Type.Array(Type.Literal("period")),
  granularity: Type.Enum([...GRANULARITIES]),
  totals: inner(shown),
  data: Type.Optional(Type.Array(inner({ period: Time, ...shown }))),
});

export function metricRoutes(parts: { reads: Sql; clock: Clock }): Route[] {
  return [
    {
      method: "GET",
      path: "/api/v1/emails/metrics",
      permissions: ["full"],
      summary: "Count what happened to e-mails, by recipients and UTC days",
      success: 200,
      answer: MetricsAnswer,
      query: [
        { name: "start_date", description: "a day or a time; default: 6 days before `end_date`" },
        { name: "end_date", description: "a day or a time; default: now" },
        { name: "granularity", description: "how long a period is" },
        { name: "dimensions", description: "`period`: counts of each period, besides those of all" },
        { name: "metrics", description: `any of ${NAMES.join(", ")}, with commas between; default: all` },
      ],
      handle: (call) => metrics(parts, call),
    },
  ];
}

async function metrics({ reads, clock }: { reads: Sql; clock: Clock }, call: Call): Promise<Answer> {
  const { query, caller } = call;
  refuseUncounted(query);
  const names = namesIn(query);
  const granularity = oneOf(query, "granularity", GRANULARITIES) ?? "daily";
  const dimensions = listIn(query, "dimensions");
  if (dimensions.some((name) => name !== "period")) throw uncounted("dimensions", "only by `period`");
  const { from, until, end } = daysIn(query, clock.now());
  const found = await countsSince(reads, caller.workspaceId, from, "day");
  const days = found.filter(({ span }) => dayOf(Date.parse(span)) <= until);
  const body = {
    object: "metrics",
    start_date: timeOf(from),
    end_date: new Date(end).toISOString(),
    metrics: names,
    dimensions: dimensions.length > 0 ? ["period"] : [],
    granularity,
    totals: pick(names, sumOf(days)),
    ...(dimensions.length > 0 && { data: byPeriod(days, from, until, granularity, names) }),
  };
  return { status: 200, body: JSON.stringify(body) };
}

/** A filter that changed nothing would show the counts of all as those of one. */
function refuseUncounted(query: URLSearchParams): void {
  for (const name of ["domain_id", "email_id", "broadcast_id"])
    if (query.has(name)) throw uncounted(name, "of the whole workspace only");
  refuseFilters(query, SPAN, "here. Remove it: e-mails are counted of the whole workspace only.");
  const zone = query.get("timezone") ?? "UTC";
  if (!/^(utc|etc\/utc|z)$/i.test(zone)) throw uncounted("timezone", "by UTC days only");
}

const SPAN = ["start_date", "end_date"];

function uncounted(name: string, how: string): Refusal {
  return refuse("invalid_parameter", `\`${name}\` cannot have this value: e-mails are counted ${how}.`);
}

function namesIn(query: URLSearchParams): Metric[] {
  const asked = listIn(query, "metrics");
  const unknown = asked.find((name) => !isOneOf(NAMES, name));
  if (unknown !== undefined)
    throw refuse(
      "invalid_parameter",
      `\`${unknown.slice(0, VALUE_CHARS_SHOWN)}\` is not counted here. \`metrics\` may hold ${NAMES.join(", ")}.`,
    );
  return asked.length === 0 ? NAMES : NAMES.filter((name) => asked.includes(name));
}

function listIn(query: URLSearchParams, name: string): string[] {
  return (query.get(name) ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}

/** First and last day that count, and the time until which they do. */
function daysIn(query: URLSearchParams, now: number): { from: number; until: number; end: number } {
  const asked = timeIn(query, "end_date");
  const last = Math.min(asked ?? now, now);
  const until = dayOf(last);
  const start = timeIn(query, "start_date");
  if (start !== null && start > last)
    throw refuse("invalid_parameter", "`start_date` must not be after `end_date`, nor in the future.");
  const from = start === null ? until - DAYS_DEFAULT + 1 : dayOf(start);
  return {
    from: Math.min(until, Math.max(from, dayOf(now) - COUNTS_KEPT_DAYS)),
    until,
    end: Math.min((until + 1) * DAY_MS, now),
  };
}

function timeIn(query: URLSearchParams, name: string): number | null {
  const text = query.get(name);
  if (text === null) return null;
  const at = parseInstant(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text.replaceAll(" ", "+"));
  if (at === null)
    throw refuse("invalid_parameter", `\`${name}\` must be a day, \`2026-11-20\`, or a time in RFC 3339.`);
  return at;
}

/** Periods without any mail too: a chart has no gaps. */
function byPeriod(
  days: readonly HappenedCounts[],
  from: number,
  until: number,
  granularity: Granularity,
  names: readonly Metric[],
) {
  const periods = new Map<string, HappenedCounts[]>();
  for (let day = from; day <= until; day++) periods.set(timeOf(beginOf(day, granularity)), []);
  for (const one of days) periods.get(timeOf(beginOf(dayOf(Date.parse(one.span)), granularity)))?.push(one);
  return [...periods].map(([period, counts]) => ({ period, ...pick(names, sumOf(counts)) }));
}

/** Weeks begin on Monday. */
function beginOf(day: number, granularity: Granularity): number {
  const date = new Date(day * DAY_MS);
  if (granularity === "weekly") return day - ((date.getUTCDay() + 6) % 7);
  return granularity === "monthly" ? day - date.getUTCDate() + 1 : day;
}

function sumOf(days: readonly HappenedCounts[]): SummedCounts {
  const total: SummedCounts = { ...NOTHING };
  for (const day of days) for (const name of COUNTED) total[name] += day[name];
  return total;
}

const NOTHING: SummedCounts = {
  ...{ accepted: 0, attempted: 0, delivered: 0, deferred: 0, hard_bounced: 0 },
  ...{ soft_bounced: 0, blocked: 0, complained: 0, failed: 0 },
};
const COUNTED = keysOf(NOTHING);

function pick(names: readonly Metric[], counts: SummedCounts): Partial<Record<Metric, number>> {
  return recordOf(names, (name) => METRICS[name](counts));
}

function bouncedOf({ hard_bounced, soft_bounced, blocked }: SummedCounts): number {
  return hard_bounced + soft_bounced + blocked;
}

function rate(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

function dayOf(at: number): number {
  return Math.floor(at / DAY_MS);
}

function timeOf(day: number): string {
  return new Date(day * DAY_MS).toISOString();
}
