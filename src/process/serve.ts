/**
 * One process with some roles: opens the connections, builds the parts and passes them down, and stops them when their
 * work is finished or its time is over.
 */
import { randomUUID } from "node:crypto";
import { Resolver } from "node:dns/promises";
import { hostname } from "node:os";
import type { Logger } from "pino";
import { parseMailbox } from "../address.ts";
import { keyReader } from "../admission/bearer.ts";
import { Keyring } from "../admission/keyring.ts";
import { Reservations } from "../admission/reserve.ts";
import { startApi } from "../api/api.ts";
import { BodyBudget } from "../api/bodybudget.ts";
import { openConsoleDoor } from "../api/consoledoor.ts";
import { openMailDoor } from "../api/maildoor.ts";
import { type Server, startServer } from "../api/server.ts";
import { defaultSender } from "../audience/confirm.ts";
import { addressHasher, Links } from "../audience/links.ts";
import { applyOrSay } from "../automation/apply.ts";
import { Worker } from "../automation/work.ts";
import { heardWith } from "../capacity/heard.ts";
import { PolicyInForce } from "../capacity/inforce.ts";
import { atMost, type Clock } from "../clock.ts";
import { type Config, ConfigError, homeFolder } from "../config.ts";
import { startConsole } from "../console/console.ts";
import type { Courier } from "../delivery/courier.ts";
import { Deliverer } from "../delivery/deliver.ts";
import { directCourier } from "../delivery/direct.ts";
import { Figures, readFigures, sendingNow } from "../delivery/figures.ts";
import { Leases } from "../delivery/leases.ts";
import { type ReceiverParts, receiversFor } from "../delivery/receivers.ts";
import { relayCourier } from "../delivery/relay.ts";
import { ReturnPaths } from "../delivery/returnpaths.ts";
import { Signer } from "../delivery/signer.ts";
import { readSmarthost } from "../delivery/smarthost.ts";
import { Sealer } from "../domain/key.ts";
import { Owners } from "../domain/owners.ts";
import type { DomainDns } from "../domain/records.ts";
import { Home } from "../embedded/home.ts";
import { secretDigest, workspaceMarker } from "../ids.ts";
import { openInbound } from "../inbound/inbound.ts";
import { ReportWorker } from "../inbound/work.ts";
import { Keeper } from "../keeper/keeper.ts";
import { Settler } from "../outcome/settler.ts";
import { BagQueue } from "../queue/bagqueue.ts";
import { FinishedBags } from "../queue/finished.ts";
import { BagWorkers, QUIET_MS_MAX } from "../queue/worker.ts";
import { contactCommit } from "../record/contacts/commit.ts";
import type { Sql } from "../record/db/connect.ts";
import { migrate } from "../record/db/migrate.ts";
import { type Bag, firstRow, noteEpoch } from "../record/mail/bags.ts";
import { mailCommit } from "../record/mail/commit.ts";
import type { DestinationHold } from "../record/mail/destinations.ts";
import { OverloadState } from "../record/mail/overload.ts";
import { isWaitedIn, QueueShards } from "../record/mail/queueshards.ts";
import { keepSecretDigest } from "../record/workspaces/secretcheck.ts";
import { infoOf } from "../redis/canwrite.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { ReturnPathKey } from "../returnpath.ts";
import type { Role } from "../rules/roles.ts";
import type { ShapingRules } from "../shaping/file.ts";
import { Holds } from "../shaping/holds.ts";
import { Rooms } from "../shaping/rooms.ts";
import { RulesFile } from "../shaping/rulesfile.ts";
import { Shaping } from "../shaping/shaping.ts";
import { openSubmission } from "../submission/submission.ts";
import { ownSubmitter } from "../submit.ts";
import { TemplateCache } from "../template/cache.ts";
import { warmUp } from "../template/warmup.ts";
import { ReportSender, type ReportSenderParts } from "../transport/reportsender.ts";
import { egressRules } from "../webhooks/endpoint.ts";
import { SecretSealer } from "../webhooks/secret.ts";
import { tellOwners } from "../webhooks/tell.ts";
import { WebhookWorker } from "../webhooks/work.ts";
import { requestLog, tellHolds, tellShortage } from "./lifelog.ts";
import { isLoopback, type MetricsServer, startMetrics } from "./metrics.ts";
import { StartError, Stores } from "./stores.ts";

