/**
 * One process with some roles: opens the connections, builds the parts and passes them down, and stops them
 * when their work is finished or its time is over.
 */
import type { Logger } from "pino";
import { BodyBudget } from "../api/bodybudget.ts";
import type { CellFinder } from "../api/cells.ts";
import type { Server } from "../api/server.ts";
import { PolicyInForce } from "../capacity/inforce.ts";
import { atMost, type Clock } from "../clock.ts";
import { type Config, ConfigError } from "../config.ts";
import { isListening } from "../embedded/port.ts";
import type { Sql } from "../record/db/connect.ts";
import { Looks } from "../record/db/looks.ts";
import { migrate } from "../record/db/migrate.ts";
import { OverloadState } from "../record/mail/overload.ts";
import { QueueShards } from "../record/mail/queueshards.ts";
import { ROLES, type Role } from "../rules/roles.ts";
import { openTraces } from "../trace.ts";
import { RecordCells } from "./cellfinder.ts";
import { type Cell, cellsOf } from "./cells.ts";
import { faultLog } from "./faultlog.ts";
import { tellShortage } from "./lifelog.ts";
import { isLoopback, type MetricsServer, startMetrics } from "./metrics.ts";
import { type BeginRoles, OtherCell, type Stops } from "./othercell.ts";
import type { AllCells, FleetCell, JoinCell } from "./roles/allcells.ts";
import type { RoleParts } from "./roles/parts.ts";
import { expectSmarthost } from "./roles/smarthost.ts";
import { expectSecret } from "./secret.ts";
import { Stores } from "./stores.ts";

/**
 * Whatever the stores do: supervisors kill a process after 5 s. Only a worker takes longer, with deliveries
 * that are not written yet.
 */
const STOP_MS_MAX = 3_500;
/** Roles that check API keys, sign links, return paths or webhooks, or decrypt keys. */
const SIGNING: readonly Role[] = [
  "api",
  "deliver",
  "automate",
  "inbound",
  "submission",
  "webhooks",
  "console",
];
/** Roles that fill templates. */
const RENDERING: readonly Role[] = ["api", "automate", "submission", "console"];
/** Roles that process reports: those sent to the API arrive without a listener, too. */
const REPORTING: readonly Role[] = ["inbound", "keeper"];

export type Serving = Ports & { stop(): Promise<void> };

type Ports = {
  /** Of the api. */
  port: number | null;
  /** Where reports are taken. */
  inboundPort: number | null;
  /** Where mail is taken over SMTP: with STARTTLS, and with TLS from the first byte. */
  submissionPort: number | null;
  submissionTlsPort: number | null;
  /** Where metrics are told. */
  metricsPort: number | null;
  consolePort: number | null;
};

const NO_PORTS: Ports = {
  port: null,
  inboundPort: null,
  submissionPort: null,
  submissionTlsPort: null,
  metricsPort: null,
  consolePort: null,
};

/** null: the settings name nothing that it could do. */
type RunningRole = (Partial<Ports> & { stop(): Promise<void>; join?: JoinCell }) | null;
type RoleTies = { front: Front; onReport(cell: number): void };
type Starter<Parts> = (parts: Parts, around: RoleTies) => Promise<RunningRole>;

/**
 * Each is loaded when it is needed: all of them together take twice the memory of one, and a second of CPU.
 */
const LOADS = {
  api: () => import("./roles/api.ts"),
  deliver: () => import("./roles/deliver.ts"),
  automate: () => import("./roles/automate.ts"),
  inbound: () => import("./roles/inbound.ts"),
  submission: () => import("./roles/submission.ts"),
  webhooks: () => import("./roles/webhooks.ts"),
  console: () => import("./roles/console.ts"),
  keeper: () => import("./roles/keeper.ts"),
} satisfies Record<Role, () => Promise<unknown>>;

/** These work on what is in a record: they run once for each cell. */
const WORKERS: Partial<Record<Role, Starter<RoleParts>>> = {
  deliver: async (parts) => (await LOADS.deliver()).startDeliverRole(parts),
  automate: async (parts) => (await LOADS.automate()).startAutomateRole(parts),
  webhooks: async (parts) => (await LOADS.webhooks()).startWebhooksRole(parts),
  keeper: async (parts) => (await LOADS.keeper()).startKeeperRole(parts),
};

