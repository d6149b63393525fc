/**
 * Settings: one table of what the environment may say. Everything is read here, once, at the start; all
 * problems are named together, each with its variable and what that allows. No other file reads the
 * environment.
 */
import { X509Certificate } from "node:crypto";
import { accessSync, constants, readFileSync } from "node:fs";
import { isIP } from "node:net";
import { resolve } from "node:path";
import { REDIS_URL_FORMS, readRedisUrl } from "./rules/redisurl.ts";
import { nearestOf } from "./rules/spelling.ts";

type Setting<T> = {
  env: string;
  /** As it would be written; null: nothing is assumed. */
  fallback: string | null;
  unit: string;
  reason: string;
  /** What the variable allows, in words: said when it holds something else. */
  allows: string;
  read(text: string): T | undefined;
  /** What it must be, more exactly than `allows` says it; null: nothing is wrong, or `read` finds it. */
  fault?(text: string): string | null;
};

export const SETTINGS = {
  databaseUrl: optional(
    postgresUrl(
      "DATABASE_URL",
      "Postgres, which keeps everything durable; `?socket=/folder` uses its unix socket",
    ),
  ),
  readDatabaseUrl: optional(
    postgresUrl(
      "READ_DATABASE_URL",
      "a streaming standby of DATABASE_URL, which answers lists and views of the console while it is at most 5 s behind; default: the primary answers all",
    ),
  ),
  databasePrepare: yesNo(
    "DATABASE_PREPARE",
    true,
    "false behind a pooler in transaction mode, such as PgBouncer: no prepared statements, no settings of connections; a pooler that refuses or ignores those is noticed at the start",
  ),
  redisUrl: optional(
    redisUrl(
      "REDIS_URL",
      "Redis or Valkey, for keys, rate limits and the queue: one server, a cluster, or a master named by Sentinel; see [Redis](operating.md#redis)",
    ),
  ),
  cellsFile: optional(
    text(
      "CELLS_FILE",
      "",
      "a JSON file that names more databases, each with a Redis of its own; see [cells](cells.md); default: DATABASE_URL is the only one",
    ),
  ),
  courier: oneOf(
    "COURIER",
    ["relay", "direct"],
    "relay",
    "`relay` sends all mail to the smarthost of SMTP_URL; `direct` sends it to the MX hosts of the recipients",
  ),
  smtpUrl: optional(
    url(
      "SMTP_URL",
      ["smtp:", "smtps:"],
      "the smarthost that takes the mail; `?pool=20` sets the number of connections; must not be set with `COURIER=direct`",
    ),
  ),
  home: text("POSTRIDER_HOME", ".postrider", "the folder where `npm start` keeps data, key and logs"),
  host: text(
    "HOST",
    "127.0.0.1",
    "the address the API listens on; use 0.0.0.0 in a container or behind a firewall",
  ),
  port: whole("PORT", 3000, 0, 65_535, "port", "the port of the API; 0 picks a free one"),
  publicUrl: optional(
    url(
      "PUBLIC_URL",
      ["https:", "http:"],
      "the public address of this engine; links in e-mails start with it; default: http://HOST:PORT",
    ),
  ),
  mailFrom: optional(
    address(
      "MAIL_FROM",
      "the sender of confirmation e-mails and of notices to owners; default: no-reply at the host of PUBLIC_URL",
    ),
  ),
  requireVerifiedDomains: yesNo(
    "REQUIRE_VERIFIED_DOMAINS",
    true,
    "a workspace may send only from domains that it has verified in DNS (`postrider domain`); `npm start` sets false",
  ),
  trustProxy: yesNo(
    "TRUST_PROXY",
    false,
    "read the IP addresses of visitors from X-Forwarded-For: they are stored with consent, and the console counts requests and sign-ins by them; set it behind a proxy that sets this header, and nowhere else",
  ),
  secret: optional(
    minimum(
      "POSTRIDER_SECRET",
      32,
      "signs API keys and links, and encrypts DKIM keys and secrets of webhooks; the same for every process; never change it",
    ),
  ),
  logLevel: oneOf(
    "LOG_LEVEL",
    ["fatal", "error", "warn", "info", "debug", "trace", "silent"],
    "info",
    "the least severe messages that are logged",
  ),
  logRequestsEvery: whole(
    "LOG_REQUESTS_EVERY",
    1_000,
    0,
    1_000_000,
    "requests",
    "one request in so many is logged at `info`; 0: none; at `debug` all are",
  ),
  traces: yesNo(
    "TRACES",
    false,
    "trace requests up to the replies of receivers, with the OpenTelemetry SDK that `NODE_OPTIONS` loads; see [traces](operating.md#traces)",
  ),
  storeTimeoutMs: whole(
    "STORE_TIMEOUT_MS",
    2_000,
    50,
    60_000,
    "ms",
    "how long Redis or Postgres may take before a request is answered 503",
  ),
  bodyBytesInFlightMax: whole(
    "BODY_BYTES_IN_FLIGHT_MAX",
    268_435_456,
    1_048_576,
    2 ** 40,
    "bytes",
    "memory for request bodies and submitted messages per process; one workspace gets at most half of it, two get a third each, and so on",
  ),
  sharedPort: yesNo("SHARED_PORT", false, "let several API processes listen on the same port"),
  deliveryConcurrency: whole(
    "DELIVERY_CONCURRENCY",
    1_000,
    1,
    10_000,
    "e-mails",
    "e-mails that one worker holds at the same time; with a smarthost at most its connections plus 500",
  ),
  retrySchedule: numbers(
    "RETRY_SCHEDULE",
    [60, 300, 900, 3_600, 7_200, 14_400, 28_800, 57_600, 86_400],
    "s",
    "waiting times between attempts; the last one repeats",
  ),
  softBouncesMax: whole(
    "SUPPRESS_SOFT_BOUNCES",
    0,
    0,
    100,
    "bounces",
    "soft bounces in a series after which an address is suppressed; 0: never",
  ),
  softBounceDays: whole(
    "SUPPRESS_SOFT_BOUNCE_DAYS",
    14,
    1,
    90,
    "days",
    "how long a soft bounce counts towards a series",
  ),
  emailLifetimeHours: whole(
    "EMAIL_LIFETIME_HOURS",
    72,
    1,
    720,
    "h",
    "how long an e-mail is tried after its first attempt before it bounces; time spent waiting for a cap or for an unreachable smarthost does not count",
  ),
  ehloName: optional(
    hostName(
      "EHLO_NAME",
      "the name sent in EHLO; with `COURIER=direct`, the name in the PTR record of our address",
    ),
  ),
  smtpTls: oneOf(
    "SMTP_TLS",
    ["opportunistic", "required", "off"],
    "opportunistic",
    "STARTTLS with the smarthost or the receivers; certificates of receivers are verified only where their MTA-STS policy, TLSA records or the shaping file ask for it, which `off` does not change",
  ),
  smtpTlsVerify: yesNo("SMTP_TLS_VERIFY", true, "verify the certificate of the smarthost"),
  smtpRatePerSecond: whole(
    "SMTP_RATE_PER_SECOND",
    0,
    0,
    1_000_000,
    "e-mails/s",
    "limit for all connections of a worker to the smarthost together; 0: no limit; a shaping file has limits for all workers",
  ),
  smtpConnectionRatePerSecond: whole(
    "SMTP_CONNECTION_RATE_PER_SECOND",
    0,
    0,
    1_000_000,
    "e-mails/s",
    "limit for each connection to the smarthost; 0: no limit",
  ),
  directConnectionsMax: whole(
    "DIRECT_CONNECTIONS_MAX",
    20,
    1,
    500,
    "connections",
    "the most connections of `direct` to one receiver, per worker; starts at 5 and adapts",
  ),
  directSourceAddress: optional(
    ipAddress(
      "DIRECT_SOURCE_ADDRESS",
      "the local address from which `direct` connects; default: chosen by the system",
    ),
  ),
  shapingFile: optional(
    text(
      "SHAPING_FILE",
      "",
      "the shaping file: limits, source addresses and automatic rules by receiver; reloaded when it changes; default: none",
    ),
  ),
  dnsServers: list(
    "DNS_SERVERS",
    "IP addresses, comma-separated, each with `:port` unless it is 53",
    "DNS servers for MX records, domain checks and webhooks; default: those of this machine",
    (one) => (isIP(one.replace(/^\[(.*)\](?::\d+)?$|^([^:]*):\d+$/, "$1$2")) === 0 ? undefined : one),
  ),
  directPort: whole(
    "DIRECT_PORT",
    25,
    1,
    65_535,
    "port",
    "the SMTP port of receivers; change it only in tests",
  ),
  directHttpsPort: whole(
    "DIRECT_HTTPS_PORT",
    443,
    1,
    65_535,
    "port",
    "the HTTPS port of the hosts that serve MTA-STS policies and take TLS reports; change it only in tests",
  ),
  directCaFile: optional(
    text(
      "DIRECT_CA_FILE",
      "",
      "certificate authorities (PEM file) that are trusted besides the usual ones where certificates of receivers are verified",
    ),
  ),
  mtaSts: yesNo("MTA_STS", true, "obey the MTA-STS policies of receivers, with `COURIER=direct`"),
  daneResolver: optional({
    env: "DANE_RESOLVER",
    fallback: "",
    unit: "",
    reason:
      "a resolver that validates DNSSEC, for DANE with `COURIER=direct`; it is used when it has proved that it does; default: no DANE",
    allows: "an IP address and a port, such as 127.0.0.1:53",
    read: readServer,
  }),
  daneResolverTrusted: yesNo(
    "DANE_RESOLVER_TRUSTED",
    false,
    "rely on DANE_RESOLVER also where it is on another machine: nobody can change what passes in between",
  ),
  daneProbes: pair(
    "DANE_PROBES",
    "org,dnssec-failed.org",
    "what DANE_RESOLVER has to prove: the first name is signed, the signatures of the second are wrong",
  ),
  tlsReportsFrom: optional(
    address(
      "TLS_REPORTS_FROM",
      "the sender of TLS reports to receivers that ask for them, in a domain that a workspace has verified; default: none are sent",
    ),
  ),
  directNetworksAllowed: list(
    "DIRECT_NETWORKS_ALLOWED",
    "networks, comma-separated, such as `10.1.0.0/16`",
    "private networks to which `direct` may deliver; default: public addresses only",
    readNetwork,
  ),
  webhookNetworksAllowed: list(
    "WEBHOOK_NETWORKS_ALLOWED",
    "networks, comma-separated, such as `10.1.0.0/16`",
    "private networks to which webhooks may be sent, also without TLS; default: public addresses over https only; `npm start` allows loopback",
    readNetwork,
  ),
  bounceDomain: optional(
    hostName(
      "BOUNCE_DOMAIN",
      "the domain of return paths, whose MX record names the machine of `inbound`; default: bounces after delivery are not received, and complaints only at FEEDBACK_ADDRESSES",
    ),
  ),
  inboundHost: text("INBOUND_HOST", "127.0.0.1", "the address on which `inbound` listens for reports"),
  inboundPort: whole("INBOUND_PORT", 25, 0, 65_535, "port", "the port of `inbound`; 0 picks a free one"),
  inboundTlsCert: optional(
    text(
      "INBOUND_TLS_CERT",
      "",
      "the certificate (PEM file) for STARTTLS of `inbound`; default: a self-signed one",
    ),
  ),
  inboundTlsKey: optional(text("INBOUND_TLS_KEY", "", "the private key (PEM file) of INBOUND_TLS_CERT")),
  feedbackAddresses: list(
    "FEEDBACK_ADDRESSES",
    "addresses, comma-separated",
    "the addresses to which providers send complaints (feedback loops); `inbound` takes them",
    readBareAddress,
  ),
  tlsReportsTo: list(
    "TLS_REPORTS_TO",
    "addresses, comma-separated",
    "the addresses that `_smtp._tls` records of our own domains name for TLS reports; `inbound` takes them",
    readBareAddress,
  ),
  submissionHost: text(
    "SUBMISSION_HOST",
    "127.0.0.1",
    "the address on which `submission` takes mail over SMTP; use 0.0.0.0 in a container or behind a firewall",
  ),
  submissionPort: optional(
    whole(
      "SUBMISSION_PORT",
      0,
      0,
      65_535,
      "port",
      "the port on which `submission` offers STARTTLS, usually 587; 0 picks a free one; default: not listening",
    ),
  ),
  submissionTlsPort: optional(
    whole(
      "SUBMISSION_TLS_PORT",
      0,
      0,
      65_535,
      "port",
      "the port on which `submission` speaks TLS from the first byte, usually 465; 0 picks a free one; default: not listening",
    ),
  ),
  submissionTlsCert: optional(
    text(
      "SUBMISSION_TLS_CERT",
      "",
      "the certificate (PEM file) of `submission`, read again when it changes; default: a self-signed one, for development",
    ),
  ),
  submissionTlsKey: optional(
    text("SUBMISSION_TLS_KEY", "", "the private key (PEM file) of SUBMISSION_TLS_CERT"),
  ),
  consolePort: optional(
    whole(
      "CONSOLE_PORT",
      0,
      0,
      65_535,
      "port",
      "the port on which `console` serves /console and /docs, on HOST; 0 picks a free one; default: not listening; `npm start` takes 3001 or a free one",
    ),
  ),
  mailboxUrl: optional(
    url(
      "MAILBOX_URL",
      ["http:"],
      "the mail catcher whose mail the console shows, for development; `npm start` sets it; default: the console shows no mailbox",
    ),
  ),
  capsPolicy: optional(
    text(
      "CAPS_POLICY",
      "",
      "the first policy of sending caps: a file that becomes version 1 where no policy has been applied; later ones come by `caps policy apply`; default: the built-in policy",
    ),
  ),
  capsEverySeconds: whole(
    "CAPS_EVERY_SECONDS",
    300,
    1,
    86_400,
    "s",
    "how often the keeper checks whether a cap must be frozen or cut",
  ),
  metricsPort: optional(
    whole(
      "METRICS_PORT",
      0,
      0,
      65_535,
      "port",
      "the port of the Prometheus metrics, on HOST; default: no metrics",
    ),
  ),
  metricsToken: optional(
    minimum(
      "METRICS_TOKEN",
      16,
      "the bearer token that Prometheus sends; required where METRICS_PORT is set, unless HOST is a loopback address",
    ),
  ),
  retentionDays: whole(
    "RETENTION_DAYS",
    30,
    1,
    3_650,
    "days",
    "how long e-mails are kept after their final status",
  ),
  bodyRetentionDays: whole(
    "BODY_RETENTION_DAYS",
    7,
    1,
    3_650,
    "days",
    "how long bodies are kept after the final status",
  ),
  eventLogDays: whole(
    "EVENT_LOG_DAYS",
    7,
    1,
    365,
    "days",
    "how long the event log and the attempts of webhooks are kept; what an endpoint has not taken by then it misses",
  ),
  backlogMax: whole(
    "BACKLOG_MAX",
    20_000_000,
    1_000,
    2 ** 40,
    "e-mails",
    "unsettled e-mails above which sends are answered 503",
  ),
  diskFreeMinMb: whole(
    "DISK_FREE_MIN_MB",
    1_024,
    0,
    2 ** 30,
    "MB",
    "free disk space of Postgres below which sends are answered 503; checked only if POSTGRES_DATA_FOLDER is set",
  ),
  postgresDataFolder: optional(
    text(
      "POSTGRES_DATA_FOLDER",
      "",
      "the data folder of Postgres, whose disk is checked; `npm start` sets it",
    ),
  ),
} as const satisfies Record<string, Setting<unknown>>;

