/**
 * The error for a store that cannot be used, in one line for the operator: which store, where, which setting,
 * and what to check. A process or command that ends for this reason has its own exit status.
 */

import { cameWithConnection, isOfCertificate } from "../record/db/lost.ts";
import { TlsRefused } from "../record/db/session.ts";
import { isAnotherServer } from "../redis/anotherserver.ts";
import { writeRefusal, writeRefusalWords } from "../redis/writerefusal.ts";
import { type HostPort, readRedisUrl } from "../rules/redisurl.ts";

const POSTGRES_PORT = 5432;
/** EX_UNAVAILABLE. */
export const UNREACHABLE_EXIT = 69;

export class StoreUnreachable extends Error {}

export type Store = {
  name: "Postgres" | "Redis";
  setting: "DATABASE_URL" | "READ_DATABASE_URL" | "REDIS_URL";
  url: string;
};

export function postgresAt(url: string): Store {
  return { name: "Postgres", setting: "DATABASE_URL", url };
}

export function replicaAt(url: string): Store {
  return { name: "Postgres", setting: "READ_DATABASE_URL", url };
}

export function redisAt(url: string): Store {
  return { name: "Redis", setting: "REDIS_URL", url };
}

/** The same without the address, for whoever may ask whether we are ready. */
export function whyNot(store: Store, error?: unknown): string {
  return why(store, error);
}

/** Without an error, it did not answer. */
export function unreachable(store: Store, error?: unknown): StoreUnreachable {
  return new StoreUnreachable(
    `${store.name} at ${storeAddress(store)} (${store.setting}) ${why(store, error)}`,
  );
}

/**
 * The same, when the error is about a store rather than about what it was asked; else null. The client of
 * Redis tells its listeners why it has no connection, and the commands that wait for one only that there is
 * none.
 */
export function storeTrouble(
  error: unknown,
  stores: { postgres: Store; redis: Store; redisConnection: unknown },
): StoreUnreachable | null {
  for (const one of causesOf(error)) {
    if (hasNoRedis(one)) return after(error, one, unreachable(stores.redis, stores.redisConnection ?? one));
    if (isRefusedByRedis(one)) return after(error, one, unreachable(stores.redis, one));
    if (isOfPostgres(one)) return after(error, one, unreachable(stores.postgres, one));
  }
  return null;
}

/** Keeps the error's own message, for example that a change is stored although Redis could not be told. */
function after(error: unknown, cause: unknown, trouble: StoreUnreachable): StoreUnreachable {
  const { message } = partsOf(error);
  return cause === error || message === "" ? trouble : new StoreUnreachable(`${message}. ${trouble.message}`);
}

export function postgresTrouble(error: unknown, url: string): StoreUnreachable | null {
  const found = causesOf(error).find(isOfPostgres);
  return found === undefined ? null : unreachable(postgresAt(url), found);
}

/** It answers, and repeating will not help until something is changed. */
export function isMisconfigured(error: unknown): boolean {
  const met = ofNode(error);
  const { code, message } = partsOf(met);
  return (
    [NOT_ALLOWED, BAD_PARAMETER].some((codes) => codes.test(code)) ||
    code === NO_DATABASE ||
    NOT_LET_IN.test(message) ||
    isAnotherServer(met) ||
    tlsTrouble(error) !== null
  );
}

