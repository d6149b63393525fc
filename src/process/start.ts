/**
 * The root of `npm start`: everything on one machine, for development. Starts the stores that the environment
 * does not name, makes a demo workspace on the first run, runs the roles in three processes, prints how to
 * send the first mail, and stops everything with itself. A role that dies is restarted; one that keeps dying
 * stops everything.
 */

import { fileURLToPath } from "node:url";
import { messageOf } from "../caught.ts";
import { CONFIG_EXIT, type Config, ConfigError, childEnv, homeFolder, loadConfig } from "../config.ts";
import { banner } from "../embedded/banner.ts";
import { type Child, ChildStartError, startChild } from "../embedded/child.ts";
import { type Demo, demoWorkspace } from "../embedded/demo.ts";
import { Home, type ReadyInfo } from "../embedded/home.ts";
import type { ChildReport, StoresReport } from "../embedded/parent.ts";
import { freePort, isPortFree } from "../embedded/port.ts";
import { endProcess } from "../embedded/process.ts";
import { keysOf } from "../names.ts";
import type { Role } from "../rules/roles.ts";
import { urlAt } from "../rules/urlat.ts";

/** Where reports go in development: a name that nobody can own. */
const BOUNCE_DOMAIN = "bounces.postrider.test";

/** Receivers on this machine. */
const LOOPBACK = "127.0.0.0/8,::1/128";

const CONSOLE_PORT = 3_001;

const READY_MS_MAX = 10_000;
const READY_POLL_MS = 25;
const DEATHS_MAX = 5;
const DEATHS_WITHIN_MS = 60_000;
const RESTART_MS_MIN = 100;
/** Of a start for which ports are picked. */
const ATTEMPTS_MAX = 3;
/** The api stops taking requests before the others stop; all of it takes less than 10 s. */
const API_HEAD_START_MS = 1_000;
const ROLE_STOP_MS_MAX = 5_000;
/** It may still have to write what was delivered. */
const DELIVER_STOP_MS_MAX = 28_000;
const STORES_STOP_MS_MAX = 3_000;

/** Of a process, for its log and its place in the home folder. */
type ProcessName = "api" | "deliver" | "others";

/**
 * The api is first. Nothing that hangs elsewhere holds up requests or deliveries; what has little to do
 * shares a process, since each takes 60 MB and a second of a core to start.
 */
const PROCESSES: Record<ProcessName, readonly Role[]> = {
  api: ["api"],
  deliver: ["deliver"],
  others: ["automate", "keeper", "inbound", "submission", "webhooks", "console"],
};
const NAMES = keysOf(PROCESSES);

/**
 * glibc gives each of a process's ten threads an arena of its own, which keeps what its busiest moment took,
 * such as compiling at the start: 15 to 25 MB of each process.
 */
const MALLOC = { MALLOC_ARENA_MAX: "2" };
/**
 * Gives back what is free; only for processes that seldom have large buffers, which would come from the
 * system each time.
 */
const MALLOC_SPARING = { ...MALLOC, MALLOC_TRIM_THRESHOLD_: "131072" };

class Root {
  readonly #config: Config;
  readonly #home: Home;
  readonly #children = new Map<string, Child>();
  /** Of the processes that tell metrics. */
  readonly #metricsUrls = new Map<string, string>();
  #env: Record<string, string> = {};
  #place: ReadyInfo | null = null;
  #isStopping = false;

  constructor(config: Config) {
    this.#config = config;
    this.#home = new Home(homeFolder(config));
  }