export type Config = {
  [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name] extends Setting<infer T> ? T : never;
};
export type Env = Readonly<Record<string, string | undefined>>;

/** Every problem of the environment, a line each. */
export class ConfigError extends Error {}

/** The status a process ends with when its settings are wrong (EX_CONFIG). */
export const CONFIG_EXIT = 78;

export function loadConfig(env: Env = process.env): Config {
  const problems: string[] = [];
  const config: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(SETTINGS)) {
    const given = env[setting.env];
    const written = given === undefined || given === "" ? setting.fallback : given;
    const { read, fault }: Setting<unknown> = setting;
    const wrong = (written !== null && fault?.(written)) || null;
    const value = written === null || wrong !== null ? null : read(written);
    if (wrong !== null) problems.push(`${setting.env} must be ${wrong}.`);
    else if (value === undefined)
      problems.push(`${setting.env} must be ${setting.allows}, but is ${shown(setting.env, written)}.`);
    config[name] = value;
  }
  for (const name of ["databaseUrl", "readDatabaseUrl"] as const)
    if (config.databasePrepare === false && typeof config[name] === "string")
      config[name] = throughPooler(config[name]);
  problems.push(...misspelt(env));
  if (problems.length > 0) throw new ConfigError(problems.join("\n"));
  return config as Config;
}

