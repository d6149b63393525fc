import { codeOf } from "../../caught.ts";

/**
 * What an error says about a statement whose answer was lost: that it was certainly not done, or that nobody
 * knows. Of a transaction nothing is done before its commit was sent; of a connection that Postgres never let
 * in, nothing at all.
 */

const undone = new WeakSet<object>();
const lost = new WeakSet<object>();

/** Marks an error: what it ended was certainly not done. */
export function asUndone<E>(error: E): E {
  if (typeof error === "object" && error !== null) undone.add(error);
  return error;
}

/** Marks an error: it came with the end of its connection, whatever the client and Node call it. */
export function asLost(error: unknown): void {
  if (typeof error === "object" && error !== null) lost.add(error);
}

export function cameWithConnection(error: unknown): boolean {
  return typeof error === "object" && error !== null && lost.has(error);
}

/** What Node calls a certificate that it does not accept. */
const CERTIFICATE_CODES = /^(CERT_|ERR_TLS_CERT|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_(CA|PURPOSE))/;

export function isOfCertificate(error: unknown): boolean {
  return CERTIFICATE_CODES.test(codeOf(error) ?? "");
}

/** What the client and Node call a connection that cannot be made, or is lost. */
const CONNECTION_CODES =
  /^(CONNECTION_(CLOSED|ENDED|DESTROYED)|CONNECT_TIMEOUT|E(CONN(RESET|REFUSED|ABORTED)|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN))$/;
/** A statement took too long, or a lock: Postgres has undone it. */
const TOO_SLOW = new Set(["57014", "55P03", "40P01", "40001", "53200", "53300"]);

/**
 * What keeps Postgres from doing what it is asked, whoever asks, until an operator mends it; null: nothing of
 * the kind. Nothing was done.
 */
export function hindranceOf(error: unknown): Hindrance | null {
  if (!isRefusal(error)) return null;
  if (error.code === CHECK_VIOLATION) return isWithoutPartition(error) ? "partition" : null;
  return HINDRANCES[error.code] ?? null;
}

export type Hindrance = "disk" | "partition" | "postgres_rights" | "postgres_writes";
const CHECK_VIOLATION = "23514";
const HINDRANCES: Record<string, Hindrance> = {
  "25006": "postgres_writes",
  "42501": "postgres_rights",
  "53100": "disk",
};

/** A row for a day without one has the code of a broken constraint, but no constraint to name. */
function isWithoutPartition(error: object): boolean {
  return !("constraint_name" in error) || !error.constraint_name;
}

/** null: the error is about something else than a store that does not answer. */
export function fateOf(error: unknown): "not done" | "unknown" | null {
  if (!(error instanceof Error)) return null;
  const code = codeOf(error) ?? "";
  if (isRefusal(error)) return TOO_SLOW.has(error.code) || hindranceOf(error) ? "not done" : null;
  const isOfConnection =
    lost.has(error) || error.name === "PostgresError" || CONNECTION_CODES.test(String(code));
  if (!isOfConnection) return null;
  return undone.has(error) ? "not done" : "unknown";
}

/** Postgres refuses a statement, and the connection goes on: the severity is never translated. */
export function isRefusal(error: unknown): error is Error & { code: string } {
  return (
    error instanceof Error &&
    error.name === "PostgresError" &&
    (error as { severity?: string }).severity === "ERROR"
  );
}
