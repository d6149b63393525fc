/**
 * Connections to Postgres: small separate pools, so that a slow read cannot hold up a commit, each with a statement
 * timeout. The sockets are made here because postgres.js leaves Nagle's algorithm on (a 500-row write took 75 ms
 * instead of 6), and because on the same machine a unix socket is faster still: `?socket=/folder` in the url names it.
 */
import { connect as connectSocket, type Socket } from "node:net";
import postgres from "postgres";

export type Sql = postgres.Sql;
export type Tx = postgres.TransactionSql;
/** Asked for and not yet sent: the driver sends it when it is awaited or executed. */
export type Statement = postgres.PendingQuery<postgres.Row[]>;

export type Pool =
  | "commits"
  | "hints"
  | "reads"
  | "delivery"
  | "settling"
  | "leases"
  | "keeper"
  | "runs"
  | "setup";
const POOL_CONNECTIONS: Record<Pool, number> = {
  commits: 2,
  hints: 1,
  reads: 6,
  delivery: 4,
  settling: 1,
  leases: 1,
  keeper: 3,
  runs: 4,
  setup: 1,
};

export function connectRecord(url: string, pool: Pool, timeoutMs: number): Sql {
  const { href, socketFolder } = withoutSocket(url);
  const socket = (options: { host: string[]; port: number[] }): Socket => {
    const port = options.port[0] as number;
    return socketFolder
      ? connectSocket({ path: `${socketFolder}/.s.PGSQL.${port}` })
      : connectSocket({ host: options.host[0] as string, port, noDelay: true });
  };
  // `socket` is read by the driver but absent from its types; it must hand back an unconnected socket at once
  const options = {
    socket,
    max: POOL_CONNECTIONS[pool],
    onnotice: () => {},
    connect_timeout: Math.max(1, Math.ceil(timeoutMs / 1000)),
    backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, 1),
    connection: {
      application_name: `postrider ${pool}`,
      ...(pool === "setup" ? {} : hotStatements(timeoutMs)),
      // settling locks e-mails in the order in which its plan finds them: by index, that of their keys (lockorder.ts)
      ...(pool === "settling" ? { enable_bitmapscan: "off" } : {}),
      // what may be forgotten in a crash need not wait for the disk, nor make commits wait for it
      ...(pool === "hints" ? { synchronous_commit: "off" } : {}),
    },
  };
  return postgres(href, options);
}

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