/**
 * The url, for a pooler such as PgBouncer: nothing is left behind on a connection, which may be another's
 * next.
 */
export function throughPooler(url: string): string {
  const parsed = new URL(url);
  parsed.searchParams.set("prepare", "false");
  return parsed.href;
}

const KNOWN: readonly string[] = Object.values(SETTINGS).map(({ env }) => env);
/** Shorter ones, such as PORT, are like names that mean something else. */
const COMPARED = KNOWN.filter((name) => name.length >= 8);
const OURS = /^POSTRIDER_/;
/** Kubernetes sets these for a service that is named postrider. */
const OF_KUBERNETES = /^POSTRIDER_(?:SERVICE|PORT)(?:_|$)/;

/** A setting that nobody reads would leave its owner in the belief that it holds. */
function misspelt(env: Env): string[] {
  return Object.keys(env).flatMap((name) => {
    if (
      !env[name] ||
      KNOWN.includes(name) ||
      !/^[A-Z][A-Z0-9_]{5,39}$/.test(name) ||
      OF_KUBERNETES.test(name)
    )
      return [];
    const meant = meantBy(name);
    if (meant !== null) return [`${name} is not a setting. Did you mean ${meant}?`];
    return OURS.test(name) ? [`${name} is not a setting. docs/settings.md has all of them.`] : [];
  });
}

