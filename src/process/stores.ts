/** Every connection of a process: opened here, handed down by serve.ts, closed together. */

import type { Logger } from "pino";
import { inTime } from "../clock.ts";
import { throughPooler } from "../config.ts";
import { canCommit } from "../record/db/cancommit.ts";
import { connectRecord, type PoolName, type Sql, type StatementWatch } from "../record/db/connect.ts";
import { hindranceOf } from "../record/db/lost.ts";
import { isMigrated } from "../record/db/migrate.ts";
import { pastPooler } from "../record/db/pooler.ts";
import { Replica, type ReplicaTrouble } from "../record/db/replica.ts";
import { clockTime } from "../record/db/time.ts";
import { expectSupported, majorVersion } from "../record/db/version.ts";
import { tellingFault } from "../redis/anotherserver.ts";
import { canWrite, infoOf } from "../redis/canwrite.ts";
import { connected, connectRedis, type Purpose } from "../redis/connect.ts";
import { missingRight } from "../redis/rights.ts";
import type { RedisClient } from "../redis/scripts.ts";
import { slowStatements } from "./lifelog.ts";
import { type RecordClock, recordClock } from "./recordclock.ts";
import { isOfStoreClient } from "./survive.ts";
import {
  isMisconfigured,
  postgresAt,
  redisAt,
  replicaAt,
  type Store,
  unreachable,
  whyNot,
} from "./unreachable.ts";

const ANSWER_MS_MAX = 10_000;
const STORE_POLL_MS = 250;
const CLOSE_SECONDS_MAX = 0.5;
/**
 * How long a read replica may be silent; of STORE_TIMEOUT_MS enough is left for the primary to answer in its
 * place.
 */
const REPLICA_MS_MAX = 1_000;
const REPLICA_PART = 0.25;
/** A check waits so long of its time for each server of a cluster, so that those that answer count. */
const SERVER_PART = 0.75;

/** Something that a process needs is missing: printed in one line, with exit status 1. */
export class StartError extends Error {}

type StoresOptions = {
  databaseUrl: string;
  /** Of a standby; null: there is none. */
  readDatabaseUrl?: string | null;
  redisUrl: string;
  timeoutMs: number;
  /** How long a start waits for one answer of a store before it says so. */
  answerMsMax?: number;
  log: Logger;
  /** Is told once of each store that is not there. */
  onWaiting(line: string): void;
};

export type Readiness = { ready: boolean; checks: Record<string, string> };

export class Stores {
  #databaseUrl: string;
  readonly #readDatabaseUrl: string | null;
  readonly #redisUrl: string;
  readonly #postgres: Store;
  readonly #redis: Store;
  readonly #timeoutMs: number;
  readonly #answerMsMax: number;
  readonly #log: Logger;
  readonly #pools: Sql[] = [];
  readonly #clients: RedisClient[] = [];
  readonly #onWaiting: (line: string) => void;
  readonly #watch: StatementWatch;
  #missing: Record<string, string> = {};
  #clock: RecordClock | null = null;
  #commits: Sql | null = null;
  #replica: Replica | null = null;
  #readiness: Promise<Readiness> | null = null;
  #unfollow = () => {};
  #isClosed = false;

  constructor(options: StoresOptions) {
    const { databaseUrl, redisUrl, timeoutMs, answerMsMax = ANSWER_MS_MAX, log, onWaiting } = options;
    this.#databaseUrl = databaseUrl;
    this.#readDatabaseUrl = options.readDatabaseUrl ?? null;
    this.#redisUrl = redisUrl;
    this.#postgres = postgresAt(databaseUrl);
    this.#redis = redisAt(redisUrl);
    this.#timeoutMs = timeoutMs;
    this.#answerMsMax = answerMsMax;
    this.#log = log;
    this.#onWaiting = onWaiting;
    this.#watch = slowStatements(log, timeoutMs / 2);
  }

