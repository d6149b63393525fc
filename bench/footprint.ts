/**
 * What processes use that have little to do: memory as the kernel divides it (pages that several share count
 * in parts), and CPU to the nanosecond, where Linux' own count of a process has steps of 10 ms.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Sql } from "../src/record/db/connect.ts";
import type { RedisClient } from "../src/redis/scripts.ts";
import { tree } from "./meter.ts";
import { after } from "./until.ts";

export type Footprint = { pssMb: number; rssMb: number; cpuMs: number };

/** Of the processes that `npm start` names in ready.json, with the children of Postgres. */
export function footprints(pids: Readonly<Record<string, number>>): Record<string, Footprint> {
  return Object.fromEntries(
    Object.entries(pids).map(([name, pid]) => [name, sum((name === "postgres" ? tree(pid) : [pid]).map(of))]),
  );
}

export function inAll(all: Readonly<Record<string, Footprint>>): Footprint {
  return sum(Object.values(all));
}

function sum(all: readonly Footprint[]): Footprint {
  const total = (pick: (one: Footprint) => number) => all.reduce((sum, one) => sum + pick(one), 0);
  return {
    pssMb: total((one) => one.pssMb),
    rssMb: total((one) => one.rssMb),
    cpuMs: total((one) => one.cpuMs),
  };
}

type Watched = { pids: Readonly<Record<string, number>>; sql: Sql; redis: RedisClient };

/** How much CPU each process used in this time, and how often the stores were asked. */
export async function watched({ pids, sql, redis }: Watched, ms: number) {
  const [before, callsBefore, began] = [footprints(pids), await storeCalls(sql, redis), performance.now()];
  await after(ms);
  const [now, calls, passedMs] = [footprints(pids), await storeCalls(sql, redis), performance.now() - began];
  const percentOf = (name: string) => {
    const used = (now[name]?.cpuMs ?? 0) - (before[name]?.cpuMs ?? 0);
    return (100 * used) / passedMs;
  };
  return {
    cpuPercent: Object.fromEntries(Object.keys(now).map((name) => [name, percentOf(name)])),
    transactionsPerSecond: ((calls.postgres - callsBefore.postgres) * 1000) / passedMs,
    commandsPerSecond: ((calls.redis - callsBefore.redis) * 1000) / passedMs,
  };
}

/** Transactions that Postgres has ended and commands that Redis has done, both since they started. */
async function storeCalls(sql: Sql, redis: RedisClient): Promise<{ postgres: number; redis: number }> {
  const [row] = await sql<{ count: number }[]>`
    select (xact_commit + xact_rollback)::float8 as count from pg_stat_database where datname = current_database()`;
  const commands = /^total_commands_processed:(\d+)/m.exec(await redis.info("stats"))?.[1];
  return { postgres: row?.count ?? 0, redis: Number(commands) };
}

function of(pid: number): Footprint {
  const memory = read(`/proc/${pid}/smaps_rollup`);
  const mb = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(memory)?.[1] ?? 0) / 1024;
  return { pssMb: mb("Pss"), rssMb: mb("Rss"), cpuMs: cpuMs(pid) };
}

function cpuMs(pid: number): number {
  let ns = 0;
  for (const thread of threads(pid))
    ns += Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(" ")[0]);
  return ns / 1e6;
}

function threads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // the process has ended
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