/** With letters wrong, words in another order, or our name in front of it. */
function meantBy(name: string): string | null {
  const bare = name.replace(OURS, "");
  if (bare !== name && KNOWN.includes(bare)) return bare;
  const words = sortedWords(name);
  return nearestOf(name, COMPARED) ?? COMPARED.find((one) => sortedWords(one) === words) ?? null;
}

function sortedWords(name: string): string {
  return name.split("_").sort().join("_");
}

/** The table of docs/settings.md. */
export function settingsTable(): string {
  const rows = Object.values(SETTINGS).map(
    (setting) => `| \`${setting.env}\` | ${shownDefault(setting)} | ${setting.reason} | ${setting.allows} |`,
  );
  return ["| variable | default | what for | allows |", "|---|---|---|---|", ...rows].join("\n");
}

function shownDefault({ fallback, unit }: Pick<Setting<unknown>, "fallback" | "unit">): string {
  if (fallback === null || fallback === "") return "";
  return unit === "" || unit === "port" ? `\`${fallback}\`` : `\`${fallback}\` ${unit}`;
}

/** uWebSockets.js reads its limit for request headers from the environment, once, when it is loaded. */
export function allowLargeHeaders(): void {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= String(HEADERS_BYTES_MAX);
}
const HEADERS_BYTES_MAX = 16 * 1024;

