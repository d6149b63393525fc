/**
 * Connections to Postgres: small separate pools, so that a slow read cannot hold up a commit, each with a
 * statement timeout. The sockets are made here because postgres.js leaves Nagle's algorithm on (a 500-row
 * write took 75 ms instead of 6), and because on the same machine a unix socket is faster still:
 * `?socket=/folder` in the url names it.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { isIP, type Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import postgres from "postgres";
import { Counter, Histogram, SECONDS } from "../../meter.ts";
import { arrayTypes } from "./arraytypes.ts";
import { BYTES } from "./bytes.ts";
import { connectInTurns, parseInTurns } from "./inturns.ts";
import { openPool, type PoolSize } from "./pool.ts";
import type { Sql, Statement, Tx } from "./statement.ts";

export type { Sql, Statement, Tx } from "./statement.ts";

export type PoolName =
  | "commits"
  | "hints"
  | "reads"
  | "lists"
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
/** What the first mail after a pause goes through is kept: a new connection would cost it 10 ms. */
export const POOLS: Record<PoolName, PoolSize> = {
  commits: { most: 2, kept: 1 },
  hints: { most: 1, kept: 1 },
  reads: { most: 6, kept: 1 },
  lists: { most: 6, kept: 0 },
  delivery: { most: 4, kept: 1 },
  settling: { most: 1, kept: 1 },
  leases: { most: 1, kept: 0 },
  keeper: { most: 3, kept: 0 },
  retention: { most: 1, kept: 0 },
  runs: { most: 4, kept: 0 },
  intake: { most: 1, kept: 0 },
  reports: { most: 1, kept: 0 },
  webhooks: { most: 2, kept: 0 },
  setup: { most: 1, kept: 0 },
};

/**
 * Postgres answers within the statement timeout, unless a statement sets its own. We wait through a pause of
 * some seconds and for a slow connection: on an overloaded machine, connecting again makes it worse. Callers
 * have their own deadlines.
 */
const SILENT_TIMEOUTS_MAX = 15;
const SILENT_READ_TIMEOUTS_MAX = 5;
const CONNECT_SECONDS_MIN = 10;
const STREAM_CONNECT_MS_MAX = 30_000;
const POSTGRES_PORT = 5432;

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
  const place = readUrl(url);
  const { href, isPooled, tls } = place;
  const settings = { ...settingsOf(pool, timeoutMs), ...MARK };
  // operators' own commands may run behind a pooler that nobody has named
  const mayBePooled = isPooled || pool === "setup";
  return openPool(POOLS[pool], pool, {
    silenceMsMax: silenceOf(pool, timeoutMs),
    onAnswer(ms, failure, text) {
      TOOK.note(ms / 1_000, pool);
      if (failure !== null) FAILED.add(1, pool, failure);
      watch?.(pool, ms, text);
    },
    ...(mayBePooled && { begin: pool === "setup" ? `begin; ${WITHOUT_LIMITS}` : beginWith(settings) }),
    mayBePooled,
    // its settings are those of a transaction
    isEachInTransaction: pool === "setup",
    connect: () => socketTo(place),
    isSecure: tls !== null,
    client: ({ socket, onLost, onDrop }) => {
      // `socket` is read by the driver but absent from its types; it must hand back an unconnected socket at
      // once
      const options = {
        socket,
        onclose: onLost,
        max: 1,
        // the pool replaces connections, and ends none that is in a transaction
        max_lifetime: null,
        fetch_types: false,
        types: ownTypes(),
        ...(tls && { ssl: { ...tls, signal: onDrop } }),
        prepare: !mayBePooled,
        onnotice: () => {},
        connect_timeout: Math.max(CONNECT_SECONDS_MIN, Math.ceil(timeoutMs / 1000)),
        connection: {
          application_name: `postrider ${pool}`,
          ...FORMATS,
          ...(mayBePooled ? {} : { ...KEPT, ...settings }),
        },
      };
      return postgres(href, options);
    },
  });
}

