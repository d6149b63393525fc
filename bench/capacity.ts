/**
 * From what an e-mail costs to processes, shards, cells and machines, and to what breaks first on the way
 * there. Costs are those of the scenario `costs`; how large a machine is, and how busy it may be, is assumed.
 */
import type { Results } from "./results.ts";

const DAY_SECONDS = 86_400;

/** Of one e-mail. CPU in seconds. */
export type Costs = {
  api: number;
  deliver: number;
  keeper: number;
  postgres: number;
  redis: number;
  walBytes: number;
  tableBytes: number;
};

export type Assumptions = {
  /** The busiest hour against the mean one. */
  peak: number;
  cores: number;
  /** How busy a core may be in that hour. */
  busy: number;
  diskBytes: number;
  /** Written by Postgres in each second of that hour. */
  walBytesPerSecond: number;
  retentionDays: number;
};

export const ASSUMED: Assumptions = {
  peak: 3,
  cores: 16,
  busy: 0.6,
  diskBytes: 4e12,
  walBytesPerSecond: 100e6,
  retentionDays: 30,
};
/** The rest is for what vacuum has not freed, indexes that grow, and an operator who is asleep. */
const DISK_FILLED_MAX = 0.7;

/** How many e-mails a day one of each can take, by what limits it. */
export type Limits = { unit: string; what: string; perDay: number }[];

export function limitsOf(costs: Costs, assumed: Assumptions): Limits {
  const { peak, cores, busy, diskBytes, walBytesPerSecond, retentionDays } = assumed;
  const atPeak = (perSecond: number) => (perSecond * DAY_SECONDS) / peak;
  return [
    { unit: "api", what: "the core of an api process", perDay: atPeak(busy / costs.api) },
    { unit: "worker", what: "the core of a worker", perDay: atPeak(busy / costs.deliver) },
    { unit: "shard", what: "the core of a Redis", perDay: atPeak(busy / costs.redis) },
    { unit: "cell", what: "the cores of a Postgres", perDay: atPeak((cores * busy) / costs.postgres) },
    { unit: "cell", what: "the WAL of a Postgres", perDay: atPeak(walBytesPerSecond / costs.walBytes) },
    {
      unit: "cell",
      what: "the disk of a Postgres",
      perDay: (diskBytes * DISK_FILLED_MAX) / (costs.tableBytes * retentionDays),
    },
  ];
}

export type Plan = {
  perDay: number;
  peakPerSecond: number;
  units: Record<string, number>;
  cores: number;
  machines: number;
  diskBytes: number;
  walBytesPerSecond: number;
  /** With one of each, the limit that this volume passes first; null: none. */
  breaks: string | null;
};

export function planFor(perDay: number, costs: Costs, assumed: Assumptions): Plan {
  const limits = limitsOf(costs, assumed);
  const units: Record<string, number> = {};
  for (const { unit, perDay: limit } of limits)
    units[unit] = Math.max(units[unit] ?? 1, Math.ceil(perDay / limit));
  const passed = limits.filter((limit) => limit.perDay < perDay).sort((a, b) => a.perDay - b.perDay);
  const peakPerSecond = (perDay / DAY_SECONDS) * assumed.peak;
  const cores = (peakPerSecond * cpuOf(costs)) / assumed.busy;
  // a Postgres has a machine of its own as soon as there are two
  const cells = units.cell as number;
  const ofRoles = (peakPerSecond * (cpuOf(costs) - costs.postgres)) / assumed.busy;
  const machines =
    cells === 1 ? Math.ceil(cores / assumed.cores) : cells + Math.ceil(ofRoles / assumed.cores);
  return {
    ...{ perDay, peakPerSecond, units, cores, machines },
    diskBytes: perDay * assumed.retentionDays * costs.tableBytes,
    walBytesPerSecond: peakPerSecond * costs.walBytes,
    breaks: passed[0]?.what ?? null,
  };
}

/** How many e-mails a second so many of each unit send, when all of these cores are theirs and busy. */
export function rateOf(units: Record<string, number>, costs: Costs, cores: number): number {
  const limits = limitsOf(costs, { ...UNBOUNDED, cores });
  const ofUnits = limits.map(({ unit, perDay }) => ((units[unit] ?? 1) * perDay) / DAY_SECONDS);
  return Math.min(cores / cpuOf(costs), ...ofUnits);
}

/** A machine that is wholly busy, with a disk that is never the limit: that of a run of the bench. */
const UNBOUNDED: Omit<Assumptions, "cores"> = {
  ...{ peak: 1, busy: 1, retentionDays: 1 },
  ...{ diskBytes: Number.POSITIVE_INFINITY, walBytesPerSecond: Number.POSITIVE_INFINITY },
};