/**
 * What children of a process get: its own environment, and what it found out; `assumed` is for what that
 * leaves open.
 */
export function childEnv(found: Env, assumed: Env = {}): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...assumed, ...process.env, ...found }))
    if (value !== undefined) env[name] = value;
  return env;
}

/**
 * Every row that Postgres answers is held to its declared shape (record/db/rowshape.ts): in tests and
 * development.
 */
export const CHECKS_ROWS = /^(test|development)$/.test(process.env.NODE_ENV ?? "");

/** What an error message may repeat: never a secret. */
function shown(env: string, value: string | null): string {
  return /SECRET|TOKEN|URL/.test(env) ? "something else" : `\`${value}\``;
}

function text(env: string, fallback: string, reason: string): Setting<string> {
  return { env, fallback, unit: "", reason, allows: "text", read: (value) => value };
}

function minimum(env: string, charsMin: number, reason: string): Setting<string> {
  const read = (value: string) => (value.length >= charsMin ? value : undefined);
  return { env, fallback: "", unit: "", reason, allows: `text of at least ${charsMin} characters`, read };
}

function optional<T>(setting: Setting<T>): Setting<T | null> {
  return { ...setting, fallback: null };
}

function whole(
  env: string,
  fallback: number,
  min: number,
  max: number,
  unit: string,
  reason: string,
): Setting<number> {
  const read = (value: string) => {
    const number = Number(value);
    return /^\d+$/.test(value) && number >= min && number <= max ? number : undefined;
  };
  return {
    env,
    fallback: String(fallback),
    unit,
    reason,
    allows: `a whole number from ${min} to ${max}`,
    read,
  };
}

