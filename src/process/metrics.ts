/**
 * Metrics for Prometheus, on their own port: what this process has counted, and what the record says of all
 * processes.
 *
 * A scrape costs the same whatever the backlog: counts of the record have limits, single workspaces are the
 * busiest, and who asks again within a second gets the same answer. While Postgres does not answer, the
 * process's own counts are told all the same. They name workspaces and their volume, so a token is required
 * unless the address is a loopback one. `/healthz` needs none: a worker has no other port that a supervisor
 * could ask.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import { isIPv4 } from "node:net";
import { collectDefaultMetrics, Gauge, type MetricObjectWithValues, Registry } from "prom-client";
import type { PolicyInForce } from "../capacity/inforce.ts";
import { LEVELS } from "../capacity/policy.ts";
import { type Clock, DAY_MS } from "../clock.ts";
import { allFamilies, type Distribution, type Family } from "../meter.ts";
import { overdueRuns } from "../record/automations/runs.ts";
import type { Sql } from "../record/db/connect.ts";
import { openFigures } from "../record/mail/figures.ts";
import { webhookFigures } from "../record/outbox/webhooks.ts";
import { busiestCaps, capLevels, totalWaiting } from "../record/workspaces/caps.ts";

const WORKSPACES_SHOWN = 50;
const FRESH_MS = 1_000;
const OVERDUE_COUNTED_MAX = 10_000;
/** Processes of one `npm start` or `serve --processes` are asked for theirs. */
const ASKED_MS_MAX = 5_000;
const NAMES_BEGIN_WITH = "postrider_";
/** As of the api. */
const HEALTH_PATH = "/healthz";
const HEALTHY = JSON.stringify({ status: "ok" });

type MetricSample = { metricName?: string; labels: Record<string, string | number>; value: number };
/** As prom-client hands them out, and takes them to write text. */
type MetricFamily = MetricObjectWithValues<MetricSample>;

export type MetricsParts = {
  sql: Sql;
  policy: Pick<PolicyInForce, "version" | "refused">;
  clock: Clock;
  /** In bytes; a limit of zero is none. */
  redisMemory(): Promise<{ used: number; limit: number }>;
  host: string;
  port: number;
  /** null: no token is needed. */
  token: string | null;
  onFault(error: unknown): void;
};

export type MetricsServer = { port: number; stop(): Promise<void> };

export async function startMetrics(parts: MetricsParts): Promise<MetricsServer> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: NAMES_BEGIN_WITH });
  const refresh = gauges(registry, parts);
  return tellOn(parts, async () => {
    // a role is loaded when it starts, and its metrics with it
    for (const family of allFamilies())
      if (!registry.getSingleMetric(family.name)) registry.registerMetric(asMetric(family));
    await refresh();
    return (await registry.getMetricsAsJSON()) as MetricFamily[];
  });
}

/** Of several processes, each series under the name of its process. */
export function startCollecting(
  parts: Pick<MetricsParts, "host" | "port" | "token" | "onFault">,
  processes: () => { name: string; metricsUrl: string }[],
): Promise<MetricsServer> {
  return tellOn(parts, async () => {
    const told = await Promise.all(
      processes().map(async ({ name, metricsUrl }) => {
        try {
          return { name, families: await ask(`${metricsUrl}.json`, parts.token) };
        } catch {
          return { name, families: [] }; // it is being started again
        }
      }),
    );
    const all = new Map<string, MetricFamily>();
    for (const { name, families } of told)
      for (const family of families) {
        const values = family.values.map((one) => ({ ...one, labels: { ...one.labels, process: name } }));
        const known = all.get(family.name);
        if (known) known.values.push(...values);
        else all.set(family.name, { ...family, values });
      }
    return [...all.values()];
  });
}

async function ask(url: string, token: string | null): Promise<MetricFamily[]> {
  const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(url, { headers, signal: AbortSignal.timeout(ASKED_MS_MAX) });
  if (!response.ok) throw new Error(`${url} was answered ${response.status}`);
  return (await response.json()) as MetricFamily[];
}

type ScrapeAnswer = { json: string; text: string };