/** These listen, once for the fleet. */
const LISTENERS: Partial<Record<Role, Starter<AllCells>>> = {
  api: async (fleet, { front }) => (await LOADS.api()).startApiRole(fleet, await front.taken()),
  inbound: async (fleet, { onReport }) => (await LOADS.inbound()).startInboundRole(fleet, onReport),
  submission: async (fleet) => (await LOADS.submission()).startSubmissionRole(fleet),
  console: async ({ home }) => (await LOADS.console()).startConsoleRole(home),
};

/** Beforehand, for who wants to know when that is done; else each is loaded when it is started. */
export async function loadRoles(roles: readonly Role[]): Promise<void> {
  for (const role of roles) await LOADS[role]();
}

/** Is told what it waits for, and when its roles begin: from then on it has work under way. */
export type StartListener = { onProgress?(line: string): void; onWork?(): void };

export async function serve(
  config: Config,
  roles: readonly Role[],
  log: Logger,
  otherClock: Clock | null = null,
  { onProgress, onWork }: StartListener = {},
): Promise<Serving> {
  const { secret } = required(config, roles);
  const cells = cellsOf(config) ?? [{ name: null, config }];
  expectMetricsToken(config);
  if (roles.includes("deliver")) expectSmarthost(config);
  expectPublicNames(config, roles);
  const budget = new BodyBudget(config.bodyBytesInFlightMax);
  const onWaiting = (line: string) => {
    onProgress?.(line);
    if (roles.includes("api")) front.open();
  };
  const [homeCell, ...otherCells] = cells as [ServedCell, ...Cell[]];
  const homeStores = storesOf(homeCell, log, onWaiting);
  const front = new Front(config, budget, () => homeStores.missing);
  const ties = { homeStores, secret, budget, log, otherClock };
  const others = otherCells.map((cell) => otherCell(cell, ties));
  const stops: Stops = others.map((other) => () => other.stop());
  const close = () => Promise.all([homeStores, ...others].map((one) => one.close()));
  try {
    if (config.traces) await openTracing(log);
    const home = await openCell(homeCell, { ...ties, stores: homeStores }, stops);
    await Promise.all(others.map((other) => other.open()));
    const fleet = fleetOf(home, others);
    const metrics = await tellMetrics(home);
    if (metrics) stops.push(metrics.stop);
    onWork?.();
    const { begins, ...taken } = await startRoles(roles, fleet, front, stops);
    for (const [n, other] of others.entries()) other.joinWith(begins(n + 1));
    if (roles.some((role) => RENDERING.includes(role))) (await import("../template/warmup.ts")).warmUp();
    return {
      ...NO_PORTS,
      ...taken,
      metricsPort: metrics?.port ?? null,
      async stop() {
        await Promise.all(stops.map((stop) => stop()));
        await close();
      },
    };
  } catch (error) {
    for (const stop of stops) await stop();
    await front.close();
    await close();
    throw error;
  }
}

/** The name is null where there is one database and no cells. */
type ServedCell = { name: string | null; config: Config };

function storesOf({ name, config }: ServedCell, log: Logger, onWaiting: (line: string) => void): Stores {
  const { databaseUrl, readDatabaseUrl, redisUrl, storeTimeoutMs: timeoutMs } = config;
  if (databaseUrl === null || redisUrl === null) throw new Error("a cell without stores");
  const told = name === null ? onWaiting : (line: string) => onWaiting(`Cell ${name}: ${line}`);
  return new Stores({
    databaseUrl,
    readDatabaseUrl,
    redisUrl,
    timeoutMs,
    log: logOf(name, log),
    onWaiting: told,
  });
}

function logOf(cell: string | null, log: Logger): Logger {
  return cell === null ? log : log.child({ cell });
}

type CellTies = Pick<RoleParts, "stores" | "homeStores" | "budget" | "log"> & {
  secret: string;
  otherClock: Clock | null;
};