/** Together less than 5 s, whatever the stores do: supervisors kill a process after that. */
const API_STOP_MS = 3_000;
const DELIVER_STOP_MS = 2_500;
const NOTES_STOP_MS = 3_300;
/** What was delivered and is not written would be sent again: a slow Postgres gets more time than anything else. */
const DELIVERIES_STOP_MS = 25_000;
const KEEPER_STOP_MS = 1_500;
const WEBHOOKS_STOP_MS = 2_500;
/** For what the queue is told last; it finds out by itself. */
const GOODBYE_MS = 400;
const DELIVER_JOBS = 24;
const RUN_CHECK_MS = 1_000;
const DNS_MS_MAX = 3_000;
const DNS_TRIES = 2;

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

export type Serving = {
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
  stop(): Promise<void>;
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
    const shards = new QueueShards(setup, (error) =>
      log.warn({ err: error }, "the number of shards could not be read"),
    );
    stops.push(async () => shards.stop());
    await stores.persevere(() => shards.look());
    let port: number | null = null;
    if (roles.includes("api")) {
      const api = await startApiRole(config, secret, stores, shards, clock, budget, await front.taken(), log);
      port = api.port;
      stops.push(api.stop);
    }
    const policy = await openPolicy(config, setup, clock, log);
    stops.push(() => policy.stop());
    const metrics = await tellMetrics(config, stores, policy, clock, log, onFault);
    if (metrics) stops.push(metrics.stop);
    if (roles.includes("deliver"))
      stops.push(await startDeliverRole(config, secret, stores, shards, policy, clock, log, onFault));
    if (roles.includes("automate"))
      stops.push(await startAutomateRole(config, secret, stores, shards, clock, log));
    if (roles.includes("webhooks"))
      stops.push(await startWebhooksRole(config, secret, stores, shards, clock, log));
    if (roles.includes("keeper"))
      stops.push(await startKeeperRole(config, stores, shards, policy, clock, log, onFault));
    const reports =
      roles.some((role) => REPORTING.includes(role)) && secret !== ""
        ? startReportWorker(config, secret, stores, clock, onFault)
        : null;
    if (reports) stops.push(reports.stop);
    const inbound =
      reports && roles.includes("inbound")
        ? await startInboundRole(config, secret, stores, clock, onFault, reports.wake)
        : null;
    if (inbound) stops.push(inbound.stop);
    else if (roles.includes("inbound"))
      log.info(
        "nothing listens for reports: BOUNCE_DOMAIN, FEEDBACK_ADDRESSES and TLS_REPORTS_TO are not set",
      );
    const submission = roles.includes("submission")
      ? await startSubmissionRole(config, secret, stores, shards, clock, budget, log, onFault)
      : null;
    if (submission) stops.push(submission.stop);
    else if (roles.includes("submission"))
      log.info("no mail is taken over SMTP: SUBMISSION_PORT and SUBMISSION_TLS_PORT are not set");
    const console = roles.includes("console")
      ? await startConsoleRole(config, secret, stores, shards, clock, budget, log, onFault)
      : null;
    if (console) stops.push(console.stop);
    else if (roles.includes("console")) log.info("the console is not served: CONSOLE_PORT is not set");
    if (roles.some((role) => RENDERING.includes(role))) warmUp();
    return {
      port,
      inboundPort: inbound?.port ?? null,
      submissionPort: submission?.port ?? null,
      submissionTlsPort: submission?.tlsPort ?? null,
      metricsPort: metrics?.port ?? null,
      consolePort: console?.port ?? null,
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

/** The API's server while the stores are away: it says that the process lives, and what it waits for. */
class Front {
  readonly #open: () => Promise<Server>;
  #server: Promise<Server> | null = null;

  constructor({ host, port }: Config, budget: BodyBudget, missing: () => Record<string, string>) {
    this.#open = () => startServer({ host, port, sharesPort: false, budget, missing });
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

/** What every role needs that takes mail from callers. */
async function openIntake(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  clock: Clock,
  log: Logger,
) {
  const redis = await stores.redis("admission");
  const reads = stores.sql("reads");
  const line = new BagQueue(await stores.redis("queue"));
  const hints = stores.sql("hints");
  const onBags = (bags: Bag[]) =>
    putInLine(line, hints, bags).catch((error: unknown) =>
      log.warn({ err: error }, "e-mails are stored but not queued yet; the keeper queues them"),
    );
  const brake = new OverloadState(
    reads,
    (error) => log.warn({ err: error }, "the state of disk and backlog could not be read"),
    tellShortage(log),
  );
  const keyring = new Keyring({ redis, sql: reads, serverSecret, clock });
  const watch = watchRuns(redis, () => keyring.replay(clock.now()), log);
  return {
    parts: {
      redis,
      connectCommits: () => stores.sql("commits"),
      reads,
      clock,
      serverSecret,
      requireVerifiedDomains: config.requireVerifiedDomains,
      timeoutMs: config.storeTimeoutMs,
      brake: () => brake.shortage,
      shards: () => shards.open,
      onBags,
    },
    async close() {
      watch.stop();
      brake.stop();
      await atMost(GOODBYE_MS, line.close());
    },
  };
}

async function startApiRole(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  clock: Clock,
  budget: BodyBudget,
  server: Server | null,
  log: Logger,
) {
  const intake = await openIntake(config, serverSecret, stores, shards, clock, log);
  const api = await startApi({
    ...intake.parts,
    lists: stores.lists(intake.parts.reads),
    ...handlersOf(config),
    trustProxy: config.trustProxy,
    budget,
    server,
    sharesPort: config.sharedPort,
    isReady: () => stores.check(),
    log: {
      answered: requestLog(log, config.logRequestsEvery),
      fault: (exchange, error) =>
        log.error({ request_id: exchange?.requestId, err: error }, "internal error"),
    },
  });
  return {
    port: api.port,
    async stop() {
      await atMost(API_STOP_MS, api.stop());
      await intake.close();
    },
  };
}

/** What the handlers of the API take from the settings. */
function handlersOf(config: Config) {
  const { publicUrl, webhookNetworksAllowed, host, port } = config;
  return {
    applyDocument: applyOrSay,
    dns: domainDns(config),
    mailFrom: operatorSender(config),
    ...{ publicUrl, webhookNetworksAllowed, host, port },
  };
}

/** The page for people, and the API's own handlers for those who are signed in. */
async function startConsoleRole(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  clock: Clock,
  room: BodyBudget,
  log: Logger,
  onFault: (error: unknown) => void,
) {
  const { consolePort, publicUrl, trustProxy, mailboxUrl, host, port } = config;
  if (consolePort === null) return null;
  const intake = await openIntake(config, serverSecret, stores, shards, clock, log);
  const { reads: sql, redis } = intake.parts;
  const lists = stores.lists(sql);
  const door = openConsoleDoor({ ...intake.parts, lists, ...handlersOf(config) }, onFault);
  try {
    const served = await startConsole({
      ...{ sql, lists, redis, clock, serverSecret, door, room },
      ...{ publicUrl, trustProxy, mailboxUrl, host, onFault },
      keyring: new Keyring({ redis, sql, serverSecret, clock }),
      port: consolePort,
      heard: heardWith(config),
      apiUrl: `http://${host}:${port}`,
      mailFrom: operatorSender(config),
      demoKey: () => demoKeyOf(config, serverSecret),
      figures: async (now) => sendingNow(await readFigures(redis, now)),
    });
    return {
      port: served.port,
      async stop() {
        await atMost(API_STOP_MS, served.stop());
        await door.close();
        await intake.close();
      },
    };
  } catch (error) {
    await door.close();
    await intake.close();
    throw notOpened(
      `The console cannot listen on ${host}, port ${consolePort}`,
      error,
      "Set HOST or CONSOLE_PORT.",
    );
  }
}

/** A port that others have, or a setting such as a certificate. */
function notOpened(what: string, error: unknown, remedy: string): Error {
  const words = `${what}: ${error instanceof Error ? error.message : error}. ${remedy}`;
  const isOfPort = (error as NodeJS.ErrnoException).syscall === "listen";
  return isOfPort ? new StartError(words) : new ConfigError(words);
}

/** Only `npm start` keeps one, and only where it catches the mail. */
function demoKeyOf(config: Config, serverSecret: string) {
  const key = config.mailboxUrl === null ? null : new Home(homeFolder(config)).demoKey();
  const bearer = key === null ? null : keyReader(serverSecret)(key);
  return key !== null && bearer ? { key, handle: bearer.handle } : null;
}

/** The API's own rules for mail over SMTP. Nothing listens where no port is set. */
async function startSubmissionRole(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  clock: Clock,
  budget: BodyBudget,
  log: Logger,
  onFault: (error: unknown) => void,
) {
  const { submissionHost, submissionPort, submissionTlsPort, submissionTlsCert } = config;
  if (submissionPort === null && submissionTlsPort === null) return null;
  if (submissionTlsCert === null)
    log.warn(
      "SUBMISSION_TLS_CERT is not set: the certificate of submission is self-signed, and clients refuse it",
    );
  const intake = await openIntake(config, serverSecret, stores, shards, clock, log);
  const door = openMailDoor(intake.parts, onFault);
  try {
    const submission = await openSubmission(config, { door, room: budget, clock, onFault });
    return {
      ...submission,
      async stop() {
        await atMost(API_STOP_MS, submission.stop());
        await door.close();
        await intake.close();
      },
    };
  } catch (error) {
    await door.close();
    await intake.close();
    throw notOpened(
      `Mail cannot be taken over SMTP on ${submissionHost}, ports ${submissionPort ?? "none"} and ${submissionTlsPort ?? "none"}`,
      error,
      "Set SUBMISSION_HOST, SUBMISSION_PORT, SUBMISSION_TLS_PORT, SUBMISSION_TLS_CERT or SUBMISSION_TLS_KEY.",
    );
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

function openCourier(config: Config, shaping: Shaping, parts: ReceiverParts): Courier {
  const smarthost = smarthostOf(config);
  return asSettings(() =>
    smarthost === null
      ? directCourier(config, shaping, parts)
      : relayCourier(smarthost, config, shaping, parts.onFault),
  );
}

/** null: mail goes to its receivers. Nobody does that by accident: `direct` must be set, and SMTP_URL must not. */
function smarthostOf({ courier, smtpUrl }: Config): string | null {
  if (courier === "relay" && smtpUrl === null)
    throw new ConfigError(
      "SMTP_URL is not set. Set it to the smarthost that takes the mail, or set COURIER=direct to send to the MX hosts of the recipients.",
    );
  if (courier === "direct" && smtpUrl !== null)
    throw new ConfigError("COURIER=direct needs no smarthost, but SMTP_URL is set. Unset one of them.");
  return smtpUrl;
}

/** What is wrong with it is said before the stores are waited for. */
function expectSmarthost(config: Config): void {
  const smarthost = smarthostOf(config);
  if (smarthost !== null) asSettings(() => readSmarthost(smarthost, config));
}

/** What it throws is about settings. */
function asSettings<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ConfigError(error instanceof Error ? error.message : String(error));
  }
}

/** A file that cannot be used never keeps mail from being delivered. */
async function openShaping(
  { shapingFile, directSourceAddress }: Config,
  parts: {
    worker: string;
    sql: Sql;
    redis: RedisClient;
    clock: Clock;
    onHolds(holds: readonly DestinationHold[]): void;
    onFault(error: unknown): void;
  },
) {
  const { worker, sql, redis, clock, onFault } = parts;
  const holds = new Holds({ sql, clock, onFault, onChange: parts.onHolds });
  const rooms = new Rooms({ redis, worker, now: () => performance.now(), onFault });
  const ownSource = { name: "", address: directSourceAddress, helo: null, since: null };
  const shaping = new Shaping({ holds, rooms, clock, ownSource });
  const onRules = (rules: ShapingRules) => shaping.follow(rules);
  const file =
    shapingFile === null ? null : new RulesFile({ path: shapingFile, sql, clock, onRules, onFault });
  await Promise.all([holds.look(), file?.open()]);
  return {
    shaping,
    stop() {
      file?.stop();
      holds.stop();
      rooms.close();
    },
  };
}

async function startDeliverRole(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  policy: PolicyInForce,
  clock: Clock,
  log: Logger,
  onFault: (error: unknown) => void,
) {
  const sql = stores.sql("delivery");
  const worker = workerName();
  const redis = await stores.redis("admission");
  const { shaping, stop: stopShaping } = await openShaping(config, {
    ...{ worker, sql, redis, clock, onFault },
    onHolds: tellHolds(log),
  });
  const courier = openCourier(config, shaping, { sql, clock, onFault });
  const { softBouncesMax: bounces, softBounceDays: days } = config;
  const series = bounces > 0 ? { bounces, days } : null;
  const settler = new Settler(stores.sql("settling"), worker, onFault, series);
  const line = new BagQueue(await stores.redis("queue"));
  const finishedBags = new FinishedBags(line, onFault);
  const figures = new Figures({ redis, worker, clock });
  const deliverer = new Deliverer({
    sql,
    signer: new Signer({ sql, sealer: new Sealer(serverSecret) }),
    // it was judged when it was accepted: only a domain that is somebody else's by now keeps it back
    owners: new Owners({ sql, isRequired: false, onFault }),
    markOf: workspaceMarker(serverSecret),
    hashOf: addressHasher(serverSecret),
    countsSoft: series !== null,
    operatorDomain: parseMailbox(operatorSender(config))?.domain ?? null,
    courier,
    returnPaths:
      config.bounceDomain === null
        ? null
        : new ReturnPaths({ sql, key: new ReturnPathKey(serverSecret), domain: config.bounceDomain }),
    figures,
    settler,
    leases: new Leases(stores.sql("leases"), onFault),
    clock,
    retrySchedule: config.retrySchedule,
    lifetimeMs: config.emailLifetimeHours * 3_600_000,
    emailsInFlightMax: config.deliveryConcurrency,
    hasFeedback: (domain) => policy.hasFeedback(domain),
    onFault,
  });
  const workers = new BagWorkers({
    connect: () => stores.openRedis("worker"),
    concurrency: DELIVER_JOBS,
    handle: async (bag) => {
      try {
        await deliverer.deliver(bag);
      } finally {
        finishedBags.note(bag);
      }
    },
    isNeglected: async (shard) =>
      (await isWaitedIn(sql, shard, new Date(clock.now() - QUIET_MS_MAX))) &&
      // without an answer it may be the worker's own connection that hangs
      line.hasUntaken(shard).catch(() => true),
    onReplaced: (shard) =>
      log.warn({ shard }, "a shard had bags and its worker took none: another worker takes its place"),
    onFault,
  });
  const unfollow = shards.follow((served) => workers.serve(served));
  return async () => {
    unfollow();
    const stopped = workers.stop(DELIVER_STOP_MS);
    await deliverer.close({
      courierMs: DELIVER_STOP_MS,
      notesMs: NOTES_STOP_MS,
      deliveriesMs: DELIVERIES_STOP_MS,
    });
    await stopped;
    stopShaping();
    figures.stop();
    await atMost(
      GOODBYE_MS,
      finishedBags.flush().then(() => line.close()),
    );
  };
}

/** What mail of the engine's own accord is written with. */
async function openOwnMail(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  clock: Clock,
  log: Logger,
) {
  const reads = stores.sql("reads");
  const line = new BagQueue(await stores.redis("queue"));
  const hints = stores.sql("hints");
  const brake = new OverloadState(reads, (error) =>
    log.warn({ err: error }, "the state of disk and backlog could not be read"),
  );
  const commits = { connect: () => stores.sql("commits"), timeoutMs: config.storeTimeoutMs };
  const hashOf = addressHasher(serverSecret);
  const lineUp = (bags: Bag[]) => {
    putInLine(line, hints, bags).catch((error: unknown) =>
      log.warn({ err: error }, "e-mails are stored but not queued yet; the keeper queues them"),
    );
  };
  const commit = mailCommit(commits, lineUp, hashOf, () => shards.open);
  const submitOwn = ownSubmitter({
    reservations: new Reservations(await stores.redis("admission"), reads, clock),
    commit,
    clock,
    brake: () => brake.shortage,
    onLag: (error) => log.warn({ err: error }, "Redis could not be updated"),
  });
  return {
    ...{ reads, commits, hashOf, submitOwn },
    async close() {
      brake.stop();
      await commit.close();
      await line.close();
    },
  };
}

async function startAutomateRole(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  clock: Clock,
  log: Logger,
) {
  const onFault = (error: unknown) => log.error({ err: error }, "internal error");
  const mail = await openOwnMail(config, serverSecret, stores, shards, clock, log);
  const contacts = contactCommit(mail.commits, mail.hashOf);
  const reports = startReportSender(config, { sql: mail.reads, clock, submit: mail.submitOwn, onFault });
  const worker = new Worker({
    sql: stores.sql("runs"),
    submitOwn: mail.submitOwn,
    contacts,
    templates: new TemplateCache(mail.reads, config.storeTimeoutMs),
    owners: new Owners({ sql: mail.reads, isRequired: config.requireVerifiedDomains, onFault }),
    links: new Links(serverSecret, config.publicUrl ?? `http://${config.host}:${config.port}`),
    clock,
    retentionDays: config.retentionDays,
    onFault,
  });
  worker.start();
  return async () => {
    await Promise.all([worker.stop(), reports && atMost(API_STOP_MS, reports.stop())]);
    await contacts.close();
    await mail.close();
  };
}

async function startWebhooksRole(
  config: Config,
  serverSecret: string,
  stores: Stores,
  shards: QueueShards,
  clock: Clock,
  log: Logger,
) {
  const onFault = (error: unknown) => log.error({ err: error }, "internal error");
  const sql = stores.sql("webhooks");
  const mail = await openOwnMail(config, serverSecret, stores, shards, clock, log);
  const telling = { sql, from: operatorSender(config), write: mail.submitOwn, onFault };
  const worker = new WebhookWorker({
    sql,
    sealer: new SecretSealer(serverSecret),
    dns: resolverOf(config),
    rules: egressRules(config.webhookNetworksAllowed),
    now: () => clock.now(),
    given: () => clock.given(),
    random: Math.random,
    tellOwners: (now) => tellOwners(telling, now),
    onFault,
  });
  worker.start();
  return async () => {
    await worker.stop(WEBHOOKS_STOP_MS);
    await mail.close();
  };
}

/** Connections to receivers are reported by whoever makes them: with a smarthost there is nothing to say. */
function startReportSender(
  config: Config,
  parts: Pick<ReportSenderParts, "sql" | "clock" | "submit" | "onFault"> & { sql: Sql },
): ReportSender | null {
  const { courier, tlsReportsFrom: from } = config;
  if (courier !== "direct" || from === null) return null;
  const { web, askTxt } = receiversFor(config, parts);
  const sender = new ReportSender({ ...parts, from, web, askTxt });
  sender.start();
  return sender;
}

async function startKeeperRole(
  config: Config,
  stores: Stores,
  shards: QueueShards,
  policy: PolicyInForce,
  clock: Clock,
  log: Logger,
  onFault: (error: unknown) => void,
) {
  const sql = stores.sql("keeper");
  const line = new BagQueue(await stores.redis("queue"));
  const redis = await stores.redis("admission");
  const reservations = new Reservations(redis, sql, clock);
  const keyring = new Keyring({ redis, sql, serverSecret: config.secret ?? "", clock });
  const keeper = new Keeper({
    sql,
    timeoutMs: config.storeTimeoutMs,
    line,
    shards,
    reservations,
    clock,
    policy: () => policy.latest(),
    heard: heardWith(config),
    capsEverySeconds: config.capsEverySeconds,
    ...domainDns(config),
    onDomainLost: ({ handle, version }) => keyring.forget(handle, version),
    onCaps: async ({ handle, version, workspaceId }) => {
      log.info({ workspace: workspaceId }, "a cap was changed; `postrider caps history` says why");
      await keyring.forget(handle, version);
      await reservations.forget(handle);
    },
    retention: {
      emails: config.retentionDays,
      bodies: config.bodyRetentionDays,
      events: config.eventLogDays,
    },
    retentionSql: stores.sql("retention"),
    brake: {
      backlogMax: config.backlogMax,
      diskFreeMinBytes: config.diskFreeMinMb * 1024 * 1024,
      dataFolder: config.postgresDataFolder,
    },
    onFault,
  });
  keeper.start();
  return async () => {
    await keeper.stop(KEEPER_STOP_MS);
    await atMost(GOODBYE_MS, line.close());
  };
}

function startReportWorker(
  config: Config,
  serverSecret: string,
  stores: Stores,
  clock: Clock,
  onFault: (error: unknown) => void,
) {
  const worker = new ReportWorker({
    sql: stores.sql("reports"),
    paths: new ReturnPathKey(serverSecret),
    markOf: workspaceMarker(serverSecret),
    clock,
    worker: workerName(),
    bounceDomain: config.bounceDomain,
    hashOf: addressHasher(serverSecret),
    timeoutMs: config.storeTimeoutMs,
    onFault,
  });
  worker.start();
  return { wake: () => worker.wake(), stop: () => worker.stop(KEEPER_STOP_MS) };
}

/** Nothing listens where no return path and no feedback address leads. */
async function startInboundRole(
  config: Config,
  serverSecret: string,
  stores: Stores,
  clock: Clock,
  onFault: (error: unknown) => void,
  onKept: () => void,
) {
  const { bounceDomain, feedbackAddresses, tlsReportsTo } = config;
  if (bounceDomain === null && feedbackAddresses.length + tlsReportsTo.length === 0) return null;
  const sql = stores.sql("intake");
  const brake = new OverloadState(sql, onFault);
  try {
    const inbound = await openInbound(config, {
      paths: new ReturnPathKey(serverSecret),
      sql,
      clock,
      brake: () => brake.shortage?.reason ?? null,
      onKept,
      onFault,
    });
    return {
      port: inbound.port,
      async stop() {
        brake.stop();
        await atMost(KEEPER_STOP_MS, inbound.stop());
      },
    };
  } catch (error) {
    brake.stop();
    const { inboundHost, inboundPort } = config;
    throw notOpened(
      `Reports cannot be taken on ${inboundHost}, port ${inboundPort}`,
      error,
      "Set INBOUND_HOST, INBOUND_PORT, INBOUND_TLS_CERT or INBOUND_TLS_KEY.",
    );
  }
}

function workerName(): string {
  return `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
}

/** Who writes confirmation mails in the operator's words. */
function operatorSender({ mailFrom, publicUrl, host, port }: Config): string {
  return mailFrom ?? defaultSender(publicUrl ?? `http://${host}:${port}`);
}

/** Asks DNS for the records of senders' domains. */
function domainDns(config: Config): DomainDns {
  const { bounceDomain } = config;
  const resolver = resolverOf(config);
  const askMx = (name: string) => resolver.resolveMx(name);
  return {
    askTxt: (name) => resolver.resolveTxt(name),
    returnPaths: bounceDomain === null ? null : { bounceDomain, askMx },
  };
}

function resolverOf({ dnsServers }: Config): Resolver {
  const resolver = new Resolver({ timeout: DNS_MS_MAX, tries: DNS_TRIES });
  if (dnsServers && dnsServers.length > 0) resolver.setServers(dnsServers);
  return resolver;
}

/** Queues bags that were just committed; if this fails, the keeper finds them. */
async function putInLine(line: BagQueue, sql: Sql, bags: readonly Bag[]): Promise<void> {
  for (const { epoch, queued } of await line.lineUp(bags.map(firstRow)))
    if (queued.length > 0) await noteEpoch(sql, queued, epoch);
}

/**
 * A restarted Redis, or a replica that took over, may hold old keys: recent changes are written to it again. Of a
 * cluster any of the masters may be another.
 */
function watchRuns(redis: RedisClient, replay: () => Promise<void>, log: Logger): { stop(): void } {
  let known: ReadonlySet<string> | null = null;
  const look = async () => {
    const told = await infoOf(redis, "server");
    const runs = new Set(told.map((info) => /^run_id:(\S+)/m.exec(info)?.[1] ?? ""));
    const others = [...runs].filter((run) => known !== null && !known.has(run));
    if (others.length > 0) {
      log.warn({ runs: others }, "Redis was restarted or replaced: recent changes are sent to it again");
      await replay();
    }
    known = runs;
  };
  const onReady = () =>
    void look().catch((error: unknown) =>
      log.warn({ err: error }, "Redis could not be asked whether it was restarted"),
    );
  redis.on("ready", onReady);
  const timer = setInterval(onReady, RUN_CHECK_MS);
  onReady();
  return {
    stop: () => {
      clearInterval(timer);
      redis.off("ready", onReady);
    },
  };
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
