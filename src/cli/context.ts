/**
 * What a command works with: the stores named by the environment, or those of the running `npm start`, found
 * through its ready.json.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Keyring } from "../admission/keyring.ts";
import { Reservations } from "../admission/reserve.ts";
import { codeOf, messageOf } from "../caught.ts";
import type { Clock } from "../clock.ts";
import { type Config, ConfigError, childEnv, homeFolder, loadConfig } from "../config.ts";
import { type Cell, cellNamed, cellsOf } from "../process/cells.ts";
import { recordClock } from "../process/recordclock.ts";
import { expectSecret } from "../process/secret.ts";
import { postgresAt, redisAt, storeTrouble, UNREACHABLE_EXIT, unreachable } from "../process/unreachable.ts";
import { connectRecord, type Sql } from "../record/db/connect.ts";
import { pastPooler } from "../record/db/pooler.ts";
import { clockTime } from "../record/db/time.ts";
import { findWorkspace } from "../record/workspaces/workspaces.ts";
import { tellingFault } from "../redis/anotherserver.ts";
import { connectRedis } from "../redis/connect.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { CommandError, complain, unknownWorkspace } from "./print.ts";

const COMMAND_MS_MAX = 10_000;

export type Context = {
  config: Config;
  sql: Sql;
  /** How a group commit of the command's own connects. */
  findCommits(): Promise<() => Sql>;
  redis: RedisClient;
  keyring: Keyring;
  reservations: Reservations;
  clock: Clock;
  /** For a command that goes on without Redis: why it has none. Without an error, it has not answered. */
  whyNoRedis(error?: unknown): string;
};

type ReadyContext = {
  database_url: string;
  redis_url: string;
  smtp_url: string | null;
  settings: Record<string, string>;
};

let cellName: string | null = null;

/** From now on commands work with the stores of this cell: one command runs in a process. */
export function chooseCell(name: string): void {
  cellName = name;
}

/** Of the cell that was chosen, or of home. */
export function settings(): Config {
  const config = homeSettings();
  return cellName === null ? config : cellNamed(config, cellName).config;
}

/** All that CELLS_FILE names; none without it. */
export function allCells(): readonly Cell[] {
  return cellsOf(homeSettings()) ?? [];
}

/** The settings, with what a running `npm start` says where the environment says nothing. */
function homeSettings(): Config {
  const home = homeFolder(loadConfig());
  const readyFile = join(home, "ready.json");
  const secretFile = join(home, "secret");
  const ready = existsSync(readyFile) ? (JSON.parse(readFileSync(readyFile, "utf8")) as ReadyContext) : null;
  const config = loadConfig(childEnv({}, ready?.settings ?? {}));
  return {
    ...config,
    databaseUrl: config.databaseUrl ?? ready?.database_url ?? null,
    redisUrl: config.redisUrl ?? ready?.redis_url ?? null,
    smtpUrl: config.smtpUrl ?? ((config.courier === "relay" && ready?.smtp_url) || null),
    secret: config.secret ?? (existsSync(secretFile) ? readFileSync(secretFile, "utf8").trim() : null),
  };
}

/** Runs a command with its stores, and lets go of them. */
export async function withContext<T>(
  run: (context: Context) => Promise<T>,
  { isLong = false }: { isLong?: boolean } = {},
): Promise<T> {
  const config = settings();
  const { databaseUrl, redisUrl, secret } = config;
  if (databaseUrl === null || redisUrl === null)
    throw new ConfigError(
      `There is no running engine in ${homeFolder(config)} (POSTRIDER_HOME), and no settings that name its stores. Start it with \`npm start\`, or set DATABASE_URL and REDIS_URL.`,
    );
  const sql = connectRecord(databaseUrl, "setup", COMMAND_MS_MAX);
  const redis = connectRedis(redisUrl, "command", COMMAND_MS_MAX);
  const stores = {
    postgres: postgresAt(databaseUrl),
    redis: redisAt(redisUrl),
    redisConnection: undefined as unknown,
  };
  redis.on("error", (error) => {
    stores.redisConnection = tellingFault(stores.redisConnection, error);
  });
  let hasPostgres = false;
  const late = setTimeout(() => {
    if (isLong && hasPostgres) return;
    const lacksRedis = hasPostgres && redis.status !== "ready";
    complain(unreachable(lacksRedis ? stores.redis : stores.postgres).message);
    process.exit(UNREACHABLE_EXIT);
  }, COMMAND_MS_MAX);
  try {
    const clock = await recordClock(() => clockTime(sql));
    hasPostgres = true;
    const keyring = new Keyring({ redis, sql, serverSecret: secret ?? "", clock });
    const reservations = new Reservations(redis, sql, clock);
    const findCommits = async () => {
      const url = await pastPooler(databaseUrl, "commits", COMMAND_MS_MAX);
      return () => connectRecord(url, "commits", COMMAND_MS_MAX);
    };
    const whyNoRedis = (error: unknown = stores.redisConnection) =>
      messageOf(storeTrouble(error, stores) ?? error ?? unreachable(stores.redis));
    return await run({ config, sql, findCommits, redis, keyring, reservations, clock, whyNoRedis });
  } catch (error) {
    throw storeTrouble(error, stores) ?? lackOfTables(error) ?? lackOfRights(error) ?? error;
  } finally {
    clearTimeout(late);
    await sql.end({ timeout: 1 });
    redis.disconnect();
  }
}

/** Of Postgres: no such column, function or table. */
const MISSING = ["42703", "42883", "42P01"];

/** null: the error is about something else. */
function lackOfTables(error: unknown): CommandError | null {
  if (!MISSING.includes(codeOf(error) ?? "")) return null;
  return new CommandError(
    `The database lacks tables of this version: ${messageOf(error)}. Run \`postrider migrate\`.`,
  );
}

/** Of Postgres: the user may not. */
const NOT_PERMITTED = "42501";

/** null: the error is about something else. */
function lackOfRights(error: unknown): CommandError | null {
  if (codeOf(error) !== NOT_PERMITTED) return null;
  return new CommandError(
    `The user of DATABASE_URL lacks a right: ${messageOf(error)}. Run ops/postgres-roles.sql in this database.`,
  );
}

/** A mistyped id looks like a workspace that has nothing, and what is stored for it helps nobody. */
export async function expectWorkspace({ sql }: Context, id: string): Promise<void> {
  if (!(await findWorkspace(sql, id))) throw unknownWorkspace(id);
}

/** The secret of the engine: what a command makes under another one, no process could use. */
export async function requireSecret({ config, sql }: Context): Promise<string> {
  if (config.secret === null)
    throw new ConfigError("POSTRIDER_SECRET is not set. Set it to the value that the engine runs with.");
  await expectSecret(sql, config.secret);
  return config.secret;
}
