/**
 * One process with some roles: opens the connections, builds the parts and passes them down, and stops them when their
 * work is finished or its time is over.
 */
import type { Logger } from "pino";
import { BodyBudget } from "../api/bodybudget.ts";
import type { Server } from "../api/server.ts";
import { PolicyInForce } from "../capacity/inforce.ts";
import { atMost, type Clock } from "../clock.ts";
import { type Config, ConfigError } from "../config.ts";
import { secretDigest } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { migrate } from "../record/db/migrate.ts";
import { QueueShards } from "../record/mail/queueshards.ts";
import { keepSecretDigest } from "../record/workspaces/secretcheck.ts";
import { ROLES, type Role } from "../rules/roles.ts";
import { isLoopback, type MetricsServer, startMetrics } from "./metrics.ts";
import type { RoleParts } from "./roles/parts.ts";
import { expectSmarthost } from "./roles/smarthost.ts";
import { Stores } from "./stores.ts";

/**
 * Whatever the stores do: supervisors kill a process after 5 s. Only a worker takes longer, with deliveries that are not
 * written yet.
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
type RunningRole = (Partial<Ports> & { stop(): Promise<void> }) | null;
type RoleTies = { front: Front; onReport(): void };

/** Each is loaded when it is needed: all of them together take twice the memory of one, and a second of CPU. */
const STARTERS: Record<Role, (parts: RoleParts, around: RoleTies) => Promise<RunningRole>> = {
  api: async (parts, { front }) => (await import("./roles/api.ts")).startApiRole(parts, await front.taken()),
  deliver: async (parts) => (await import("./roles/deliver.ts")).startDeliverRole(parts),
  automate: async (parts) => (await import("./roles/automate.ts")).startAutomateRole(parts),
  webhooks: async (parts) => (await import("./roles/webhooks.ts")).startWebhooksRole(parts),
  keeper: async (parts) => (await import("./roles/keeper.ts")).startKeeperRole(parts),
  inbound: async (parts, { onReport }) =>
    (await import("./roles/inbound.ts")).startInboundRole(parts, onReport),
  submission: async (parts) => (await import("./roles/submission.ts")).startSubmissionRole(parts),
  console: async (parts) => (await import("./roles/console.ts")).startConsoleRole(parts),
};

export async function serve(
  config: Config,
  roles: readonly Role[],
  log: Logger,
  otherClock: Clock | null = null,
  onProgress: (line: string) => void = () => {},
): Promise<Serving> {
  const { databaseUrl, redisUrl, secret } = required(config, roles);
  const { readDatabaseUrl } = config;
  expectMetricsToken(config);
  if (roles.includes("deliver")) expectSmarthost(config);
  expectPublicNames(config, roles);
  const budget = new BodyBudget(config.bodyBytesInFlightMax);
  const front = new Front(config, budget, () => stores.missing);
  const onWaiting = (line: string) => {
    onProgress(line);
    // on a port of its own it says what it waits for; on a shared one the others serve
    if (roles.includes("api") && !config.sharedPort) front.open();
  };
  const timeoutMs = config.storeTimeoutMs;
  const stores = new Stores({ databaseUrl, readDatabaseUrl, redisUrl, timeoutMs, log, onWaiting });
  const stops: (() => Promise<void>)[] = [];
  try {
    const recordClock = await stores.ready();
    const clock = otherClock ?? recordClock;
    const setup = stores.sql("setup");
    await stores.persevere(() =>
      migrate(setup, clock.now(), (name) => log.info({ migration: name }, "migration applied")),
    );
    if (secret !== "") await stores.persevere(() => expectSecret(setup, secret));
    const onFault = (error: unknown) => log.error({ err: error }, "internal error");
    const shards = new QueueShards(stores.sql("hints"), (error) =>
      log.warn({ err: error }, "the number of shards could not be read"),
    );
    stops.push(async () => shards.stop());
    await stores.persevere(() => shards.look());
    const policy = await openPolicy(config, setup, clock, log);
    stops.push(async () => policy.stop());
    const metrics = await tellMetrics(config, stores, policy, clock, log, onFault);
    if (metrics) stops.push(metrics.stop);
    const parts = { config, serverSecret: secret, stores, shards, policy, clock, budget, log, onFault };
    const taken = await startRoles(roles, parts, front, stops);
    if (roles.some((role) => RENDERING.includes(role))) (await import("../template/warmup.ts")).warmUp();
    return {
      ...NO_PORTS,
      ...taken,
      metricsPort: metrics?.port ?? null,
      async stop() {
        await Promise.all(stops.map((stop) => stop()));
        await stores.close();
      },
    };
  } catch (error) {
    for (const stop of stops) await stop();
    await front.close();
    await stores.close();
    throw error;
  }
}

/** `stops` gets how each is ended, also of those that began before one failed. */
async function startRoles(
  roles: readonly Role[],
  parts: RoleParts,
  front: Front,
  stops: (() => Promise<void>)[],
): Promise<Partial<Ports>> {
  const needsReports = roles.some((role) => REPORTING.includes(role)) && parts.serverSecret !== "";
  const reports = needsReports ? (await import("./roles/reports.ts")).startReportWorker(parts) : null;
  if (reports) stops.push(reports.stop);
  const ports: Partial<Ports> = {};
  for (const role of ROLES.filter((one) => roles.includes(one))) {
    const running = await STARTERS[role](parts, { front, onReport: () => reports?.wake() });
    if (!running) continue;
    const { stop, ...taken } = running;
    stops.push(role === "deliver" ? stop : () => atMost(STOP_MS_MAX, stop()));
    Object.assign(ports, taken);
  }
  return ports;
}

/** The API's server while the stores are away: it says that the process lives, and what it waits for. */
class Front {
  readonly #open: () => Promise<Server>;
  #server: Promise<Server> | null = null;

  constructor({ host, port }: Config, budget: BodyBudget, missing: () => Record<string, string>) {
    this.#open = async () => {
      const { startServer } = await import("../api/server.ts");
      return startServer({ host, port, sharesPort: false, budget, missing });
    };
  }

  open(): void {
    if (this.#server !== null) return;
    this.#server = this.#open();
    this.#server.catch(() => {}); // whoever takes it over hears of it
  }

  /** For who serves from now on; null: it was not needed. */
  taken(): Promise<Server> | null {
    const server = this.#server;
    this.#server = null;
    return server;
  }

  async close(): Promise<void> {
    const server = await this.taken()?.catch(() => null);
    await server?.stop();
  }
}

/** Mail goes on without them: a port that is taken is said, and no reason to end. */
async function tellMetrics(
  { host, metricsPort: port, metricsToken: token }: Config,
  stores: Stores,
  policy: PolicyInForce,
  clock: Clock,
  log: Logger,
  onFault: (error: unknown) => void,
): Promise<MetricsServer | null> {
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

/** With another secret no key would be known, no link hold and no signing key open. */
async function expectSecret(sql: Sql, secret: string): Promise<void> {
  if (!(await keepSecretDigest(sql, secretDigest(secret))))
    throw new ConfigError(
      "POSTRIDER_SECRET is not the secret that this database belongs to. Set the one that its keys were made with.",
    );
}

/** Roles that write links or mails of their own. */
const NAMING: readonly Role[] = ["api", "automate", "webhooks", "console"];

/** Who listens to others than this machine writes to people: with links that lead back, from an address that is somebody's. */
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
  return { databaseUrl, redisUrl, secret: secret ?? "" };
}
