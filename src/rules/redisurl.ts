/**
 * What REDIS_URL may say: one server, its unix socket, a cluster, or a master that Sentinel names. Users and
 * passwords are percent-encoded, as in every URL.
 */
export type RedisPlace =
  | { kind: "server"; url: string; host: string; port: number }
  | { kind: "socket"; path: string; login: RedisLogin }
  | { kind: "cluster"; nodes: HostPort[]; isTls: boolean; login: RedisLogin }
  | {
      kind: "sentinel";
      sentinels: HostPort[];
      isTls: boolean;
      master: string;
      db: number;
      login: RedisLogin;
      /** Of the sentinels themselves. */
      sentinelLogin: RedisLogin;
    };
export type HostPort = { host: string; port: number };
/** Of an ACL user; without a name it is the password of the default user. */
export type RedisLogin = { username?: string; password?: string };

export const REDIS_URL_FORMS = [
  "redis://HOST",
  "rediss://HOST",
  "unix:///SOCKET",
  "redis-cluster://HOST,HOST",
  "redis+sentinel://HOST,HOST/NAME",
];

const REDIS_PORT = 6379;
const SENTINEL_PORT = 26379;

/** null: it is none of these. */
export function readRedisUrl(url: string): RedisPlace | null {
  const scheme = /^([a-z+-]+):\/\//.exec(url)?.[1] ?? "";
  if (/^rediss?\+sentinel$/.test(scheme)) return readSentinels(url, scheme);
  if (/^rediss?-cluster$/.test(scheme) || (/^rediss?$/.test(scheme) && url.includes(",")))
    return readCluster(url, scheme);
  const parsed = parse(url);
  if (parsed === null) return null;
  if (scheme === "unix" || scheme === "redis+unix") return readSocket(parsed);
  const { hostname: host, port, pathname } = parsed;
  if (!/^rediss?$/.test(scheme) || host === "" || !/^\/?\d{0,3}$/.test(pathname)) return null;
  return { kind: "server", url, host, port: Number(port || REDIS_PORT) };
}

/**
 * `unix:///folder/redis.sock?password=P`, since a url without a host has no place for a password before it.
 */
function readSocket({ pathname, searchParams }: URL): RedisPlace | null {
  if (pathname.length <= 1) return null;
  const login = loginOf(searchParams.get("username"), searchParams.get("password"));
  return { kind: "socket", path: decodeURIComponent(pathname), login };
}

/**
 * `redis-cluster://a:7401,b:7402`, or several urls with commas between. The nodes of a cluster have the same
 * users.
 */
function readCluster(url: string, scheme: string): RedisPlace | null {
  const parts = url.split(",").map((part) => parse(part.includes("://") ? part : `${scheme}://${part}`));
  const schemes = new Set(parts.map((part) => part?.protocol));
  const nodes = readHosts(parts, REDIS_PORT);
  // a cluster has one database
  const namesAnother = parts.some((part) => !/^\/?0?$/.test(part?.pathname ?? ""));
  if (nodes === null || schemes.size > 1 || namesAnother) return null;
  return { kind: "cluster", nodes, isTls: scheme.startsWith("rediss"), login: loginIn(parts) };
}

/** `redis+sentinel://user:password@a:26379,b:26379/NAME/0?sentinel_password=P`. */
function readSentinels(url: string, scheme: string): RedisPlace | null {
  const parts = url.split(",").map((part) => parse(part.includes("://") ? part : `${scheme}://${part}`));
  const sentinels = readHosts(parts, SENTINEL_PORT);
  const last = parts.at(-1);
  if (sentinels === null || !last) return null;
  const [, master = "", db = "0", ...more] = last.pathname.split("/");
  if (master === "" || !/^\d{1,3}$/.test(db) || more.length > 0) return null;
  const { searchParams } = last;
  return {
    kind: "sentinel",
    sentinels,
    isTls: scheme.startsWith("rediss"),
    master: decodeURIComponent(master),
    db: Number(db),
    login: loginIn(parts),
    sentinelLogin: loginOf(searchParams.get("sentinel_username"), searchParams.get("sentinel_password")),
  };
}

function readHosts(parts: readonly (URL | null)[], defaultPort: number): HostPort[] | null {
  const hosts = parts.map((part) => ({
    host: (part?.hostname ?? "").replace(/^\[|\]$/g, ""), // of IPv6 addresses
    port: Number(part?.port || defaultPort),
  }));
  return hosts.every(({ host }) => host !== "") ? hosts : null;
}

function loginIn(parts: readonly (URL | null)[]): RedisLogin {
  const named = parts.find((part) => part !== null && part.password !== "");
  return named
    ? loginOf(decodeURIComponent(named.username), decodeURIComponent(named.password))
    : loginOf(null, null);
}

function loginOf(username: string | null, password: string | null): RedisLogin {
  return { ...(username && { username }), ...(password !== null && { password }) };
}

function parse(url: string): URL | null {
  return URL.canParse(url) ? new URL(url) : null;
}
