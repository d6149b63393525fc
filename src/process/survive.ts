/**
 * The policy for uncaught errors: when a client library of a store fails outside of our calls, the process
 * goes on; any other uncaught error is a bug of ours, and ends the process.
 */
import type { Logger } from "pino";

export function survive(log: Pick<Logger, "error">, end: () => void = () => process.exit(1)): void {
  const judge = (what: string) => (error: unknown) => {
    log.error({ err: error }, what);
    if (!isOfStoreClient(error)) end();
  };
  process.on("unhandledRejection", judge("unhandled rejection"));
  process.on("uncaughtException", judge("uncaught exception"));
}

/** What postgres.js and Node call a connection that cannot be made, or is lost. */
const CONNECTION_CODES =
  /^(CONNECTION_(CLOSED|ENDED|DESTROYED)|CONNECT_TIMEOUT|E(CONN(RESET|REFUSED|ABORTED)|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN))$/;
/**
 * Postgres hangs up (57P), the connection broke (08), or there are too many (53300). Any other code is about
 * a statement.
 */
const HANGS_UP = /^(57P|08|53300)/;
const REDIS_NAMES = /Redis|ClusterAllFailed|MaxRetries|ReplyError|AbortError/;
const REDIS_MESSAGES = /Connection is closed|Redis/;
const CLIENT_FOLDERS = /[\\/]node_modules[\\/](postgres|ioredis|bullmq)[\\/]/;

export function isOfStoreClient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { name, message, code = "", severity } = error as Error & { code?: unknown; severity?: string };
  if (name === "PostgresError") return HANGS_UP.test(String(code)) || /FATAL|PANIC/.test(severity ?? "");
  return (
    CONNECTION_CODES.test(String(code)) ||
    REDIS_NAMES.test(name) ||
    REDIS_MESSAGES.test(message) ||
    isThrownByClient(error) ||
    (error instanceof AggregateError && error.errors.every(isOfStoreClient))
  );
}

/** Our own code stands between the client and the throw when the bug is ours. */
function isThrownByClient({ stack = "" }: Error): boolean {
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  const first = frames.find((line) => !/\(?node:/.test(line));
  return first !== undefined && CLIENT_FOLDERS.test(first);
}