function numbers(env: string, fallback: number[], unit: string, reason: string): Setting<number[]> {
  const read = (value: string) => {
    const list = value.split(",").map((one) => Number(one.trim()));
    return list.every((one) => Number.isInteger(one) && one > 0 && one <= 86_400) ? list : undefined;
  };
  return {
    env,
    fallback: fallback.join(","),
    unit,
    reason,
    allows: "whole numbers from 1 to 86400, comma-separated",
    read,
  };
}

function oneOf<const T extends string>(
  env: string,
  values: readonly T[],
  fallback: T,
  reason: string,
): Setting<T> {
  const read = (value: string) => values.find((one) => one === value);
  return {
    env,
    fallback,
    unit: "",
    reason,
    allows: `${values.slice(0, -1).join(", ")} or ${values.at(-1)}`,
    read,
  };
}

function yesNo(env: string, fallback: boolean, reason: string): Setting<boolean> {
  const read = (value: string) =>
    /^(true|1|yes)$/i.test(value) ? true : /^(false|0|no)$/i.test(value) ? false : undefined;
  return { env, fallback: String(fallback), unit: "", reason, allows: "true or false", read };
}

function url(env: string, protocols: readonly string[], reason: string): Setting<string> {
  // `postgres:secret@host` is a URL too: one without a host, which would mean this machine
  const read = (value: string) => {
    if (!URL.canParse(value) || !value.includes("://")) return undefined;
    const { protocol, hostname, searchParams } = new URL(value);
    return protocols.includes(protocol) && (hostname !== "" || searchParams.has("socket"))
      ? value
      : undefined;
  };
  return {
    env,
    fallback: "",
    unit: "",
    reason,
    allows: `a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(" or ")} and names a host`,
    read,
    fault: badlyEncoded,
  };
}

/** A password as it is: what follows one of these letters would be taken for host, port or path. */
function badlyEncoded(text: string): string | null {
  const [, rest] = text.split("://");
  if (rest === undefined) return null;
  if (text.includes("#")) return "a URL without `#`: write %23 for it";
  try {
    decodeURIComponent(text);
  } catch {
    return "a URL in which each `%` begins an encoded letter: write %25 for the sign itself";
  }
  const place = /^[^/?]*/.exec(rest)?.[0] ?? "";
  // a path may hold any other letter
  if (text.startsWith("http"))
    return rest.includes("?") || place.includes("@")
      ? "a URL without `?`, user and password: paths are written behind it"
      : null;
  return !place.includes("@") && /^[/?][^=@]*@/.test(rest.slice(place.length))
    ? "a URL whose user and password have no `/` and no `?`: write %2F and %3F for them"
    : null;
}

const TLS_MODES = ["disable", "require", "verify-ca", "verify-full"];