  sql(pool: PoolName): Sql {
    const sql = connectRecord(this.#databaseUrl, pool, this.#timeoutMs, this.#watch);
    this.#pools.push(sql);
    return sql;
  }

  /**
   * Where lists and views are read, asked anew for each answer: at the standby if there is one that keeps up.
   */
  lists(reads: Sql): () => Sql {
    const url = this.#readDatabaseUrl;
    if (url === null) return () => reads;
    this.#replica ??= this.#openReplica(url, reads);
    const replica = this.#replica;
    return () => replica.reads();
  }

  #openReplica(url: string, primary: Sql): Replica {
    const connectTo = (at: string) => {
      const sql = connectRecord(at, "lists", this.#timeoutMs, this.#watch);
      this.#pools.push(sql);
      return sql;
    };
    const replica = new Replica({
      primary,
      standby: connectTo(url),
      behindPooler: () => connectTo(throughPooler(url)),
      // not behind the reads of callers: a primary that is busy is no reason to leave the standby
      looks: this.sql("lists"),
      answerMsMax: Math.min(this.#timeoutMs * REPLICA_PART, REPLICA_MS_MAX),
      onChange: (trouble) => this.#tellReplica(url, trouble),
    });
    replica.start();
    return replica;
  }

  #tellReplica(url: string, trouble: ReplicaTrouble | null): void {
    if (trouble === null) {
      this.#log.info("the read replica answers lists and views");
      return;
    }
    const { why, error } = trouble;
    const reason =
      error === undefined ? `${why} (READ_DATABASE_URL)` : unreachable(replicaAt(url), error).message;
    this.#log.warn({ why }, `the primary answers lists and views instead of the read replica: ${reason}`);
  }

  /** A connection that whoever opens it closes. */
  openRedis(purpose: Purpose): RedisClient {
    const client = connectRedis(this.#redisUrl, purpose, this.#timeoutMs);
    // lost connections are reported by the commands that fail
    client.on("error", (error) => this.#log.debug({ err: error }, "Redis connection"));
    return client;
  }

  async redis(purpose: Purpose): Promise<RedisClient> {
    const client = this.openRedis(purpose);
    this.#clients.push(client);
    // the client connects again by itself; a first attempt that fails is no reason to give up
    if (client.status !== "ready")
      await this.#inTime(new Promise((resolve) => client.once("ready", resolve))).catch(() => {
        throw unreachable(this.#redis);
      });
    return client;
  }

  /**
   * Waits for stores that are not there, however long, and says so once; hands back the time of Postgres.
   * What waiting cannot mend, such as a wrong password, is thrown at once.
   */
  async ready(): Promise<RecordClock> {
    const sql = this.sql("setup");
    const redis = connectRedis(this.#redisUrl, "admission", this.#timeoutMs);
    let redisError: unknown;
    redis.on("error", (error) => {
      redisError = tellingFault(redisError, error);
      this.#log.debug({ err: error }, "Redis connection");
    });
    this.#clients.push(redis);
    expectSupported(await this.#until(this.#postgres, () => this.#inTime(majorVersion(sql))));
    await this.#until(this.#postgres, () => this.#inTime(this.#findPooler()));
    await this.#until(
      this.#redis,
      () => this.#inTime(connected(redis).then(() => redis.ping())),
      () => redisError,
    );
    const missing = await missingRight(redis);
    if (missing !== null) throw unreachable(this.#redis, new Error(missing));
    // asked for ever, and in one round trip
    const hints = this.sql("hints");
    this.#clock = await this.#until(this.#postgres, () => this.#inTime(recordClock(() => clockTime(hints))));
    this.#unfollow = this.#clock.follow((fault) => this.#tellClock(fault));
    return this.#clock;
  }

  /** A pooler that takes no settings with a connection is used as one. */
  async #findPooler(): Promise<void> {
    const url = await pastPooler(this.#databaseUrl, "commits", this.#timeoutMs);
    if (url === this.#databaseUrl) return;
    this.#databaseUrl = url;
    this.#log.info("Postgres is behind a pooler: transactions bring their settings, nothing is prepared");
  }

  /** Does `work` again when Postgres goes away in the middle of it: it must be safe to repeat. */
  persevere(work: () => Promise<void>): Promise<void> {
    const isAway = (error: unknown) => isOfStoreClient(error) || hindranceOf(error) === "postgres_writes";
    return this.#until(this.#postgres, work, (error) => (isAway(error) ? error : null));
  }

  /** What is waited for, and why, by the name of its check. */
  get missing(): Record<string, string> {
    return this.#missing;
  }

  /** `causeOf` finds the error that tells why, in one that does not; null: waiting does not help. */
  async #until<T>(
    store: Store,
    ask: () => PromiseLike<T>,
    causeOf: (error: unknown) => unknown = (error) => error,
  ): Promise<T> {
    for (let isFirst = true; ; isFirst = false) {
      try {
        const answer = await ask();
        if (!isFirst) this.#log.info(`${store.name} is there`);
        this.#missing = {};
        return answer;
      } catch (error) {
        const cause = error instanceof NoAnswer ? undefined : causeOf(error);
        if (cause === null || this.#isClosed) throw error;
        if (isMisconfigured(cause)) throw unreachable(store, cause);
        this.#missing = { [store.name.toLowerCase()]: whyNot(store, cause) };
        if (isFirst) {
          const { message } = unreachable(store, cause);
          this.#log.warn(`waiting for ${store.name}: ${message}`);
          this.#onWaiting(`Waiting for ${store.name}: ${message}`);
        }
        await new Promise((resolve) => setTimeout(resolve, STORE_POLL_MS));
      }
    }
  }

  /** A store may also not answer at all. */
  #inTime<T>(answer: PromiseLike<T>): Promise<T> {
    return inTime(this.#answerMsMax, answer, (): never => {
      throw new NoAnswer();
    });
  }

  /** Of a cluster, that of the master that uses most. */
  async redisMemory(): Promise<{ used: number; limit: number }> {
    const told = await infoOf(this.#clients[0] as RedisClient, "memory");
    const memories = told.map((info) => {
      const figure = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);
      return { used: figure("used_memory"), limit: figure("maxmemory") };
    });
    return memories.reduce((fullest, one) => (one.used > fullest.used ? one : fullest));
  }

  /** Whether what a send needs works now. Who asks while others do gets the same answer: anybody may ask. */
  check(): Promise<Readiness> {
    this.#readiness ??= this.#check().finally(() => {
      this.#readiness = null;
    });
    return this.#readiness;
  }

  async #check(): Promise<Readiness> {
    const redis = this.#clients[0] as RedisClient;
    this.#commits ??= this.sql("commits");
    const commits = this.#commits;
    const results = await Promise.all([
      named("postgres", this.#timeoutMs, () => canCommit(commits)),
      named("redis", this.#timeoutMs, () => canWrite(redis, this.#timeoutMs * SERVER_PART)),
      named("migrations", this.#timeoutMs, async () => ((await isMigrated(commits)) ? null : "not applied")),
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
    this.#isClosed = true;
    this.#unfollow();
    this.#replica?.stop();
    await Promise.all(this.#pools.map((sql) => sql.end({ timeout: CLOSE_SECONDS_MAX }).catch(() => {})));
    for (const client of this.#clients) client.disconnect();
  }
}

/** `check` resolves with what is wrong, or null. */
async function named(
  name: string,
  ms: number,
  check: () => Promise<string | null>,
): Promise<[string, string]> {
  try {
    return [name, (await inTime(ms, check(), () => "no answer")) ?? "ok"];
  } catch {
    return [name, "no answer"];
  }
}

class NoAnswer extends Error {}