async function tellOn(
  { host, port, token, onFault }: Pick<MetricsParts, "host" | "port" | "token" | "onFault">,
  read: () => Promise<MetricFamily[]>,
): Promise<MetricsServer> {
  let freshUntil = 0;
  let told: Promise<ScrapeAnswer> | null = null;
  const tell = (): Promise<ScrapeAnswer> => {
    if (told === null || performance.now() >= freshUntil) {
      freshUntil = Number.POSITIVE_INFINITY; // those who ask meanwhile get the answer that is being made
      told = read().then(written);
      const settle = () => {
        freshUntil = performance.now() + FRESH_MS;
      };
      told.then(settle, settle);
    }
    return told;
  };
  const server = createServer((request, response) => {
    const answer = { "/metrics": "text", "/metrics.json": "json" }[request.url ?? ""] as
      | keyof ScrapeAnswer
      | undefined;
    if (request.url === HEALTH_PATH)
      response.writeHead(200, { "Content-Type": "application/json" }).end(HEALTHY);
    else if (token !== null && !isBearer(request.headers.authorization ?? "", token))
      response.writeHead(401, { "WWW-Authenticate": "Bearer" }).end();
    else if (answer === undefined) response.writeHead(404).end();
    else
      tell().then(
        (all) => send(response, answer, all[answer]),
        (error) => {
          onFault(error);
          response.writeHead(503).end();
        },
      );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address ? address.port : port,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function send(response: ServerResponse, kind: keyof ScrapeAnswer, text: string): void {
  const type = kind === "json" ? "application/json" : Registry.PROMETHEUS_CONTENT_TYPE;
  response.writeHead(200, { "Content-Type": type }).end(text);
}

async function written(families: MetricFamily[]): Promise<ScrapeAnswer> {
  const registry = new Registry();
  for (const family of families) registry.registerMetric({ ...family, get: async () => family } as never);
  return { json: JSON.stringify(families), text: await registry.metrics() };
}

/** Whether the address can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}

/** In constant time, so that timing does not reveal a partial match. */
function isBearer(authorization: string, token: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(authorization.replace(/^bearer +/i, "")), digest(token));
}

/** What prom-client asks of a metric, for a family that it does not count itself. */
function asMetric(family: Family): never {
  const { name, help, type } = family;
  const get = async () => ({ name, help, type, aggregator: "sum", values: valuesOf(family) });
  return { name, help, type, get } as never;
}

function valuesOf(family: Family): MetricSample[] {
  const named = (values: readonly string[]) =>
    Object.fromEntries(family.labels.map((label, n) => [label, values[n] ?? ""]));
  if (family.type !== "histogram")
    return [...family.read()].map(([labels, value]) => ({ labels: named(labels), value }));
  return [...family.read()].flatMap(([labels, one]) =>
    bucketsOf(family.name, family.bounds, named(labels), one),
  );
}

function bucketsOf(
  name: string,
  bounds: readonly number[],
  labels: Record<string, string>,
  { counts, sum }: Distribution,
): MetricSample[] {
  let total = 0;
  const buckets = [...bounds, "+Inf"].map((le, n) => {
    total += counts[n] as number;
    return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: total };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  ];
}

function gauges(registry: Registry, parts: MetricsParts): () => Promise<void> {
  const all = OF_RECORD.map(({ name, help, labels = [], read }) => ({
    gauge: new Gauge({ name: NAMES_BEGIN_WITH + name, help, labelNames: labels, registers: [registry] }),
    read,
  }));
  const isReadable = new Gauge({
    name: `${NAMES_BEGIN_WITH}stores_readable`,
    help: "1: the figures of all processes could be read from the stores",
    registers: [registry],
  });
  return async () => {
    for (const { gauge } of all) gauge.reset();
    try {
      const figures = await figuresOf(parts);
      for (const { gauge, read } of all)
        for (const [value, labels = {}] of seriesOf(read(figures))) gauge.set(labels, value);
      isReadable.set(1);
    } catch (error) {
      parts.onFault(error);
      isReadable.set(0);
    }
  };
}

type RecordFigures = Awaited<ReturnType<typeof figuresOf>>;

async function figuresOf({ sql, policy, clock, redisMemory }: MetricsParts) {
  const now = clock.now();
  const [caps, waiting, levels, runs, webhooks, open, redis] = await Promise.all([
    busiestCaps(sql, now, WORKSPACES_SHOWN),
    totalWaiting(sql),
    capLevels(sql, now - (now % DAY_MS)),
    overdueRuns(sql, new Date(now), OVERDUE_COUNTED_MAX),
    webhookFigures(sql),
    openFigures(sql),
    redisMemory(),
  ]);
  const secondsSince = (time: Date | null) => (time === null ? 0 : Math.max(0, now - time.getTime()) / 1_000);
  return { caps, waiting, levels, runs, webhooks, open, redis, policy, secondsSince };
}

type LabelledValue = [value: number, labels?: Record<string, string | number>];

type GaugeOfRecord = {
  name: string;
  help: string;
  labels?: readonly string[];
  read(figures: RecordFigures): number | LabelledValue[];
};

function seriesOf(read: number | LabelledValue[]): LabelledValue[] {
  return typeof read === "number" ? [[read]] : read;
}

const OF_RECORD: readonly GaugeOfRecord[] = [
  {
    name: "cap",
    help: "Recipients that a workspace may send to, by window",
    labels: ["workspace", "window"],
    read: ({ caps }) =>
      caps.flatMap(({ workspaceId: workspace, capDay, capHour }) => [
        [capDay, { workspace, window: "day" }],
        [capHour, { workspace, window: "hour" }],
      ]),
  },
  {
    name: "cap_used",
    help: "Recipients granted today",
    labels: ["workspace"],
    read: ({ caps }) => caps.map(({ workspaceId: workspace, used }) => [used, { workspace }]),
  },
  {
    name: "waiting",
    help: "E-mails that wait for a cap or the month",
    labels: ["workspace"],
    read: ({ caps }) => caps.map(({ workspaceId: workspace, waiting }) => [waiting, { workspace }]),
  },
  {
    name: "waiting_oldest_seconds",
    help: "How long the oldest of them has waited",
    labels: ["workspace"],
    read: ({ caps, secondsSince }) =>
      caps.map(({ workspaceId: workspace, oldest }) => [secondsSince(oldest), { workspace }]),
  },
  {
    name: "waiting_total",
    help: "E-mails that wait, of all workspaces",
    read: ({ waiting }) => waiting.waiting,
  },
  {
    name: "workspaces_waiting",
    help: "Workspaces with mail that waits",
    read: ({ waiting }) => waiting.workspaces,
  },
  {
    name: "waiting_total_oldest_seconds",
    help: "How long the oldest of them has waited",
    read: ({ waiting, secondsSince }) => secondsSince(waiting.oldest),
  },
  {
    name: "caps_level",
    help: "Workspaces by the level of their caps",
    labels: ["level"],
    read: ({ levels }) => everyLevel(levels, ({ workspaces }) => workspaces),
  },
  {
    name: "caps_changed_today",
    help: "Workspaces whose cap or level changed today, by level",
    labels: ["level"],
    read: ({ levels }) => everyLevel(levels, ({ changed }) => changed),
  },
  {
    name: "caps_policy_version",
    help: "The policy of caps in force; 0 is the built-in one",
    read: ({ policy }) => policy.version,
  },
  {
    name: "caps_policy_refused",
    help: "1 while a policy version or CAPS_POLICY is not in force",
    read: ({ policy }) => (policy.refused === null ? 0 : 1),
  },
  {
    name: "runs_overdue",
    help: `Runs whose time has come, counted up to ${OVERDUE_COUNTED_MAX}`,
    read: ({ runs }) => runs.count,
  },
  {
    name: "runs_overdue_seconds",
    help: "How long the first of them has been due",
    read: ({ runs, secondsSince }) => secondsSince(runs.since),
  },
  {
    name: "webhook_events_behind",
    help: "Events that enabled webhooks have not been sent yet",
    read: ({ webhooks }) => webhooks.behind,
  },
  {
    name: "webhooks_failing",
    help: "Enabled webhooks that take no events now",
    read: ({ webhooks }) => webhooks.failing,
  },
  {
    name: "webhooks_disabled",
    help: "Webhooks that were disabled because they took none",
    read: ({ webhooks }) => webhooks.disabled,
  },
  {
    name: "queue_bags",
    help: "Bags that are not finished, by shard, counted up to 100000",
    labels: ["shard"],
    read: ({ open }) => open.bags.map(({ shard, count }) => [count, { shard }]),
  },
  {
    name: "queue_oldest_seconds",
    help: "How long ago the oldest of them was made",
    labels: ["shard"],
    read: ({ open, secondsSince }) => open.bags.map(({ shard, oldest }) => [secondsSince(oldest), { shard }]),
  },
  {
    name: "emails_due",
    help: "E-mails that wait outside of bags, counted up to 100000",
    labels: ["why"],
    read: ({ open }) => open.due.map(({ why, count }) => [count, { why }]),
  },
  {
    name: "suspensions",
    help: "Destinations that are suspended or slowed down",
    labels: ["kind"],
    read: ({ open }) => open.holds.map(({ kind, count }) => [count, { kind }]),
  },
  {
    name: "redis_memory_bytes",
    help: "Memory that Redis uses",
    read: ({ redis }) => redis.used,
  },
  {
    name: "redis_memory_limit_bytes",
    help: "The most that it may use; 0: no limit",
    read: ({ redis }) => redis.limit,
  },
];

/** Levels at which there is nobody, too. */
function everyLevel(
  found: RecordFigures["levels"],
  read: (one: RecordFigures["levels"][number]) => number,
): LabelledValue[] {
  return LEVELS.map((level) => {
    const one = found.find((other) => other.level === level);
    return [one ? read(one) : 0, { level }];
  });
}
