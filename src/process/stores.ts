/** Every connection of a process: opened here, handed down by serve.ts, closed together. */
import type { Logger } from "pino";
import { connectRecord, type PoolName, type Sql } from "../record/db/connect.ts";
import { isMigrated } from "../record/db/migrate.ts";
import { clockTime } from "../record/db/time.ts";
import { connectRedis, type Purpose } from "../redis/connect.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { type RecordClock, recordClock } from "./recordclock.ts";
import { isOfStoreClient } from "./survive.ts";
import {
  isMisconfigured,
  postgresAt,
  redisAt,
  type Store,
  StoreUnreachable,
  unreachable,
} from "./unreachable.ts";

const STORE_WAIT_MS = 30_000;
const STORE_POLL_MS = 250;
const CLOSE_SECONDS_MAX = 0.5;

/** Something that a process needs is missing: printed in one line, with exit status 1. */
export class StartError extends Error {}

export class Stores {
  readonly #databaseUrl: string;
  readonly #redisUrl: string;
  readonly #postgres: Store;
  readonly #redis: Store;
  readonly #timeoutMs: number;
  readonly #log: Logger;
  readonly #pools: Sql[] = [];
  readonly #clients: RedisClient[] = [];
  #clock: RecordClock | null = null;
  #unfollow = () => {};

  constructor(databaseUrl: string, redisUrl: string, timeoutMs: number, log: Logger) {
    this.#databaseUrl = databaseUrl;
    this.#redisUrl = redisUrl;
    this.#postgres = postgresAt(databaseUrl);
    this.#redis = redisAt(redisUrl);
    this.#timeoutMs = timeoutMs;
    this.#log = log;
  }

  sql(pool: PoolName): Sql {
    const sql = connectRecord(this.#databaseUrl, pool, this.#timeoutMs);
    this.#pools.push(sql);
    return sql;
  }

  async redis(purpose: Purpose): Promise<RedisClient> {
    const client = connectRedis(this.#redisUrl, purpose, this.#timeoutMs);
    // lost connections are reported by the commands that fail
    client.on("error", (error) => this.#log.debug({ err: error }, "Redis connection"));
    this.#clients.push(client);
    // the client connects again by itself; a first attempt that fails is no reason to give up
    if (client.status !== "ready")
      await inTime(this.#redis, new Promise((resolve) => client.once("ready", resolve)));
    return client;
  }

  /** Waits for stores that are still starting, or says which one is not there; hands back the time of Postgres. */
  async ready(): Promise<RecordClock> {
    const sql = this.sql("setup");
    await this.#until(this.#postgres, () => inTime(this.#postgres, sql`select 1`));
    const redis = connectRedis(this.#redisUrl, "admission", this.#timeoutMs);
    redis.on("error", (error) => this.#log.debug({ err: error }, "Redis connection"));
    this.#clients.push(redis);
    await this.#until(this.#redis, () => inTime(this.#redis, redis.ping()));
    this.#clock = await recordClock(() => clockTime(sql));
    this.#unfollow = this.#clock.follow((fault) => this.#tellClock(fault));
    return this.#clock;
  }

  /** Does `work` again when the stores go away in the middle of it: it must be safe to repeat. */
  persevere(work: () => Promise<void>): Promise<void> {
    return this.#until(this.#postgres, work, isOfStoreClient);
  }

  async #until(
    store: Store,
    ask: () => PromiseLike<unknown>,
    passes: (error: unknown) => boolean = () => true,
  ): Promise<void> {
    const began = performance.now();
    for (let isFirst = true; ; isFirst = false) {
      try {
        await ask();
        return;
      } catch (error) {
        if (error instanceof StoreUnreachable || !passes(error)) throw error;
        const { message } = unreachable(store, error);
        if (isMisconfigured(error) || performance.now() - began > STORE_WAIT_MS)
          throw new StoreUnreachable(message);
        if (isFirst) this.#log.warn(`${message} Trying again for ${STORE_WAIT_MS / 1000} s.`);
        await new Promise((resolve) => setTimeout(resolve, STORE_POLL_MS));
      }
    }
  }

  async redisMemory(): Promise<{ used: number; limit: number }> {
    const info = await (this.#clients[0] as RedisClient).info("memory");
    const figure = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);
    return { used: figure("used_memory"), limit: figure("maxmemory") };
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
        `The clock of this machine is ${fault}, and one of the two clocks is wrong. Does NTP run on both? Until they agree, this process is not ready.`,
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

/** A store may also not answer at all. */
async function inTime(store: Store, answer: PromiseLike<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(unreachable(store)), STORE_WAIT_MS);
  });
  await Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
