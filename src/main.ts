/**
 * The root of `npm start`: everything on one machine, for development. Brings what the environment does not name,
 * makes a demo workspace on the first run, starts each role as a process of its own, says how to send the first mail,
 * and ends all of it with itself.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  CONFIG_EXIT,
  type Config,
  ConfigError,
  childEnv,
  type Env,
  homeFolder,
  loadConfig,
} from "./config.ts";
import { type Demo, demoWorkspace } from "./embedded/demo.ts";
import type { Report } from "./embedded/leash.ts";

const ROLE_PROCESSES = { api: "api", deliver: "deliver", keeper: "keeper" } as const;
const STOP_ROLES_MS = 5_000;
const STOP_STORES_MS = 4_000;
const RESTARTS_MAX = 5;
const RESTARTS_WITHIN_MS = 60_000;

class StartError extends Error {}

class Root {
  readonly #config: Config;
  readonly #home: string;
  readonly #children = new Map<string, ChildProcess>();
  readonly #pids: Record<string, number> = { root: process.pid };
  #found: Env = {};
  #isStopping = false;

  constructor(config: Config) {
    this.#config = config;
    this.#home = homeFolder(config);
  }

  async start(): Promise<void> {
    mkdirSync(join(this.#home, "logs"), { recursive: true });
    this.#refuseSecondRoot();
    rmSync(this.#readyFile(), { force: true });
    process.on("SIGINT", () => this.stop(0));
    process.on("SIGTERM", () => this.stop(0));
    process.on("SIGHUP", () => this.stop(0));
    this.#found = {
      POSTRIDER_SECRET: this.#config.secret ?? this.#secret(),
      ...this.#given(),
      ...(await this.#startStores()),
    };
    say("Applying migrations");
    const demo = await demoWorkspace(this.#found as Record<string, string>, this.#home, say);
    say("Starting the engine");
    const [port] = await Promise.all([
      this.#startRole("api"),
      this.#startRole("deliver"),
      this.#startRole("keeper"),
    ]);
    const baseUrl = `http://${this.#config.host === "0.0.0.0" ? "127.0.0.1" : this.#config.host}:${port}`;
    this.#found = { ...this.#found, PORT: String(port) };
    await untilReady(baseUrl);
    this.#writeReady(baseUrl, demo);
    banner(baseUrl, demo, this.#found.mailbox_url ?? null, this.#home);
  }

  async stop(status: number): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    rmSync(this.#readyFile(), { force: true });
    say("Stopping");
    const roles = [...this.#children].filter(([name]) => name !== "stores").map(([, child]) => child);
    await Promise.all(roles.map((child) => end(child, STOP_ROLES_MS)));
    const stores = this.#children.get("stores");
    if (stores) await end(stores, STOP_STORES_MS);
    this.#killStores();
    process.exit(status);
  }

  #given(): Env {
    const { databaseUrl, redisUrl, smtpUrl } = this.#config;
    return {
      ...(databaseUrl !== null && { DATABASE_URL: databaseUrl, database_url: databaseUrl }),
      ...(redisUrl !== null && { REDIS_URL: redisUrl, redis_url: redisUrl }),
      ...(smtpUrl !== null && { SMTP_URL: smtpUrl }),
    };
  }

  async #startStores(): Promise<Env> {
    const { databaseUrl, redisUrl, smtpUrl } = this.#config;
    const wanted = [
      databaseUrl === null && "postgres",
      redisUrl === null && "redis",
      smtpUrl === null && "mailbox",
    ].filter(Boolean);
    if (wanted.length === 0) return {};
    const child = this.#spawn(
      "stores",
      ["embedded/guard.js", "--role", "stores", this.#home, wanted.join(",")],
      {},
    );
    const report = await firstReport(child, "stores");
    if (report.kind !== "stores")
      throw new StartError(report.kind === "failed" ? report.reason : "The stores did not start");
    Object.assign(this.#pids, report.pids);
    child.once("exit", () => this.#fail("Postgres, Redis or the mail catcher ended: see the logs"));
    return report.found;
  }

  /** Starts a role, and again when it dies; hands back its port. */
  async #startRole(name: keyof typeof ROLE_PROCESSES, deaths: number[] = []): Promise<number | null> {
    const child = this.#spawn(
      name,
      ["cli/postrider.js", "serve", "--role", ROLE_PROCESSES[name]],
      this.#found,
    );
    const report = await firstReport(child, name);
    if (report.kind === "failed") throw new StartError(report.reason);
    child.once("exit", () => {
      if (this.#isStopping) return;
      const recent = [...deaths, performance.now()].filter(
        (at) => performance.now() - at < RESTARTS_WITHIN_MS,
      );
      if (recent.length > RESTARTS_MAX) {
        this.#fail(`The ${name} process keeps ending: see ${join(this.#home, "logs", `${name}.log`)}`);
        return;
      }
      say(`The ${name} process ended and is started again`);
      setTimeout(
        () => {
          this.#startRole(name, recent).catch((error: unknown) =>
            this.#fail(error instanceof Error ? error.message : String(error)),
          );
        },
        100 * 2 ** recent.length,
      );
    });
    return report.kind === "ready" ? report.port : null;
  }

  #spawn(name: string, args: readonly string[], found: Env): ChildProcess {
    const [script, ...rest] = args as [string, ...string[]];
    const log = openSync(join(this.#home, "logs", `${name}.log`), "a");
    const env = childEnv(
      Object.fromEntries(Object.entries(found).filter(([key]) => key === key.toUpperCase())),
    );
    // a group of its own: Ctrl-C reaches the root alone, which ends the others in order
    const child = spawn(process.execPath, ["--enable-source-maps", dist(script), ...rest], {
      stdio: ["ignore", log, log, "ipc"],
      detached: true,
      env,
    });
    this.#children.set(name, child);
    if (child.pid !== undefined) this.#pids[name] = child.pid;
    if (existsSync(this.#readyFile())) this.#notePids();
    return child;
  }

  #fail(reason: string): void {
    if (this.#isStopping) return;
    process.stderr.write(`${reason}\n`);
    this.stop(1);
  }

  /** The guard may have been killed before it could end what it held. */
  #killStores(): void {
    for (const name of ["postgres", "redis"]) {
      const pid = this.#pids[name];
      if (pid === undefined) continue;
      try {
        process.kill(pid, name === "postgres" ? "SIGQUIT" : "SIGTERM");
      } catch {
        // it is gone already
      }
    }
  }

  #secret(): string {
    const file = join(this.#home, "secret");
    if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString("hex"), { mode: 0o600 });
    return readFileSync(file, "utf8").trim();
  }

  #refuseSecondRoot(): void {
    if (!existsSync(this.#readyFile())) return;
    const { pids, base_url } = JSON.parse(readFileSync(this.#readyFile(), "utf8")) as {
      pids: { root: number };
      base_url: string;
    };
    if (isOurRoot(pids.root))
      throw new StartError(`Postrider already runs here: ${base_url} (pid ${pids.root})`);
  }

  #writeReady(baseUrl: string, demo: Demo): void {
    const { database_url = null, redis_url = null, mailbox_url = null, SMTP_URL = null } = this.#found;
    const ready = {
      base_url: baseUrl,
      api_key: demo.apiKey,
      workspace_id: demo.workspaceId,
      audience_id: demo.audienceId,
      console_url: null,
      console_email: null,
      console_password: null,
      mailbox_url,
      database_url,
      redis_url,
      smtp_url: SMTP_URL,
      pids: this.#pids,
    };
    writeWhole(this.#readyFile(), JSON.stringify(ready, null, 2));
  }

  /** A role that was started again has another pid. */
  #notePids(): void {
    const ready = JSON.parse(readFileSync(this.#readyFile(), "utf8")) as object;
    writeWhole(this.#readyFile(), JSON.stringify({ ...ready, pids: this.#pids }, null, 2));
  }

  #readyFile(): string {
    return join(this.#home, "ready.json");
  }
}

function firstReport(child: ChildProcess, name: string): Promise<Report> {
  return new Promise((resolve, reject) => {
    child.on("message", (message: Report) => {
      if (message.kind === "progress") say(message.line);
      else resolve(message);
    });
    child.once("exit", (status) =>
      reject(
        new StartError(`The ${name} process ended with status ${status} while it was starting: see its log`),
      ),
    );
  });
}

function end(child: ChildProcess, ms: number): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), ms);
    child.once("exit", () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

async function untilReady(baseUrl: string): Promise<void> {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const response = await fetch(`${baseUrl}/readyz`).catch(() => null);
    if (response?.ok) return;
    if (performance.now() > deadline) throw new StartError("The api did not become ready");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function writeWhole(file: string, text: string): void {
  const making = `${file}.${process.pid}`;
  writeFileSync(making, text, { mode: 0o600 });
  renameSync(making, file);
}

function isOurRoot(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("main.js");
  } catch {
    return false;
  }
}

function dist(script: string): string {
  return fileURLToPath(new URL(script, import.meta.url));
}

function say(line: string): void {
  process.stdout.write(`${line} ...\n`);
}

function banner(baseUrl: string, demo: Demo, mailboxUrl: string | null, home: string): void {
  const mail = `{"from":"Demo <demo@example.com>","to":"you@example.com","subject":"Hello","html":"<p>It works.</p>"}`;
  const curl = (path: string, body: string) =>
    `curl -X POST ${baseUrl}/api/v1${path} \\\n    -H 'Authorization: Bearer ${demo.apiKey}' \\\n    -H 'Content-Type: application/json' \\\n    -d '${body}'`;
  process.stdout.write(`
Postrider is ready.

  API      ${baseUrl}/api/v1
  key      ${demo.apiKey}
  mailbox  ${mailboxUrl ? `${mailboxUrl}/messages` : "none: mail goes to SMTP_URL"}
  data     ${home} (logs in ${join(home, "logs")})

  The demo workspace is on the pro plan, and its sending caps are fixed far above what you need.

  One mail:
  ${curl("/emails", mail)}

  A batch:
  ${curl("/emails/batch", `[${mail},${mail.replace("you@", "me@")}]`)}

Ctrl-C stops everything.
`);
}

async function start(): Promise<void> {
  let root: Root | null = null;
  try {
    root = new Root(loadConfig());
    await root.start();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
    if (root && !(error instanceof ConfigError)) await root.stop(1);
    process.exit(error instanceof ConfigError ? CONFIG_EXIT : 1);
  }
}

await start();