/** As the driver has it. */
const JSONS: postgres.PostgresType = {
  to: 114,
  from: [114, 3802],
  serialize: (value) => JSON.stringify(value),
  parse: parseInTurns((text) => JSON.parse(text)),
};

function ownTypes(): Record<string, postgres.PostgresType> {
  return { ...arrayTypes(), bytea: BYTES, json: JSONS };
}

function silenceOf(pool: PoolName, timeoutMs: number): number | null {
  if (pool === "setup") return null;
  return (pool === "reads" || pool === "lists" ? SILENT_READ_TIMEOUTS_MAX : SILENT_TIMEOUTS_MAX) * timeoutMs;
}

type PostgresSettings = Readonly<Record<string, string | number>>;

function settingsOf(pool: PoolName, timeoutMs: number): PostgresSettings {
  if (pool === "setup") return {}; // see WITHOUT_LIMITS
  if (pool === "retention") return RETENTION;
  return {
    ...hotStatements(timeoutMs),
    // settling locks e-mails in the order in which its plan finds them: by index, that of their keys
    // (lockorder.ts)
    ...(pool === "settling" ? { enable_bitmapscan: "off" } : {}),
    // data that a crash may lose does not wait for the disk, and commits do not wait behind it
    ...(pool === "hints" ? { synchronous_commit: "off" } : {}),
  };
}

/**
 * One connection that copies rows in and out, for a command. The client stops its socket while rows wait, and
 * leaves it so when nobody takes them any more: it would stay open, and keep the command alive.
 */
export function streamingClient(url: string): { client: postgres.Sql; close(): Promise<void> } {
  const place = readUrl(url);
  const { href, tls } = place;
  const opened: Socket[] = [];
  const secured = new AbortController();
  // `socket` is read by the driver but absent from its types
  const options = {
    async socket(): Promise<Socket> {
      const socket = socketTo(place);
      opened.push(socket);
      await connected(socket);
      return socket;
    },
    ...(tls && { ssl: { ...tls, signal: secured.signal } }),
    ...{ max: 1, prepare: false, fetch_types: false, types: ownTypes(), onnotice: () => {} },
    connection: { application_name: "postrider backup", ...FORMATS },
  };
  const client = postgres(href, options);
  return {
    client,
    async close() {
      await client.end({ timeout: 1 });
      secured.abort();
      for (const socket of opened) socket.destroy();
    },
  };
}

function socketTo({ socketFolder, host, port }: ReadUrl): Socket {
  return socketFolder === null
    ? connectInTurns({ host, port, noDelay: true })
    : connectInTurns({ path: `${socketFolder}/.s.PGSQL.${port}` });
}

async function connected(socket: Socket): Promise<void> {
  const late = setTimeout(() => {
    socket.destroy(Object.assign(new Error("no answer"), { code: "ETIMEDOUT" }));
  }, STREAM_CONNECT_MS_MAX);
  await once(socket, "connect").finally(() => clearTimeout(late));
}

/**
 * A connection to a pooler has no settings of its own: what a transaction needs it sets for itself, in the
 * same message.
 */
function beginWith(settings: PostgresSettings): string {
  return ["begin", ...Object.entries(settings).map(([name, value]) => `set local ${name} = '${value}'`)].join(
    "; ",
  );
}

/** What a pooler answers to a connection that brings its own settings. */
export function isRefusedByPooler(error: unknown): boolean {
  return error instanceof Error && /unsupported startup parameter/.test(error.message);
}

/**
 * Whatever the server, the database or the role prefers: the driver reads times in this style only, and days
 * are UTC's. Poolers keep these for each of their clients. They compare them with what the server says of
 * itself, which is the whole style: a part of it they would set again before each transaction.
 */
const FORMATS = { TimeZone: "UTC", DateStyle: "ISO, MDY" };

/**
 * Postgres compiles a statement each time when its estimate is high, and estimates of ours are: it knows
 * nothing of how long arrays are. To number 1,000 events took 1.45 s instead of 0.01.
 */