/** Waits for its stores, brings its schema up to date, and begins to read what it follows. */
async function openCell(
  { name, config }: ServedCell,
  { stores, homeStores, secret, budget, log: allLog, otherClock }: CellTies,
  stops: Stops,
): Promise<RoleParts> {
  const log = logOf(name, allLog);
  const recordClock = await stores.ready();
  const clock = otherClock ?? recordClock;
  const setup = stores.sql("setup");
  await stores.persevere(() =>
    migrate(setup, clock.now(), {
      applied: (migration) => log.info({ migration }, "migration applied"),
      waits: (migration) => log.warn({ migration }, "a migration waits: a table that it changes is in use"),
    }),
  );
  if (secret !== "") await stores.persevere(() => expectSecret(setup, secret));
  const onFault = faultLog(log);
  const hints = stores.sql("hints");
  const looks = new Looks({
    sql: hints,
    given: () => clock.given(),
    onTime: ({ ms, askedAt, answeredAt }) =>
      recordClock.heard({ time: ms, asked: askedAt, answered: answeredAt }),
    onFault: (error) => log.warn({ err: error }, "Postgres could not be asked whether there is work"),
  });
  stops.push(async () => looks.stop());
  const shards = new QueueShards(hints);
  stops.push(async () => shards.stop());
  await stores.persevere(() => shards.look());
  shards.keepLooking(looks);
  const policy = await openPolicy(config, setup, clock, log);
  stops.push(async () => policy.stop());
  policy.keepLooking(looks);
  let known: OverloadState | null = null;
  const overload = () => {
    known ??= new OverloadState(looks, tellShortage(log));
    return known;
  };
  const ties = { stores, homeStores, budget, log, looks, overload };
  return { cell: name, config, serverSecret: secret, ...ties, shards, policy, clock, onFault };
}

function otherCell(cell: Cell, ties: Omit<CellTies, "stores">): OtherCell {
  const log = logOf(cell.name, ties.log);
  return new OtherCell({
    name: cell.name,
    log,
    connect: () => storesOf(cell, ties.log, () => {}),
    open: (stores, stops) => openCell(cell, { ...ties, stores }, stops),
  });
}

function fleetOf(home: RoleParts, others: readonly OtherCell[]): AllCells {
  const cells = [{ name: home.cell, parts: home, check: () => home.stores.check() }, ...others];
  return { home, cells, finder: others.length === 0 ? ONLY_HOME : new RecordCells(cells.map(lookupsOf)) };
}

function lookupsOf(cell: FleetCell): () => Sql | null {
  let sql: Sql | null = null;
  return () => {
    sql ??= cell.parts?.stores.sql("lists") ?? null;
    return sql;
  };
}

const ONLY_HOME: CellFinder = { ofHandle: async () => 0, ofWorkspace: async () => 0, forget() {} };

/**
 * `stops` gets how each is ended, also of those that began before one failed. `begins`: how they begin for a
 * cell that answers later.
 */
async function startRoles(
  roles: readonly Role[],
  fleet: AllCells,
  front: Front,
  stops: Stops,
): Promise<Partial<Ports> & { begins(n: number): BeginRoles }> {
  const reports = new ReportWorkers(roles, fleet.home);
  const own = ROLES.filter((role) => roles.includes(role));
  const opened = fleet.cells.flatMap(({ parts }, n) => (parts === null ? [] : [{ parts, n }]));
  for (const { parts, n } of opened) await reports.begin(parts, n, stops);
  const ties: RoleTies = { front, onReport: (cell) => reports.wake(cell) };
  const ports: Partial<Ports> = {};
  const joins: JoinCell[] = [];
  for (const role of own) {
    for (const { parts } of opened) await startWorker(role, parts, ties, stops);
    const running = await LISTENERS[role]?.(fleet, ties);
    if (!running) continue;
    const { stop, join, ...taken } = running;
    stops.push(() => atMost(STOP_MS_MAX, stop()));
    if (join) joins.push(join);
    Object.assign(ports, taken);
  }
  const begins =
    (n: number): BeginRoles =>
    async (parts, stops, closes) => {
      await reports.begin(parts, n, stops);
      for (const role of own) await startWorker(role, parts, ties, stops);
      for (const join of joins) {
        const { stop } = await join(parts, n);
        closes.push(stop);
      }
    };
  return { ...ports, begins };
}

async function startWorker(role: Role, parts: RoleParts, ties: RoleTies, stops: Stops): Promise<void> {
  const running = await WORKERS[role]?.(parts, ties);
  if (!running) return;
  const { stop } = running;
  stops.push(role === "deliver" ? stop : () => atMost(STOP_MS_MAX, stop()));
}

/** One for each cell, by its number. */
class ReportWorkers {
  readonly #isNeeded: boolean;
  readonly #wakes: (() => void)[] = [];

  constructor(roles: readonly Role[], { serverSecret }: RoleParts) {
    this.#isNeeded = serverSecret !== "" && roles.some((role) => REPORTING.includes(role));
  }

