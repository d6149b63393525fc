/** Every connection of a process: opened here, handed down by serve.ts, closed together. */
import type { Logger } from "pino";
import { connectRecord, type Pool, type Sql } from "../record/db/connect.ts";
import { isMigrated } from "../record/db/migrate.ts";
import { clockTime } from "../record/db/time.ts";
import { connectRedis, type Purpose } from "../redis/connect.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { type RecordClock, recordClock } from "./recordclock.ts";
import { isOfStoreClient } from "./survive.ts";

const STORE_WAIT_MS = 30_000;
const STORE_POLL_MS = 250;
const POSTGRES = "Postgres (DATABASE_URL)";
const REDIS = "Redis (REDIS_URL)";
const CLOSE_SECONDS_MAX = 0.5;

/** What a process needs and does not have: said in one line, with exit status 1. */
export class StartError extends Error {}

export class Stores {
  readonly #databaseUrl: string;
  readonly #redisUrl: string;
  readonly #timeoutMs: number;
  readonly #log: Logger;
  readonly #pools: Sql[] = [];
  readonly #clients: RedisClient[] = [];
  #clock: RecordClock | null = null;
  #unfollow = () => {};

  constructor(databaseUrl: string, redisUrl: string, timeoutMs: number, log: Logger) {
    this.#databaseUrl = databaseUrl;
    this.#redisUrl = redisUrl;
    this.#timeoutMs = timeoutMs;
    this.#log = log;
  }

  sql(pool: Pool): Sql {
    const sql = connectRecord(this.#databaseUrl, pool, this.#timeoutMs);
    this.#pools.push(sql);
    return sql;
  }

  async redis(purpose: Purpose): Promise<RedisClient> {
    const client = connectRedis(this.#redisUrl, purpose, this.#timeoutMs);
    // lost connections show in the commands that fail
    client.on("error", (error) => this.#log.debug({ err: error }, "Redis connection"));
    this.#clients.push(client);
    // the client connects again by itself; a first attempt that fails is no reason to give up
    if (client.status !== "ready")
      await inTime(REDIS, new Promise((resolve) => client.once("ready", resolve)));
    return client;
  }

  /** Waits for stores that are still starting, or says which one is not there; hands back the time of Postgres. */
  async ready(): Promise<RecordClock> {
    const sql = this.sql("setup");
    await until(POSTGRES, () => inTime(POSTGRES, sql`select 1`));
    const redis = connectRedis(this.#redisUrl, "admission", this.#timeoutMs);
    redis.on("error", (error) => this.#log.debug({ err: error }, "Redis connection"));
    this.#clients.push(redis);
    await until(REDIS, () => inTime(REDIS, redis.ping()));
    this.#clock = await recordClock(() => clockTime(sql));
    this.#unfollow = this.#clock.follow((fault) => this.#tellClock(fault));
    return this.#clock;
  }

  /** Does `work` again when the stores go away in the middle of it: it must be safe to repeat. */
  persevere(work: () => Promise<void>): Promise<void> {
    return until(POSTGRES, work, isOfStoreClient);
  }

  async check(): Promise<{ ready: boolean; checks: Record<string, string> }> {
    const [sql, redis] = [this.#pools[0] as Sql, this.#clients[0] as RedisClient];
    const results = await Promise.all([
      named("postgres", this.#timeoutMs, async () => void (await sql`select 1`)),
      named("redis", this.#timeoutMs, async () => void (await redis.ping())),
      named("migrations", this.#timeoutMs, async () => {
        if (!(await isMigrated(sql))) throw new Error("not applied");
      }),
    ]);
    results.push(["clock", this.#clock?.fault ?? "ok"]);
    return { ready: results.every(([, state]) => state === "ok"), checks: Object.fromEntries(results) };
  }

  #tellClock(fault: string | null): void {
    if (fault === null) this.#log.info("The clock of this machine agrees with Postgres again.");
    else
      this.#log.error(
        `The clock of this machine is ${fault}, and one of them is wrong (does NTP run on both?). Until they agree this process is not ready.`,
      );
  }

  async close(): Promise<void> {
    this.#unfollow();
    await Promise.all(this.#pools.map((sql) => sql.end({ timeout: CLOSE_SECONDS_MAX }).catch(() => {})));
    for (const client of this.#clients) client.disconnect();
  }
}

async function named(name: string, ms: number, check: () => Promise<void>): Promise<[string, string]> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer")), ms);
  });
  try {
    await Promise.race([check(), late]);
    return [name, "ok"];
  } catch (error) {
    return [name, error instanceof Error && error.message === "not applied" ? "not applied" : "no answer"];
  } finally {
    clearTimeout(timer);
  }
}

async function until(
  name: string,
  ask: () => PromiseLike<unknown>,
  passes: (error: unknown) => boolean = () => true,
): Promise<void> {
  const deadline = performance.now() + STORE_WAIT_MS;
  for (;;) {
    try {
      await ask();
      return;
    } catch (error) {
      if (error instanceof StartError || !passes(error)) throw error;
      if (performance.now() > deadline) throw silent(name, error);
      await new Promise((resolve) => setTimeout(resolve, STORE_POLL_MS));
    }
  }
}

/** A store may also say nothing at all. */
async function inTime(name: string, answer: PromiseLike<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(silent(name)), STORE_WAIT_MS);
  });
  await Promise.race([answer, late]).finally(() => clearTimeout(timer));
}

function silent(name: string, error?: unknown): StartError {
  const why = error === undefined ? "" : `: ${error instanceof Error ? error.message : error}`;
  return new StartError(`${name} did not answer within ${STORE_WAIT_MS / 1000} s${why}`);
}