  async start(): Promise<void> {
    const { host, port, secret, inboundHost, submissionHost } = this.#config;
    await this.#home.enter(say);
    await expectListenable(port, host);
    const stores = await this.#startStores();
    // named here, since one that the system picks for the api could not be taken again soon after it died
    const found = { ...stores.env, POSTRIDER_SECRET: secret ?? this.#home.secret(), PORT: String(port) };
    const anyPort = { INBOUND_PORT: "0", SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" };
    const assumed = { REQUIRE_VERIFIED_DOMAINS: "false", BOUNCE_DOMAIN, WEBHOOK_NETWORKS_ALLOWED: LOOPBACK };
    // each process tells its own, and the root all of them
    const metrics = this.#config.metricsPort === null ? {} : { METRICS_PORT: "0" };
    const taken: Record<string, string> = { ...assumed, ...anyPort, CONSOLE_PORT: await this.#consolePort() };
    const env = childEnv({ ...found, ...metrics }, taken);
    const hosts = {
      ...{ PORT: host, CONSOLE_PORT: host, INBOUND_PORT: inboundHost },
      ...{ SUBMISSION_PORT: submissionHost, SUBMISSION_TLS_PORT: submissionHost },
    };

    say("Starting the engine");
    const urls = await this.#startEngine(env, hosts);
    const { DATABASE_URL, REDIS_URL, SMTP_URL, POSTRIDER_SECRET } = this.#env as Record<string, string>;
    const demo = await demoWorkspace({
      databaseUrl: DATABASE_URL as string,
      redisUrl: REDIS_URL as string,
      secret: POSTRIDER_SECRET as string,
      home: this.#home,
      say,
    });
    this.#place = readyInfoOf(
      {
        ...{ ...NO_URLS, ...urls },
        bounce_domain: this.#env.BOUNCE_DOMAIN ?? null,
        settings: Object.fromEntries(
          ["PORT", ...Object.keys(taken)].map((name) => [name, this.#env[name] as string]),
        ),
        metrics_url: await this.#collectMetrics(),
      },
      demo,
      stores,
      SMTP_URL ?? null,
    );
    this.#home.announce(this.#place);
    process.stdout.write(banner(this.#place, this.#home.folder, this.#writesAsAny()));
  }

  /** The same with every start, where nobody else has it. */
  async #consolePort(): Promise<string> {
    const { host, port } = this.#config;
    const isOurs = port !== 0 && port !== CONSOLE_PORT && (await isPortFree(CONSOLE_PORT, host));
    return isOurs ? String(CONSOLE_PORT) : "0";
  }

  /** Whether mail may have any sender, as development assumes. */
  #writesAsAny(): boolean {
    return !loadConfig(this.#env).requireVerifiedDomains;
  }

  fail(reason: string, status = 1): void {
    if (this.#isStopping) return;
    process.stderr.write(`${reason}\n`);
    this.stop(status);
  }

  async stop(status: number): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#home.withdraw();
    if (this.#children.size > 0) say("Stopping");
    const end = (name: string, msMax: number) => this.#children.get(name)?.end(msMax);
    const api = end("api", ROLE_STOP_MS_MAX);
    await Promise.race([api, after(API_HEAD_START_MS)]);
    await Promise.all([api, end("deliver", DELIVER_STOP_MS_MAX), end("others", ROLE_STOP_MS_MAX)]);
    await end("stores", STORES_STOP_MS_MAX);
    // the next start deals with what cannot be ended
    await this.#endUnheld().catch((error: unknown) => process.stderr.write(`${messageOf(error)}\n`));
    this.#home.leave();
    process.exit(status);
  }

  async #startStores(): Promise<StoresReport> {
    const { databaseUrl, redisUrl, smtpUrl, courier } = this.#config;
    const given = { env: {}, databaseUrl, redisUrl, mailboxUrl: null, pids: {} };
    const missing = [
      ...(databaseUrl === null ? ["postgres"] : []),
      ...(redisUrl === null ? ["redis"] : []),
      ...(smtpUrl === null && courier === "relay" ? ["mailbox"] : []),
    ];
    if (missing.length === 0) return given;
    const args = ["--role", "stores", this.#home.folder, missing.join(",")];
    const child = this.#spawn("stores", "../embedded/guard.js", args, childEnv({}, MALLOC_SPARING));
    const report = await child.started;
    if (report.kind !== "stores") throw new ChildStartError("The stores did not start.");
    child.ended.then((why) =>
      this.fail(`A store that Postrider started has ended (${why}). See ${this.#home.logFile("stores")}`),
    );
    const { stores } = report;
    for (const [name, pid] of Object.entries(stores.pids)) this.#home.note(name, pid);
    return {
      ...stores,
      databaseUrl: databaseUrl ?? stores.databaseUrl,
      redisUrl: redisUrl ?? stores.redisUrl,
    };
  }

  async #collectMetrics(): Promise<string | null> {
    const { host, metricsPort: port, metricsToken: token } = this.#config;
    if (port === null) return null;
    const processes = () => [...this.#metricsUrls].map(([name, metricsUrl]) => ({ name, metricsUrl }));
    const onFault = (error: unknown) => say(`The metrics could not be served: ${messageOf(error)}`);
    try {
      const { startCollecting } = await import("./metrics.ts");
      const metrics = await startCollecting({ host, port, token, onFault }, processes);
      return `${urlAt(host, metrics.port)}/metrics`;
    } catch (error) {
      throw new ChildStartError(
        `The metrics cannot be served on ${host}, port ${port}: ${messageOf(error)}. Set METRICS_PORT.`,
      );
    }
  }

  /** All first starts must succeed; after that whoever ends is restarted. Returns where they listen. */
  async #startEngine(
    env: Record<string, string>,
    hosts: Readonly<Record<string, string>>,
  ): Promise<Partial<ListeningUrls>> {
    for (let attempt = 1; ; attempt++) {
      const picked = await pickPorts(env, hosts);
      this.#env = { ...env, ...picked };
      const children = NAMES.map((name) => this.#spawnRoles(name));
      try {
        const urls = await Promise.all(NAMES.map((name, n) => this.#urlsOf(name, children[n] as Child)));
        for (const [n, name] of NAMES.entries())
          this.#keep(name, children[n] as Child).catch((error: unknown) => this.fail(messageOf(error)));
        return Object.assign({}, ...urls);
      } catch (error) {
        // somebody else may have taken a port between our look and its use
        const isLost =
          error instanceof ChildStartError && error.isPortTaken && Object.keys(picked).length > 0;
        if (!isLost || attempt === ATTEMPTS_MAX || this.#isStopping) throw error;
        await Promise.all(children.map((child) => child.end(ROLE_STOP_MS_MAX)));
      }
    }
  }

  /** When it has started. */
  async #urlsOf(name: ProcessName, child: Child): Promise<Partial<ListeningUrls>> {
    const report = await child.started;
    if (name === "api") return { base_url: await this.#apiAnswers(report) };
    if (report.kind !== "ready" || name !== "others") return {};
    const { host, inboundHost, submissionHost } = this.#config;
    const url = (scheme: string, host: string, port: number | null) =>
      port === null ? null : urlAt(host, port, scheme);
    return {
      inbound_url: url("smtp", inboundHost, report.inboundPort),
      submission_url: url("smtp", submissionHost, report.submissionPort),
      submission_tls_url: url("smtps", submissionHost, report.submissionTlsPort),
      console_url: report.consolePort === null ? null : `${url("http", host, report.consolePort)}/console`,
    };
  }

  async #keep(name: ProcessName, first: Child): Promise<void> {
    const isApi = name === "api";
    let deaths: number[] = [];
    for (let child = first; ; ) {
      const why = await child.ended;
      if (this.#isStopping) return;
      if (isApi) this.#home.withdraw();
      const now = performance.now();
      deaths = [...deaths.filter((at) => now - at < DEATHS_WITHIN_MS), now];
      if (deaths.length > DEATHS_MAX) {
        this.fail(`The ${name} process keeps ending (${why}). See ${this.#home.logFile(name)}`);
        return;
      }
      say(`The ${name} process ended (${why}). Starting it again`);
      await after(RESTART_MS_MIN * 2 ** deaths.length);
      if (this.#isStopping) return;
      child = this.#spawnRoles(name);
      if (isApi) this.#announceAgain(child);
    }
  }

  async #announceAgain(api: Child): Promise<void> {
    try {
      await this.#apiAnswers(await api.started);
      if (this.#place && !this.#isStopping) this.#home.announce(this.#place);
    } catch {
      await api.end(ROLE_STOP_MS_MAX); // the supervising loop then starts it once more
    }
  }

  /** Resolves with the url when the api takes requests. */
  async #apiAnswers(report: ChildReport): Promise<string> {
    if (report.kind !== "ready" || report.port === null)
      throw new ChildStartError("The API process reported no port.");
    const baseUrl = urlAt(this.#config.host, report.port);
    const deadline = performance.now() + READY_MS_MAX;
    for (;;) {
      const missing = await missingAt(baseUrl);
      if (missing === "") return baseUrl;
      if (performance.now() > deadline)
        throw new ChildStartError(
          `The API at ${baseUrl} is not ready after ${READY_MS_MAX / 1000} s: ${missing}.`,
        );
      await after(READY_POLL_MS);
    }
  }

  #spawnRoles(name: ProcessName): Child {
    const roles = PROCESSES[name];
    const args = ["serve", "--role", roles.join()];
    const env = { ...(name === "others" ? MALLOC_SPARING : MALLOC), ...this.#env };
    return this.#spawn(name, "../cli/postrider.js", args, env, roles);
  }

  #spawn(
    name: string,
    script: string,
    args: string[],
    env: Record<string, string>,
    roles: readonly Role[] = [],
  ): Child {
    if (this.#isStopping) throw new ChildStartError("Postrider is stopping.");
    const logFile = this.#home.logFile(name);
    const path = fileURLToPath(new URL(script, import.meta.url));
    const child = startChild({ name, script: path, args, roles, env, logFile, say });
    this.#children.set(name, child);
    this.#home.note(name, child.pid);
    child.started.then(
      (report) => this.#noteMetrics(name, report),
      () => {},
    );
    return child;
  }

  #noteMetrics(name: string, report: ChildReport): void {
    if (report.kind === "ready" && report.metricsPort !== null)
      this.#metricsUrls.set(name, `${urlAt(this.#config.host, report.metricsPort)}/metrics`);
  }

  /** The process that owned the stores may have been killed before it could end them. */
  async #endUnheld(): Promise<void> {
    const [postgres, redis] = [this.#home.running("postgres"), this.#home.running("redis")];
    await Promise.all([
      postgres && endProcess(postgres, "SIGQUIT"), // the next start recovers
      redis && endProcess(redis, "SIGKILL"),
    ]);
  }
}

/** Free ones for the settings that name none. */
async function pickPorts(
  env: Readonly<Record<string, string>>,
  hosts: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const picked: Record<string, string> = {};
  for (const [setting, host] of Object.entries(hosts))
    if (env[setting] === "0") picked[setting] = String(await freePort(host));
  return picked;
}

async function expectListenable(port: number, host: string): Promise<void> {
  const isFree = await isPortFree(port, host).catch((error: unknown) => {
    throw new ChildStartError(
      `The API cannot listen on ${host}, port ${port}: ${messageOf(error)}. Set HOST or PORT.`,
    );
  });
  if (!isFree)
    throw new ChildStartError(
      `Port ${port} on ${host} is in use. Stop the process that listens there, or set PORT.`,
    );
}

type ListeningUrls = Pick<
  ReadyInfo,
  "base_url" | "inbound_url" | "submission_url" | "submission_tls_url" | "console_url"
>;
type OwnUrls = Pick<ReadyInfo, "bounce_domain" | "metrics_url" | "settings">;
const NO_URLS: ListeningUrls = {
  base_url: "",
  inbound_url: null,
  submission_url: null,
  submission_tls_url: null,
  console_url: null,
};

function readyInfoOf(
  urls: ListeningUrls & OwnUrls,
  demo: Demo,
  { databaseUrl, redisUrl, mailboxUrl }: StoresReport,
  smtpUrl: string | null,
): ReadyInfo {
  return {
    ...urls,
    api_key: demo.apiKey,
    workspace_id: demo.workspaceId,
    audience_id: demo.audienceId,
    console_email: demo.ownerEmail,
    console_password: demo.ownerPassword,
    mailbox_url: mailboxUrl,
    database_url: databaseUrl,
    redis_url: redisUrl,
    smtp_url: smtpUrl,
  };
}

/** What keeps the api from being ready, in words; nothing when it is. */
async function missingAt(baseUrl: string): Promise<string> {
  try {
    const answer = await fetch(`${baseUrl}/readyz`, { signal: AbortSignal.timeout(READY_MS_MAX) });
    if (answer.ok) return "";
    const { checks } = (await answer.json()) as { checks: Record<string, string> };
    const failed = Object.entries(checks).filter(([, state]) => state !== "ok");
    return failed.map(([name, state]) => `${name}: ${state}`).join(", ") || "it gives no reason";
  } catch {
    return "it does not answer";
  }
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function say(line: string): void {
  process.stdout.write(`${line} ...\n`);
}

function open(): Root {
  try {
    return new Root(loadConfig());
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`);
    process.exit(error instanceof ConfigError ? CONFIG_EXIT : 1);
  }
}

// the reader of our output may stop, as in `npm start | head`: that is no reason to end
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});
const root = open();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => root.stop(0));
root
  .start()
  .catch((error: unknown) =>
    root.fail(messageOf(error), error instanceof ChildStartError ? error.status : 1),
  );
