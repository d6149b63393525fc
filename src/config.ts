/**
 * Settings: one table of what the environment may say. Everything is read here, once, at the start; all problems are
 * named together, each with its variable and what that allows. No other file reads the environment.
 */
import { isIP } from "node:net";
import { resolve } from "node:path";

type Setting<T> = {
  env: string;
  /** As it would be written; null: nothing is assumed. */
  fallback: string | null;
  unit: string;
  reason: string;
  /** What the variable allows, in words: said when it holds something else. */
  allows: string;
  read(text: string): T | undefined;
};

export const SETTINGS = {
  databaseUrl: optional(
    url(
      "DATABASE_URL",
      ["postgres:", "postgresql:"],
      "Postgres, the durable record; `?socket=/folder` uses its unix socket",
    ),
  ),
  redisUrl: optional(
    redisUrl(
      "REDIS_URL",
      "Redis or Valkey: keys, rates and the queue; several urls with commas name a cluster",
    ),
  ),
  courier: oneOf(
    "COURIER",
    ["relay", "direct"],
    "relay",
    "`relay`: mail goes to the smarthost of SMTP_URL; `direct`: to the receivers' own hosts, over the internet",
  ),
  smtpUrl: optional(
    url(
      "SMTP_URL",
      ["smtp:", "smtps:"],
      "the smarthost that takes the mail; `?pool=20` sets how many connections; must not be set for `direct`",
    ),
  ),
  home: text("POSTRIDER_HOME", ".postrider", "where development keeps its data, key and logs"),
  host: text("HOST", "127.0.0.1", "the address to listen on; 0.0.0.0 behind a firewall or in a container"),
  port: whole("PORT", 3000, 0, 65_535, "port", "of the API; 0 picks a free one"),
  publicUrl: optional(
    url(
      "PUBLIC_URL",
      ["https:", "http:"],
      "where people reach this machine: the links in mail begin with it; without it, http://HOST:PORT",
    ),
  ),
  mailFrom: optional(
    address(
      "MAIL_FROM",
      "the sender of confirmation mails in the operator's words; without it, no-reply at the host of PUBLIC_URL",
    ),
  ),
  requireVerifiedDomains: yesNo(
    "REQUIRE_VERIFIED_DOMAINS",
    true,
    "a workspace writes only from domains that DNS has shown to be its own (`postrider domain`); `npm start` sets false",
  ),
  trustProxy: yesNo(
    "TRUST_PROXY",
    false,
    "visitors' addresses, for the record of consent, are read from X-Forwarded-For, which a proxy in front sets",
  ),
  secret: optional(
    minimum(
      "POSTRIDER_SECRET",
      32,
      "check values of keys, signed links and the sealing of domain keys; the same for every process, and for ever",
    ),
  ),
  logLevel: oneOf(
    "LOG_LEVEL",
    ["fatal", "error", "warn", "info", "debug", "trace", "silent"],
    "info",
    "how much is logged",
  ),
  storeTimeoutMs: whole(
    "STORE_TIMEOUT_MS",
    2_000,
    50,
    60_000,
    "ms",
    "how long Redis or Postgres may take before a caller hears 503",
  ),
  bodyBytesInFlightMax: whole(
    "BODY_BYTES_IN_FLIGHT_MAX",
    268_435_456,
    1_048_576,
    2 ** 40,
    "bytes",
    "of all request bodies that one process holds at once; one workspace gets at most half, two a third each, and so on",
  ),
  sharedPort: yesNo("SHARED_PORT", false, "several api processes listen on the same port"),
  deliveryConcurrency: whole(
    "DELIVERY_CONCURRENCY",
    1_000,
    1,
    10_000,
    "e-mails",
    "in flight in one worker at once",
  ),
  retrySchedule: numbers(
    "RETRY_SCHEDULE",
    [60, 300, 900, 3_600, 7_200, 14_400, 28_800, 57_600, 86_400],
    "s",
    "waits between attempts; the last repeats",
  ),
  emailLifetimeHours: whole(
    "EMAIL_LIFETIME_HOURS",
    72,
    1,
    720,
    "h",
    "how long a mail is tried, from its first attempt on, before it bounces; waiting for a cap or a smarthost does not count",
  ),
  ehloName: optional(
    hostName(
      "EHLO_NAME",
      "what we call ourselves to whom we send; for `direct` the name that the PTR record of our address says",
    ),
  ),
  smtpTls: oneOf(
    "SMTP_TLS",
    ["opportunistic", "required", "off"],
    "opportunistic",
    "STARTTLS with the smarthost, or with receivers, whose certificates nobody checks",
  ),
  smtpTlsVerify: yesNo("SMTP_TLS_VERIFY", true, "the smarthost's certificate must be valid"),
  smtpRatePerSecond: whole(
    "SMTP_RATE_PER_SECOND",
    0,
    0,
    1_000_000,
    "e-mails/s",
    "to the smarthost in all; 0: no limit",
  ),
  smtpConnectionRatePerSecond: whole(
    "SMTP_CONNECTION_RATE_PER_SECOND",
    0,
    0,
    1_000_000,
    "e-mails/s",
    "on each connection; 0: no limit",
  ),
  directConnectionsMax: whole(
    "DIRECT_CONNECTIONS_MAX",
    20,
    1,
    500,
    "connections",
    "of `direct` to one receiver, per worker; it begins with 5 and feels its way",
  ),
  directSourceAddress: optional(
    ipAddress("DIRECT_SOURCE_ADDRESS", "of this machine, from which `direct` connects; without it, any"),
  ),
  dnsServers: list(
    "DNS_SERVERS",
    "addresses with commas between, with a colon and the port where it is not 53",
    "what `direct` asks for MX records; without it, the servers of this machine",
    (one) => (isIP(one.replace(/^\[(.*)\](?::\d+)?$|^([^:]*):\d+$/, "$1$2")) === 0 ? undefined : one),
  ),
  directPort: whole("DIRECT_PORT", 25, 1, 65_535, "port", "of receivers' hosts; another one is for tests"),
  directNetworksAllowed: list(
    "DIRECT_NETWORKS_ALLOWED",
    "networks with commas between, as `10.1.0.0/16`",
    "private networks to which `direct` may deliver; without it, public addresses only",
    readNetwork,
  ),
  bounceDomain: optional(
    hostName(
      "BOUNCE_DOMAIN",
      "return paths are below it, and its MX record leads to the role `inbound`; without it, bounces and complaints that come after a mail was taken are not heard",
    ),
  ),
  inboundHost: text("INBOUND_HOST", "127.0.0.1", "the address on which `inbound` listens for reports"),
  inboundPort: whole("INBOUND_PORT", 25, 0, 65_535, "port", "of `inbound`; 0 picks a free one"),
  inboundTlsCert: optional(
    text(
      "INBOUND_TLS_CERT",
      "",
      "a PEM file for STARTTLS of `inbound`; without it, a self-signed one is made",
    ),
  ),
  inboundTlsKey: optional(text("INBOUND_TLS_KEY", "", "a PEM file with the key of INBOUND_TLS_CERT")),
  feedbackAddresses: list(
    "FEEDBACK_ADDRESSES",
    "addresses with commas between",
    "to which providers send complaints (feedback loops); `inbound` takes them",
    (one) => (/^[^\s@<>]+@[^\s@<>]+\.[^\s@<>]+$/.test(one) ? one.toLowerCase() : undefined),
  ),
  capsPolicy: optional(
    text(
      "CAPS_POLICY",
      "",
      "the policy file under which sending caps grow and shrink; read again when it changes",
    ),
  ),
  capsEverySeconds: whole(
    "CAPS_EVERY_SECONDS",
    300,
    1,
    86_400,
    "s",
    "between two looks of the keeper at whether a cap must be frozen or shrunk",
  ),
  metricsPort: optional(
    whole(
      "METRICS_PORT",
      0,
      0,
      65_535,
      "port",
      "of metrics for Prometheus, on HOST; without it there are none",
    ),
  ),
  metricsToken: optional(
    minimum(
      "METRICS_TOKEN",
      16,
      "what Prometheus says as `Authorization: Bearer`; must be set where HOST is not this machine alone",
    ),
  ),
  retentionDays: whole(
    "RETENTION_DAYS",
    30,
    1,
    3_650,
    "days",
    "e-mail rows are kept after their final status",
  ),
  bodyRetentionDays: whole(
    "BODY_RETENTION_DAYS",
    7,
    1,
    3_650,
    "days",
    "bodies are kept after the final status",
  ),
  backlogMax: whole(
    "BACKLOG_MAX",
    20_000_000,
    1_000,
    2 ** 40,
    "e-mails",
    "unsettled, above which sends are answered 503",
  ),
  diskFreeMinMb: whole(
    "DISK_FREE_MIN_MB",
    1_024,
    0,
    2 ** 30,
    "MB",
    "free where Postgres keeps its data, below which sends are answered 503; watched only when that is this machine",
  ),
  postgresDataFolder: optional(
    text("POSTGRES_DATA_FOLDER", "", "the folder whose disk is watched; `npm start` sets it"),
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
    const value = written === null ? null : setting.read(written);
    if (value === undefined)
      problems.push(`${setting.env} must be ${setting.allows}, but is ${shown(setting.env, written)}`);
    config[name] = value;
  }
  if (problems.length > 0) throw new ConfigError(problems.join("\n"));
  return config as Config;
}