function postgresUrl(env: string, reason: string): Setting<string> {
  const fault = (text: string): string | null => {
    if (namesSeveralHosts(text)) return ONE_HOST;
    const wrong = badlyEncoded(text);
    if (wrong !== null || !URL.canParse(text)) return wrong;
    const { searchParams } = new URL(text);
    const [mode, authority] = [searchParams.get("sslmode"), searchParams.get("sslrootcert")];
    if (mode !== null && !TLS_MODES.includes(mode))
      return `a URL whose sslmode is ${TLS_MODES.slice(0, -1).join(", ")} or ${TLS_MODES.at(-1)}, but it is ${mode}`;
    if (authority === null || authority === "system") return null;
    if (!isReadable(authority)) return `a URL whose sslrootcert can be read, but ${authority} cannot`;
    return holdsCertificate(authority)
      ? null
      : `a URL whose sslrootcert names a file of certificates, but ${authority} has none`;
  };
  return { ...url(env, ["postgres:", "postgresql:"], reason), fault };
}

const ONE_HOST = "a URL of one host: let a name or an address that follows the primary stand for several";

/** `h1,h2`, as libpq takes it: here it would be one name, which DNS does not know. */
function namesSeveralHosts(text: string): boolean {
  const place = /^[^:]+:\/\/([^/?]*)/.exec(text)?.[1] ?? "";
  return /,|%2c/i.test(place.slice(place.lastIndexOf("@") + 1));
}

function holdsCertificate(path: string): boolean {
  try {
    return new X509Certificate(readFileSync(path)).subject !== undefined;
  } catch {
    return false;
  }
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

function address(env: string, reason: string): Setting<string> {
  const read = (value: string) => (/^[^\r\n]*[^\s@]@[^\s@]+\.[^\s@]+$/.test(value) ? value : undefined);
  return { env, fallback: "", unit: "", reason, allows: "`a@x.com` or `Name <a@x.com>`", read };
}

function redisUrl(env: string, reason: string): Setting<string> {
  const read = (value: string) => (readRedisUrl(value) === null ? undefined : value);
  const allows = `a URL such as ${REDIS_URL_FORMS.join(" or ")}`;
  return { env, fallback: "", unit: "", reason, allows, read, fault: badlyEncoded };
}

function list<T>(
  env: string,
  allows: string,
  reason: string,
  readOne: (text: string) => T | undefined,
): Setting<T[]> {
  const read = (value: string) => {
    const all = value.split(",").flatMap((one) => (one.trim() === "" ? [] : [readOne(one.trim())]));
    return all.every((one) => one !== undefined) ? all : undefined;
  };
  return { env, fallback: "", unit: "", reason, allows, read };
}

function readServer(text: string): { address: string; port: number } | undefined {
  const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const address = v6 ?? v4 ?? "";
  const number = Number(port);
  return isIP(address) !== 0 && number >= 1 && number <= 65_535 ? { address, port: number } : undefined;
}

function pair(env: string, fallback: string, reason: string): Setting<[string, string]> {
  const read = (value: string): [string, string] | undefined => {
    const [first = "", second = "", ...more] = value.split(",").map((one) => one.trim());
    return first !== "" && second !== "" && more.length === 0 ? [first, second] : undefined;
  };
  return { env, fallback, unit: "", reason, allows: "two names, comma-separated", read };
}

function readBareAddress(text: string): string | undefined {
  return /^[^\s@<>]+@[^\s@<>]+\.[^\s@<>]+$/.test(text) ? text.toLowerCase() : undefined;
}

function readNetwork(text: string): { address: string; prefix: number } | undefined {
  const [, address = "", prefix = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const family = isIP(address);
  return family !== 0 && Number(prefix) <= (family === 4 ? 32 : 128)
    ? { address, prefix: Number(prefix) }
    : undefined;
}

function ipAddress(env: string, reason: string): Setting<string> {
  const read = (value: string) => (isIP(value) === 0 ? undefined : value);
  return { env, fallback: "", unit: "", reason, allows: "an IP address", read };
}

function hostName(env: string, reason: string): Setting<string> {
  const read = (value: string) =>
    value.length <= 253 && /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$/i.test(value)
      ? value
      : undefined;
  return { env, fallback: "", unit: "", reason, allows: "a full host name, such as mail.example.com", read };
}

/** POSTRIDER_HOME as a full path. */
export function homeFolder(config: Pick<Config, "home">): string {
  return resolve(config.home);
}
