/**
 * The stores of a campaign: a Postgres and a Redis of its own, which can be stopped, started again, filled,
 * emptied and taken back to an older state. Every look of the campaign itself into Postgres is a connection
 * of its own, since any of them may be ended at any moment.
 */
import { copyFileSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { type Postgres, startPostgres } from "../../../src/embedded/postgres.ts";
import { type RedisServer, startRedis } from "../../../src/embedded/redis.ts";
import { connectRecord, type Sql } from "../../../src/record/db/connect.ts";
import { pause } from "../../rig/pause.ts";

export type { Sql };

const LOOK_MS_MAX = 60_000;
const CONNECT_MS_MAX = 5_000;
const RETRY_MS = 200;

/** Statements that write fail as on a full disk while this is set. The engine knows nothing of it. */
const FULL_DISK = `
  create table campaign_disk (is_full boolean not null);
  insert into campaign_disk values (false);
  create function campaign_write() returns trigger language plpgsql as $$
  begin
    if (select is_full from campaign_disk) then
      raise exception 'could not extend file: No space left on device' using errcode = '53100';
    end if;
    return null;
  end $$;`;
const WRITTEN_TABLES = [
  "email",
  "body",
  "bag",
  "due",
  "claim",
  "tally",
  "contact",
  "event",
  "run",
  "run_step",
];

/** Stores that are used together. The first of several is home. */
export type Cell = { name: string; postgres: PostgresStore; redis: RedisStore };

const CELL_NAMES = ["east", "west"] as const;
export const CELLS_MAX = CELL_NAMES.length;

export function startCells(folder: string, count: number): Promise<Cell[]> {
  return Promise.all(
    CELL_NAMES.slice(0, count).map(async (name) => {
      const own = join(folder, name);
      mkdirSync(own);
      const [postgres, redis] = await Promise.all([PostgresStore.start(own), RedisStore.start(own)]);
      return { name, postgres, redis };
    }),
  );
}

/** CELLS_FILE, for whoever reaches the stores at these addresses; home is reached as the settings say. */
export function cellsFileOf(
  addresses: readonly { name: string; databaseUrl: string; redisUrl: string }[],
): string {
  const cells = addresses.map(({ name, databaseUrl, redisUrl }, n) => [
    name,
    n === 0 ? {} : { database_url: databaseUrl, redis_url: redisUrl },
  ]);
  return JSON.stringify({ home: addresses[0]?.name, cells: Object.fromEntries(cells) });
}

export class PostgresStore {
  readonly #folder: string;
  #server: Postgres;

  private constructor(folder: string, server: Postgres) {
    this.#folder = folder;
    this.#server = server;
  }

  static async start(folder: string): Promise<PostgresStore> {
    const own = join(folder, "postgres");
    return new PostgresStore(own, await startPostgres({ folder: own, durable: false, log: () => {} }));
  }

  /** Over TCP and past every proxy. */
  get url(): string {
    return this.#server.tcpUrl;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Ends it: politely, which tells every session, or at once, which leaves the next start to recover. */
  async stop(how: "fast" | "immediate"): Promise<void> {
    if (how === "fast") await this.#server.stop();
    else process.kill(this.#server.pid, "SIGQUIT");
    await this.#server.ended;
  }

  async start(): Promise<void> {
    const { port } = this;
    this.#server = await startPostgres({ folder: this.#folder, port, durable: false, log: () => {} });
  }

  /** Until it succeeds: Postgres may be away, and any connection may be ended. */
  async ask<T>(query: (sql: Sql) => Promise<T>): Promise<T> {
    const deadline = performance.now() + LOOK_MS_MAX;
    for (;;) {
      const sql = connectRecord(this.url, "setup", CONNECT_MS_MAX);
      try {
        return await query(sql);
      } catch (error) {
        if (performance.now() > deadline) throw error;
      } finally {
        sql.end({ timeout: 0 }).catch(() => {});
      }
      await pause(RETRY_MS);
    }
  }

  /** Ends the sessions of everybody else. */
  async terminateAll(): Promise<void> {
    await this.ask(
      (sql) =>
        sql`select pg_terminate_backend(pid) from pg_stat_activity
            where pid <> pg_backend_pid() and backend_type = 'client backend'`,
    );
  }

  /** After the migrations. */
  async prepareFullDisk(): Promise<void> {
    await this.ask(async (sql) => {
      await sql.unsafe(FULL_DISK);
      for (const table of WRITTEN_TABLES)
        await sql.unsafe(
          `create trigger campaign_full before insert or update on ${table}
           for each statement execute function campaign_write()`,
        );
    });
  }

  async setFull(isFull: boolean): Promise<void> {
    await this.ask((sql) => sql`update campaign_disk set is_full = ${isFull}`);
  }
}

export class RedisStore {
  readonly #folder: string;
  #server: RedisServer;
  readonly client: Redis;

  private constructor(folder: string, server: RedisServer) {
    this.#folder = folder;
    this.#server = server;
    this.client = new Redis(server.tcpUrl, { maxRetriesPerRequest: null });
    this.client.on("error", () => {}); // it is killed again and again
  }

  static async start(folder: string): Promise<RedisStore> {
    const own = join(folder, "redis");
    return new RedisStore(own, await startRedis({ folder: own, durable: false, log: () => {} }));
  }

  get url(): string {
    return this.#server.tcpUrl;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get hasSnapshot(): boolean {
    return existsSync(this.#snapshot);
  }

  async empty(): Promise<void> {
    await this.client.flushall();
  }

  /** What `restart` may later bring back. */
  async takeSnapshot(): Promise<void> {
    await this.client.save();
    copyFileSync(this.#dump, this.#snapshot);
    rmSync(this.#dump);
  }

  /** As a power cut would, and back with nothing, or with what it held when the snapshot was taken. */
  async restart(contents: "empty" | "old"): Promise<void> {
    const { port } = this;
    process.kill(this.#server.pid, "SIGKILL");
    await this.#server.ended;
    if (contents === "old") copyFileSync(this.#snapshot, this.#dump);
    this.#server = await startRedis({ folder: this.#folder, port, durable: false, log: () => {} });
    rmSync(this.#dump, { force: true });
  }

  async stop(): Promise<void> {
    this.client.disconnect();
    await this.#server.stop();
  }

  get #dump(): string {
    return join(this.#folder, "dump.rdb");
  }

  get #snapshot(): string {
    return join(this.#folder, "snapshot.rdb");
  }
}