  async begin(cell: RoleParts, n: number, stops: Stops): Promise<void> {
    if (!this.#isNeeded) return;
    const { startReportWorker } = await import("./roles/reports.ts");
    const { wake, stop } = startReportWorker(cell);
    stops.push(stop);
    this.#wakes[n] = wake;
  }

  wake(n: number): void {
    this.#wakes[n]?.();
  }
}

/**
 * The API's server while the stores are away: it says that the process lives, and what it waits for. On a
 * shared port it would take callers from those that serve already.
 */
class Front {
  readonly #open: () => Promise<Server | null>;
  #server: Promise<Server | null> | null = null;

  constructor(config: Config, budget: BodyBudget, missing: () => Record<string, string>) {
    const { host, port, sharedPort: sharesPort } = config;
    this.#open = async () => {
      if (sharesPort && (await isListening(port, host))) return null;
      const { startServer } = await import("../api/server.ts");
      return startServer({ host, port, sharesPort, budget, missing });
    };
  }

  open(): void {
    if (this.#server !== null) return;
    this.#server = this.#open();
    this.#server.catch(() => {}); // whoever takes it over hears of it
  }

  /** For who serves from now on; null: it was not needed. */
  taken(): Promise<Server | null> | null {
    const server = this.#server;
    this.#server = null;
    return server;
  }

  async close(): Promise<void> {
    const server = await this.taken()?.catch(() => null);
    await server?.stop();
  }
}

/** Mail goes on without them. */
async function openTracing(log: Logger): Promise<void> {
  if (await openTraces()) return;
  log.warn(
    "TRACES is set, but nothing is traced: no OpenTelemetry SDK is loaded. Load one with NODE_OPTIONS=--import, see docs/operating.md#traces.",
  );
}

/** Mail goes on without them: a port that is taken is said, and no reason to end. */
async function tellMetrics({
  config: { host, metricsPort: port, metricsToken: token },
  stores,
  policy,
  clock,
  log,
  onFault,
}: RoleParts): Promise<MetricsServer | null> {
  if (port === null) return null;
  const redisMemory = () => stores.redisMemory();
  try {
    const sql = stores.sql("hints");
    return await startMetrics({ sql, policy, redisMemory, clock, host, port, token, onFault });
  } catch (error) {
    log.warn({ err: error, port }, "this process serves no metrics: the port cannot be used");
    return null;
  }
}

async function openPolicy(
  { capsPolicy: path }: Config,
  sql: Sql,
  clock: Clock,
  log: Logger,
): Promise<PolicyInForce> {
  const policy = new PolicyInForce({
    sql,
    clock,
    path,
    onRefused: (words) => log.error(words),
    onFault: (error) => log.warn({ err: error }, "the policy of sending caps could not be read"),
  });
  await policy.open();
  return policy;
}

/** Roles that write links or mails of their own. */
const NAMING: readonly Role[] = ["api", "automate", "webhooks", "console"];

/**
 * Who listens to others than this machine writes to people: with links that lead back, from an address that
 * is somebody's.
 */
function expectPublicNames({ host, publicUrl, mailFrom }: Config, roles: readonly Role[]): void {
  if (isLoopback(host) || !roles.some((role) => NAMING.includes(role))) return;
  const missing = [publicUrl === null && "PUBLIC_URL", mailFrom === null && "MAIL_FROM"].filter(Boolean);
  if (missing.length > 0)
    throw new ConfigError(
      `${missing.join(" and ")} must be set, since HOST is ${host}: links in mail lead to PUBLIC_URL, and confirmations and ` +
        "notices come from MAIL_FROM.",
    );
}

function expectMetricsToken({ host, metricsPort, metricsToken }: Config): void {
  if (metricsPort !== null && metricsToken === null && !isLoopback(host))
    throw new ConfigError(
      `METRICS_TOKEN is not set, and metrics would be open to everyone who reaches ${host}. Set it to a secret of at least ` +
        "16 characters that Prometheus sends as a bearer token, or unset METRICS_PORT.",
    );
}

function required(config: Config, roles: readonly Role[]) {
  const { databaseUrl, redisUrl, secret } = config;
  const missing = [
    databaseUrl === null && "DATABASE_URL",
    redisUrl === null && "REDIS_URL",
    secret === null && roles.some((role) => SIGNING.includes(role)) && "POSTRIDER_SECRET",
  ].filter(Boolean);
  if (databaseUrl === null || redisUrl === null || missing.length > 0)
    throw new ConfigError(
      `${missing.join(" and ")} must be set. For development, \`npm start\` brings its own Postgres and Redis.`,
    );
  return { secret: secret ?? "" };
}