const UNCOMPILED = { jit: "off" };

/**
 * Names with a dot are free in Postgres. A pooler that leaves out the settings of a connection leaves this
 * one out as well, and no role or database has it: so it tells whether ours are in force.
 */
const MARK = { "postrider.settings": "ours" };

/** Whether the settings that this statement is under are those that its connection or transaction brought. */
export function areSettingsOurs(sql: Tx | Sql): Statement {
  return sql`current_setting('postrider.settings', true) is not distinct from 'ours'`;
}

const LIMITS = [
  "statement_timeout",
  "lock_timeout",
  "idle_in_transaction_session_timeout",
  "transaction_timeout", // since Postgres 17
];
/**
 * What a migration, a backup, a restore or a command says first: it takes as long as it takes, whatever
 * limits the role or the database has for others. A limit that this version does not know is left out.
 */
export const WITHOUT_LIMITS =
  `select set_config(name, '0', true) from unnest('{${LIMITS}}'::text[]) as name ` +
  "where current_setting(name, true) is not null";

/** Detaching may wait long in the background; a step that makes others wait gives up soon. */
const RETENTION = { statement_timeout: 30_000, lock_timeout: 1_000, ...UNCOMPILED };

/** A connection that waits for work is ended by us alone. As a number the driver leaves it out. */
const KEPT: PostgresSettings = { idle_session_timeout: "0" };

/**
 * Statements that run thousands of times are planned once, by index. A plan made while a day's partition was
 * still empty scans it, and went on scanning it at 100,000 rows: settling fell from 7,000 to 2,000 e-mails/s.
 */
function hotStatements(timeoutMs: number) {
  return {
    statement_timeout: timeoutMs,
    lock_timeout: "0", // a wait for a lock is part of that; as a number the driver leaves it out
    idle_in_transaction_session_timeout: 2 * timeoutMs,
    plan_cache_mode: "force_generic_plan",
    enable_seqscan: "off",
    ...UNCOMPILED,
  };
}

/** Where it is we read ourselves: the client takes an IPv6 address for a host that is called `[`. */
type ReadUrl = {
  href: string;
  host: string;
  port: number;
  socketFolder: string | null;
  isPooled: boolean;
  tls: ConnectionOptions | null;
};

/** What is ours in the url is taken out: the client would send the rest to Postgres, as settings. */
function readUrl(url: string): ReadUrl {
  const parsed = new URL(url);
  const take = (name: string): string | null => {
    const value = parsed.searchParams.get(name);
    parsed.searchParams.delete(name);
    return value;
  };
  const [socketFolder, prepare, mode, authority] = [
    take("socket"),
    take("prepare"),
    take("sslmode"),
    take("sslrootcert"),
  ];
  const host = parsed.hostname.replace(/^\[|\]$/g, "") || "localhost";
  return {
    href: parsed.href,
    ...{ host, port: Number(parsed.port || POSTGRES_PORT) },
    socketFolder,
    isPooled: prepare === "false",
    tls: socketFolder === null ? tlsOf(host, mode, authority) : null,
  };
}

/**
 * As libpq reads them: who names an authority wants it to be verified. `prefer` is not offered: it protects
 * nothing.
 */
function tlsOf(host: string, mode: string | null, authority: string | null): ConnectionOptions | null {
  const wanted = mode ?? (authority === null ? "disable" : "verify-full");
  if (wanted === "disable") return null;
  if (!TLS_MODES.includes(wanted))
    throw new Error(`DATABASE_URL: sslmode must be ${TLS_MODES.join(", ")} or disable, but is ${wanted}.`);
  const isVerified = wanted !== "require" || authority !== null;
  return {
    ...{ host, rejectUnauthorized: isVerified },
    ...(isIP(host) === 0 && { servername: host }),
    ...(authority !== null && authority !== "system" && { ca: readFileSync(authority) }),
    ...(wanted !== "verify-full" && { checkServerIdentity: () => undefined }),
  };
}
const TLS_MODES = ["require", "verify-ca", "verify-full"];
