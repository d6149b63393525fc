/**
 * The engine in the process of the test: its roles served as in production, on the stores of the run or on
 * others, with fresh workspaces to use it with. What it complains about in its log is kept.
 */
import pino from "pino";
import { Attempts } from "../../src/admission/attempts.ts";
import { Keyring } from "../../src/admission/keyring.ts";
import type { Clock } from "../../src/clock.ts";
import { type Env, loadConfig } from "../../src/config.ts";
import { RESET_FROM_NETWORK, SIGN_IN_FROM_NETWORK } from "../../src/console/signin.ts";
import { type Serving, serve } from "../../src/process/serve.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { connectRedis } from "../../src/redis/connect.ts";
import type { RedisClient } from "../../src/redis/scripts.ts";
import type { Overrides, Plan } from "../../src/rules/plans.ts";
import type { Role } from "../../src/rules/roles.ts";
import { services } from "./services.ts";
import { freshWorkspace, SECRET, type TestWorkspace } from "./workspace.ts";

const LOOK_MS_MAX = 20_000;
/** The same, since a database belongs to one. */
export const SERVER_SECRET = SECRET;

export type EngineOptions = {
  databaseUrl?: string;
  redisUrl?: string;
  smtpUrl?: string;
  clock?: Clock;
  /** Settings by the names of their environment variables. */
  settings?: Env;
};

/** These work on whatever is due in a store, so they would take what belongs to other test files. */
const GREEDY: readonly Role[] = ["deliver", "keeper", "automate", "inbound", "webhooks"];

/** What the engine's environment would say. Its secret is the same for all processes of the tests. */
export function settingsOf(options: EngineOptions): Env {
  const { databaseUrl, redisUrl } = { ...services(), ...options };
  return {
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    SMTP_URL: options.smtpUrl,
    POSTRIDER_SECRET: SERVER_SECRET,
    PORT: "0",
    // a process holds each row that Postgres answers to its declared shape
    NODE_ENV: "test",
    // on a busy machine each answer of a store may take seconds
    STORE_TIMEOUT_MS: "10000",
    // most tests write from domains that nobody has verified
    REQUIRE_VERIFIED_DOMAINS: "false",
    ...options.settings,
  };
}

export async function startEngine(
  roles: readonly Role[] = ["api"],
  options: EngineOptions = {},
): Promise<Engine> {
  const isSharing = options.databaseUrl === undefined || options.redisUrl === undefined;
  if (isSharing && roles.some((role) => GREEDY.includes(role)))
    throw new Error(`an engine with the roles ${roles} needs ownDatabase() and ownRedis()`);
  const complaints: Complaint[] = [];
  const log = pino({ level: "error" }, { write: (line: string) => complaints.push(JSON.parse(line)) });
  const serving = await serve(loadConfig(settingsOf(options)), roles, log, options.clock);
  const { databaseUrl, redisUrl } = { ...services(), ...options };
  const { clock = { now: Date.now, given: () => 0 } } = options;
  const engine = new Engine(serving, databaseUrl, redisUrl, clock, complaints);
  if (options.redisUrl === undefined && roles.includes("console")) await forgetVisits(engine.redis);
  return engine;
}

/**
 * All files of a run come from one address. Together they sign in more than a hundred times in a quarter of
 * an hour, which nobody may; each file by itself does not.
 */
async function forgetVisits(redis: RedisClient): Promise<void> {
  const attempts = new Attempts(redis);
  for (const limit of [SIGN_IN_FROM_NETWORK, RESET_FROM_NETWORK]) await attempts.forget(limit, "127.0.0.1");
}

/** A line of the log, errors and worse. */
export type Complaint = { level: number; msg: string; err?: { message: string; stack: string } };

export class Engine {
  /** Where the api listens. */
  readonly url: string;
  /** Of `inbound`. */
  readonly inboundPort: number;
  /** Of `submission`: with STARTTLS, and with TLS from the first byte. */
  readonly submissionPort: number;
  readonly submissionTlsPort: number;
  /** Where metrics are told; null: nowhere. */
  readonly metricsPort: number | null;
  /** Of `console`, whose pages are below /console. */
  readonly consoleUrl: string;
  readonly complaints: readonly Complaint[];
  /** Connections of the test's own, to look into the stores behind the engine's back. */
  readonly sql: Sql;
  readonly redis: RedisClient;
  readonly keyring: Keyring;
  readonly #serving: Serving;

  constructor(
    serving: Serving,
    databaseUrl: string,
    redisUrl: string,
    clock: Clock,
    complaints: readonly Complaint[],
  ) {
    this.#serving = serving;
    this.url = `http://127.0.0.1:${serving.port}`;
    this.inboundPort = serving.inboundPort ?? 0;
    this.submissionPort = serving.submissionPort ?? 0;
    this.submissionTlsPort = serving.submissionTlsPort ?? 0;
    this.metricsPort = serving.metricsPort;
    this.consoleUrl = `http://127.0.0.1:${serving.consolePort ?? 0}`;
    this.complaints = complaints;
    this.sql = connectRecord(databaseUrl, "setup", LOOK_MS_MAX);
    this.redis = connectRedis(redisUrl, "worker", LOOK_MS_MAX);
    this.redis.on("error", () => {}); // commands that fail say so themselves
    this.keyring = new Keyring({ redis: this.redis, sql: this.sql, serverSecret: SERVER_SECRET, clock });
  }

  workspace(plan?: Plan, limits?: Overrides): Promise<TestWorkspace> {
    return freshWorkspace(this.keyring, this.url, plan, limits);
  }

  async stop(): Promise<void> {
    await this.#serving.stop();
    this.redis.disconnect();
    await this.sql.end({ timeout: 1 });
  }
}