function cpuOf(costs: Costs): number {
  return ROLES.reduce((sum, role) => sum + costs[role], 0);
}

const ROLES = ["api", "deliver", "keeper", "postgres", "redis"] as const;

/** A run of the bench, and what each of its e-mails has cost. */
export type MeasuredRun = { perSecond: number; costs: Costs };
export type Compared = { name: string; unit: string; predicted: number; measured: number };

/**
 * What the plan says of a run with these units, from what another run has cost, beside what that run has
 * taken. Its rate is the one that as many cores would bring as were busy in the other.
 */
export function compareWithPlan(
  { perSecond, costs }: MeasuredRun,
  units: Record<string, number>,
  run: MeasuredRun,
): Compared[] {
  const cores = perSecond * cpuOf(costs);
  const plan = planFor(run.perSecond * DAY_SECONDS, costs, { ...UNBOUNDED, cores });
  const ofRoles = ROLES.map((role) => ({
    ...{ name: `cores of ${role}`, unit: "", predicted: run.perSecond * costs[role] },
    measured: run.perSecond * run.costs[role],
  }));
  return [
    {
      ...{ name: "e-mails", unit: "/s", predicted: rateOf(units, costs, cores) },
      measured: run.perSecond,
    },
    { name: "cores", unit: "", predicted: plan.cores, measured: run.perSecond * cpuOf(run.costs) },
    ...ofRoles,
    {
      ...{ name: "WAL", unit: "bytes/s", predicted: plan.walBytesPerSecond },
      measured: run.perSecond * run.costs.walBytes,
    },
    {
      ...{ name: "tables", unit: "bytes/s", predicted: plan.diskBytes / DAY_SECONDS },
      measured: run.perSecond * run.costs.tableBytes,
    },
  ];
}

export function costsOf(results: Results): Costs {
  const of = (name: string): number => {
    const row = results.rows.find((one) => one.scenario === "costs" && one.name === name);
    if (!row) throw new Error(`There is no figure "${name}" of the scenario costs in this report.`);
    return row.median;
  };
  const cpu = (name: string) => of(`of which ${name}`) / 1_000;
  return {
    ...{ api: cpu("api"), deliver: cpu("deliver"), keeper: cpu("keeper") },
    ...{ postgres: cpu("postgres"), redis: cpu("redis") },
    ...{ walBytes: of("WAL of an e-mail"), tableBytes: of("tables of an e-mail") },
  };
}

export function planText(costs: Costs, assumed: Assumptions, volumes: readonly number[]): string {
  const plans = volumes.map((perDay) => planFor(perDay, costs, assumed));
  const rows: [string, (plan: Plan) => string][] = [
    ["e-mails a day", ({ perDay }) => shown(perDay)],
    ["in a second of the busiest hour", ({ peakPerSecond }) => shown(peakPerSecond)],
    ["api processes", ({ units }) => shown(units.api)],
    ["workers", ({ units }) => shown(units.worker)],
    ["shards of the queue (Redis)", ({ units }) => shown(units.shard)],
    ["cells (Postgres)", ({ units }) => shown(units.cell)],
    ["cores", ({ cores }) => shown(Math.ceil(cores))],
    ["machines", ({ machines }) => shown(machines)],
    ["disk, TB", ({ diskBytes }) => (diskBytes / 1e12).toFixed(1)],
    ["WAL, MB/s", ({ walBytesPerSecond }) => shown(walBytesPerSecond / 1e6)],
    ["breaks first with one of each", ({ breaks }) => breaks ?? "nothing"],
  ];
  const { cores, busy, peak, diskBytes, walBytesPerSecond, retentionDays } = assumed;
  return [
    `Machines with ${cores} cores that are at most ${busy * 100}% busy, ${diskBytes / 1e12} TB of disk and ` +
      `${walBytesPerSecond / 1e6} MB/s of WAL; ${retentionDays} days of e-mails; a peak of ${peak} times the mean.`,
    "",
    ...rows.map(([name, cell]) => `| ${[name, ...plans.map(cell)].join(" | ")} |`).flatMap(underFirst),
    "",
    "One of each takes, in e-mails a day:",
    "",
    ...[...limitsOf(costs, assumed)]
      .sort((a, b) => a.perDay - b.perDay)
      .map(({ what, perDay }) => `- ${what}: ${shown(perDay)}`),
    "",
  ].join("\n");
}

/** A table of Markdown has a line under its head. */
function underFirst(line: string, n: number): string[] {
  return n === 0 ? [line, line.replace(/[^|]+/g, "---")] : [line];
}

function shown(value: number | undefined): string {
  return Math.round(value ?? 0).toLocaleString("en-US");
}
