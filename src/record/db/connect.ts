/**
 * Connections to Postgres: small separate pools, so that a slow read cannot hold up a commit, each with a statement
 * timeout. The sockets are made here because postgres.js leaves Nagle's algorithm on (a 500-row write took 75 ms
 * instead of 6), and because on the same machine a unix socket is faster still: `?socket=/folder` in the url names it.
 */
import { connect as connectSocket } from "node:net";
import postgres from "postgres";
import { Counter, Histogram, SECONDS } from "../../meter.ts";
import { arrayTypes } from "./arraytypes.ts";
import { openPool } from "./pool.ts";
import type { Sql } from "./statement.ts";

export type { Sql, Statement, Tx } from "./statement.ts";

export type PoolName =
  | "commits"
  | "hints"
  | "reads"
  | "delivery"
  | "settling"
  | "leases"
  | "keeper"
  | "retention"
  | "runs"
  | "intake"
  | "reports"
  | "webhooks"
  | "setup";
const POOL_CONNECTIONS: Record<PoolName, number> = {
  commits: 2,
  hints: 1,
  reads: 6,
  delivery: 4,
  settling: 1,
  leases: 1,
  keeper: 3,
  retention: 1,
  runs: 4,
  intake: 1,
  reports: 1,
  webhooks: 2,
  setup: 1,
};

/**
 * Postgres answers within the statement timeout, unless a statement sets its own. We wait through a pause of some
 * seconds and for a slow connection: on an overloaded machine, connecting again makes it worse. Callers have their own
 * deadlines.
 */
const SILENT_TIMEOUTS_MAX = 15;
const SILENT_READ_TIMEOUTS_MAX = 5;
const CONNECT_SECONDS_MIN = 10;

const TOOK = new Histogram(
  "postrider_postgres_seconds",
  "How long callers waited for a statement in Postgres",
  SECONDS,
  ["pool"],
);
const FAILED = new Counter(
  "postrider_postgres_errors_total",
  "Statements that failed: refused by Postgres, or lost with their connection",
  ["pool", "error"],
);

/** Is told of each statement how long its caller waited. */
export type StatementWatch = (pool: PoolName, ms: number, text: () => string) => void;

export function connectRecord(url: string, pool: PoolName, timeoutMs: number, watch?: StatementWatch): Sql {
  const { href, socketFolder } = withoutSocket(url);
  return openPool(POOL_CONNECTIONS[pool], pool, {
    silenceMsMax: silenceOf(pool, timeoutMs),
    onAnswer(ms, failure, text) {
      TOOK.note(ms / 1_000, pool);
      if (failure !== null) FAILED.add(1, pool, failure);
      watch?.(pool, ms, text);
    },
    connect: ({ host: [host], port: [port] }) =>
      socketFolder
        ? connectSocket({ path: `${socketFolder}/.s.PGSQL.${port}` })
        : connectSocket({ host: host as string, port: port as number, noDelay: true }),
    client: ({ socket, onLost }) => {
      // `socket` is read by the driver but absent from its types; it must hand back an unconnected socket at once
      const options = {
        socket,
        onclose: onLost,
        max: 1,
        // the pool replaces connections, and ends none that is in a transaction
        max_lifetime: null,
        fetch_types: false,
        types: arrayTypes(),
        onnotice: () => {},
        connect_timeout: Math.max(CONNECT_SECONDS_MIN, Math.ceil(timeoutMs / 1000)),
        connection: {
          application_name: `postrider ${pool}`,
          ...settingsOf(pool, timeoutMs),
          // settling locks e-mails in the order in which its plan finds them: by index, that of their keys (lockorder.ts)
          ...(pool === "settling" ? { enable_bitmapscan: "off" } : {}),
          // data that a crash may lose does not wait for the disk, and commits do not wait behind it
          ...(pool === "hints" ? { synchronous_commit: "off" } : {}),
        },
      };
      return postgres(href, options);
    },
  });
}

function silenceOf(pool: PoolName, timeoutMs: number): number | null {
  if (pool === "setup") return null;
  return (pool === "reads" ? SILENT_READ_TIMEOUTS_MAX : SILENT_TIMEOUTS_MAX) * timeoutMs;
}

function settingsOf(pool: PoolName, timeoutMs: number) {
  if (pool === "setup") return {};
  return pool === "retention" ? RETENTION : hotStatements(timeoutMs);
}

/** Detaching may wait long in the background; a step that makes others wait gives up soon. */
const RETENTION = { statement_timeout: 30_000, lock_timeout: 1_000 };

/**
 * Statements that run thousands of times are planned once, by index. A plan made while a day's partition was still
 * empty scans it, and went on scanning it at 100,000 rows: settling fell from 7,000 to 2,000 e-mails/s.
 */
function hotStatements(timeoutMs: number) {
  return {
    statement_timeout: timeoutMs,
    idle_in_transaction_session_timeout: 2 * timeoutMs,
    plan_cache_mode: "force_generic_plan",
    enable_seqscan: "off",
  };
}

function withoutSocket(url: string): { href: string; socketFolder: string | null } {
  const parsed = new URL(url);
  const socketFolder = parsed.searchParams.get("socket");
  parsed.searchParams.delete("socket");
  return { href: parsed.href, socketFolder };
}