/** The table of the README. */
export function settingsTable(): string {
  const rows = Object.values(SETTINGS).map(
    ({ env, fallback, unit, reason, allows }) =>
      `| \`${env}\` | ${fallback === null || fallback === "" ? "" : `\`${fallback}\``} | ${unit} | ${allows} | ${reason} |`,
  );
  return ["| variable | default | unit | allows | what for |", "|---|---|---|---|---|", ...rows].join("\n");
}

/** uWebSockets.js reads its limit for request headers from the environment, once, when it is loaded. */
export function allowLargeHeaders(): void {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= String(HEADERS_BYTES_MAX);
}
const HEADERS_BYTES_MAX = 16 * 1024;

/** What children of a process get: its own environment, and what it found out; `assumed` is for what that leaves open. */
export function childEnv(found: Env, assumed: Env = {}): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...assumed, ...process.env, ...found }))
    if (value !== undefined) env[name] = value;
  return env;
}

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
    allows: "whole numbers from 1 to 86400 with commas between",
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
  return { env, fallback, unit: "", reason, allows: values.join(", "), read };
}

function yesNo(env: string, fallback: boolean, reason: string): Setting<boolean> {
  const read = (value: string) =>
    /^(true|1|yes)$/i.test(value) ? true : /^(false|0|no)$/i.test(value) ? false : undefined;
  return { env, fallback: String(fallback), unit: "", reason, allows: "true or false", read };
}

function url(env: string, protocols: readonly string[], reason: string): Setting<string> {
  const read = (value: string) =>
    URL.canParse(value) && protocols.includes(new URL(value).protocol) ? value : undefined;
  return { env, fallback: "", unit: "", reason, allows: `a url with ${protocols.join(" or ")}`, read };
}

function address(env: string, reason: string): Setting<string> {
  const read = (value: string) => (/^[^\r\n]*[^\s@]@[^\s@]+\.[^\s@]+$/.test(value) ? value : undefined);
  return { env, fallback: "", unit: "", reason, allows: "`a@x.com` or `Name <a@x.com>`", read };
}

function redisUrl(env: string, reason: string): Setting<string> {
  const known = ["redis:", "rediss:", "redis-cluster:", "unix:", "redis+unix:"];
  const isNode = (node: string) => {
    const text = node.includes("://") ? node : `redis://${node}`;
    if (!URL.canParse(text)) return false;
    const { protocol, hostname, pathname } = new URL(text);
    return known.includes(protocol) && (protocol.includes("unix") ? pathname.length > 1 : hostname !== "");
  };
  const read = (value: string) =>
    value.includes("://") && value.split(",").every(isNode) ? value : undefined;
  return { env, fallback: "", unit: "", reason, allows: `a url with ${known.join(" or ")}`, read };
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
  return { env, fallback: "", unit: "", reason, allows: "a full host name", read };
}

/** POSTRIDER_HOME as a full path. */
export function homeFolder(config: Pick<Config, "home">): string {
  return resolve(config.home);
}