const REFUSED = /^(ECONNREFUSED|ENOENT)$/;
const UNKNOWN_HOST = /^(ENOTFOUND|EAI_AGAIN)$/;
const NO_WAY = /^(ETIMEDOUT|CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/;
const LOST = /^(CONNECTION_(CLOSED|ENDED|DESTROYED)|ECONNRESET|ECONNABORTED|EPIPE)$/;
/**
 * Of Postgres: wrong user or password, or a user who may not connect; no such database, no connection left,
 * starting or stopping.
 */
const NOT_ALLOWED = /^(28...|42501)$/;
const NO_DATABASE = "3D000";
/** Of the url, which the client hands to Postgres. */
const BAD_PARAMETER = /^(42704|22023)$/;
const TOO_MANY = "53300";
const NOT_SERVING = /^57P/;
const READ_ONLY = "25006";
const REDIS_NAMES = /^(MaxRetriesPerRequestError|ClusterAllFailedError|AbortError)$/;
const REDIS_SILENT = /^(Command timed out|Socket timeout)/;
const REDIS_MESSAGES = /^(Command timed out|Socket timeout|Connection is closed|connect ETIMEDOUT)/;
const NOT_LET_IN = /^(NOAUTH|WRONGPASS|NOPERM|ERR AUTH)/;
/** It has let us in. */
const NO_RIGHT = /^NOPERM/;
const REDIS_REFUSES = /^(NOAUTH|WRONGPASS|NOPERM|ERR AUTH|LOADING|CLUSTERDOWN|MASTERDOWN)/;

const REDIS_RIGHTS = "~* &* +@all -@admin -@dangerous +info";

const SILENT = "does not answer. Is it overloaded or cut off?";

function why({ name, setting }: Store, error: unknown): string {
  if (error === undefined) return SILENT;
  const tls = tlsTrouble(error);
  if (tls !== null)
    return `${tls}. Check ${name === "Postgres" ? `sslmode and sslrootcert of ${setting}` : `${setting} and NODE_EXTRA_CA_CERTS`}.`;
  const { code, message } = partsOf(ofNode(error));
  if (REDIS_SILENT.test(message)) return SILENT;
  if (REFUSED.test(code)) return "refuses connections. Is it running?";
  if (UNKNOWN_HOST.test(code)) return "has a host name that DNS does not know. Is it spelt right?";
  if (NO_WAY.test(code) || /^connect ETIMEDOUT/.test(message))
    return "does not answer. Is the address right, and does a firewall let us through?";
  if (LOST.test(code)) return "closed the connection. Is it restarting?";
  if (NO_RIGHT.test(message))
    return `refuses a command: ${message}. Give the user of ${setting} the rights ${REDIS_RIGHTS}.`;
  if (NOT_ALLOWED.test(code) || NOT_LET_IN.test(message))
    return `refuses the login: ${message}. Check the user and the password in ${setting}.`;
  if (BAD_PARAMETER.test(code)) return `refuses a parameter of ${setting}: ${message}.`;
  if (code === NO_DATABASE)
    return `has no such database: ${message}. Create it, or name another in ${setting}.`;
  if (code === READ_ONLY)
    return `accepts no writes: ${message}. Name the primary in ${setting}; if this is it, reset default_transaction_read_only of the database or the role.`;
  if (code === TOO_MANY) return `has no connection left: ${message}. Raise max_connections.`;
  const refusal = writeRefusal({ message });
  if (refusal !== null) return `cannot be used: ${writeRefusalWords(refusal)}.`;
  if (NOT_SERVING.test(code) || REDIS_REFUSES.test(message)) return `does not serve now: ${message}.`;
  return `cannot be used: ${message || code || `${name} gave no reason`}.`;
}

/** What waiting does not mend: TLS is not offered, or not by whom we trust. */
function tlsTrouble(error: unknown): string | null {
  for (const one of causesOf(ofNode(error))) {
    if (one instanceof TlsRefused) return "offers no TLS";
    if (isOfCertificate(one)) return `has a certificate that is not accepted: ${partsOf(one).message}`;
  }
  return null;
}

/** The client of a cluster says that no node helped it; what the last one said is of use. */
function ofNode(error: unknown): unknown {
  const { lastNodeError } = (error ?? {}) as { lastNodeError?: unknown };
  return lastNodeError ?? error;
}

function hasNoRedis(error: unknown): boolean {
  const { name, message } = partsOf(error);
  return REDIS_NAMES.test(name) || REDIS_MESSAGES.test(message);
}

function isRefusedByRedis(error: unknown): boolean {
  const { name, message } = partsOf(error);
  return name === "ReplyError" && (REDIS_REFUSES.test(message) || writeRefusal(error) !== null);
}

function isOfPostgres(error: unknown): boolean {
  const { name, code, severity } = partsOf(error);
  if (name === "PostgresError")
    return severity === "FATAL" || [TOO_MANY, READ_ONLY].includes(code) || NOT_SERVING.test(code);
  if (error instanceof TlsRefused || (isOfCertificate(error) && cameWithConnection(error))) return true;
  return [REFUSED, UNKNOWN_HOST, NO_WAY, LOST].some((codes) => codes.test(code)) && !isOfFile(error);
}

/** A missing file, or an output without a reader, has the same code as a socket error. */
function isOfFile(error: unknown): boolean {
  return (
    error instanceof Error && "syscall" in error && !/^(connect|getaddrinfo|read)$/.test(`${error.syscall}`)
  );
}

function partsOf(error: unknown): { name: string; code: string; message: string; severity: string } {
  const { name = "", code = "", message = "", severity = "" } = (error ?? {}) as Record<string, unknown>;
  return {
    name: String(name),
    code: String(code),
    message: String(message).replace(/\.$/, ""),
    severity: String(severity),
  };
}

/** The error, what caused it, and what an attempt at several addresses met. */
function causesOf(error: unknown): unknown[] {
  const all: unknown[] = [];
  for (let one = error; one instanceof Error && all.length < 10; one = one.cause) {
    all.push(one, ...(one instanceof AggregateError ? one.errors : []));
  }
  return all;
}

/** Without user and password. */
function storeAddress({ name, url }: Store): string {
  if (name === "Redis") return redisAddress(url);
  const { hostname, port, searchParams } = new URL(url);
  return searchParams.get("socket") ?? `${hostname}:${port || POSTGRES_PORT}`;
}

function redisAddress(url: string): string {
  const place = readRedisUrl(url);
  if (place === null) return "an unreadable URL";
  if (place.kind === "socket") return place.path;
  if (place.kind === "server") return textOf(place);
  if (place.kind === "cluster") return place.nodes.map(textOf).join(", ");
  return `${place.master} of ${place.sentinels.map(textOf).join(", ")}`;
}

function textOf({ host, port }: HostPort): string {
  return `${host}:${port}`;
}
