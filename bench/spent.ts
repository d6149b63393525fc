/** What a load used besides CPU: of Redis, Postgres and the network. All of these only rise. */
import { readFileSync } from "node:fs";
import type { Sql } from "../src/record/db/connect.ts";
import type { RedisClient } from "../src/redis/scripts.ts";
import type { Role } from "./machine.ts";

export type Spent = {
  redisCommands: number;
  redisBytes: number;
  commits: number;
  walBytes: number;
  tableBytes: number;
  /** Read and written by each role, from and to everybody. */
  bytesOf: Record<string, number>;
};

export async function spentSoFar(sql: Sql, redis: RedisClient, roles: readonly Role[]): Promise<Spent> {
  const [row] = await sql<{ wal: number; tables: number; commits: number }[]>`
    select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal,
           pg_database_size(current_database())::float8 as tables,
           (select xact_commit from pg_stat_database where datname = current_database())::float8 as commits`;
  const info = await redis.info("stats");
  const ofRedis = (name: string) => Number(new RegExp(`${name}:(\\d+)`).exec(info)?.[1]);
  return {
    redisCommands: ofRedis("total_commands_processed"),
    redisBytes: ofRedis("total_net_input_bytes") + ofRedis("total_net_output_bytes"),
    commits: row?.commits ?? 0,
    walBytes: row?.wal ?? 0,
    tableBytes: row?.tables ?? 0,
    bytesOf: Object.fromEntries(roles.map(({ name, pid }) => [name, bytesOf(pid)])),
  };
}

/** For each of so many e-mails. */
export function spentEach(before: Spent, after: Spent, mails: number): Spent {
  const each = (name: Exclude<keyof Spent, "bytesOf">) => (after[name] - before[name]) / mails;
  return {
    redisCommands: each("redisCommands"),
    redisBytes: each("redisBytes"),
    commits: each("commits"),
    walBytes: each("walBytes"),
    tableBytes: each("tableBytes"),
    bytesOf: Object.fromEntries(
      Object.entries(after.bytesOf).map(([name, bytes]) => [
        name,
        (bytes - (before.bytesOf[name] ?? 0)) / mails,
      ]),
    ),
  };
}

/** What a process has read and written, files included, of which there are few. */
function bytesOf(pid: number): number {
  const io = readFileSync(`/proc/${pid}/io`, "utf8");
  return [/rchar: (\d+)/, /wchar: (\d+)/].reduce((sum, of) => sum + Number(of.exec(io)?.[1]), 0);
}
