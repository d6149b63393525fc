/**
 * Redis for a machine that has none running: `redis-server` or `valkey-server` from PATH, run by us. On Debian and
 * Ubuntu, as root, a missing one is installed with apt-get; elsewhere the one command to run is said.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { freePort } from "./port.ts";

const START_MS_MAX = 20_000;
const STOP_MS_MAX = 5_000;
const SERVERS = ["redis-server", "valkey-server"];

export type RedisOptions = {
  folder: string;
  port?: number;
  /** Whether what it holds outlives it. */
  durable: boolean;
  log(line: string): void;
};

export type RedisServer = {
  /** Over its unix socket, for processes of this machine. */
  url: string;
  tcpUrl: string;
  pid: number;
  ended: Promise<void>;
  stop(): Promise<void>;
};

/** Nothing can be done about a missing Redis from here: the message says what the user can do. */
export class NoRedisError extends Error {}

export async function startRedis(options: RedisOptions): Promise<RedisServer> {
  const server = findServer() ?? installServer(options.log);
  const folder = resolve(options.folder);
  mkdirSync(folder, { recursive: true });
  await endLeftover(folder, options.log);
  const port = options.port ?? (await freePort());
  const sockets = Buffer.byteLength(folder) < 80 ? folder : mkdtempSync("/tmp/postrider-");
  const socket = join(sockets, "redis.sock");
  const keeps = options.durable
    ? ["--appendonly", "yes", "--appendfsync", "everysec"]
    : ["--appendonly", "no"];
  const child = spawn(
    server,
    [
      "--port",
      String(port),
      "--bind",
      "127.0.0.1",
      "--unixsocket",
      socket,
      "--dir",
      folder,
      "--save",
      "",
      ...keeps,
      "--maxmemory-policy",
      "noeviction",
      "--daemonize",
      "no",
      "--tcp-backlog",
      "128",
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  const ended = new Promise<void>((done) => child.once("exit", () => done()));
  const lines: string[] = [];
  const ready = new Promise<void>((done) => {
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        lines.push(chunk);
        if (lines.length > 50) lines.shift();
        if (chunk.includes("eady to accept connections")) done();
      });
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`Redis did not start in time:\n${lines.join("")}`)),
      START_MS_MAX,
    );
  });
  const died = ended.then(() => Promise.reject(new Error(`Redis did not start:\n${lines.join("")}`)));
  died.catch(() => {});
  await Promise.race([ready, late, died]).finally(() => clearTimeout(timer));
  chmodSync(socket, 0o600);
  writeFileSync(join(folder, "redis.pid"), String(child.pid));
  return {
    url: `unix://${socket}`,
    tcpUrl: `redis://127.0.0.1:${port}`,
    pid: child.pid as number,
    ended,
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
      await ended;
      clearTimeout(timer);
      rmSync(join(folder, "redis.pid"), { force: true });
      if (sockets !== folder) rmSync(sockets, { recursive: true, force: true });
    },
  };
}

function findServer(): string | null {
  return SERVERS.find((name) => spawnSync(name, ["--version"]).status === 0) ?? null;
}

function installServer(log: (line: string) => void): string {
  const isDebian = existsSync("/etc/debian_version");
  if (!isDebian || process.getuid?.() !== 0)
    throw new NoRedisError(
      `Redis is needed and was not found. Install it with: ${isDebian ? "sudo apt-get install redis-server" : "your package manager (redis or valkey)"}, or set REDIS_URL.`,
    );
  log("Redis was not found: installing redis-server with apt-get");
  const apt = (...args: string[]) =>
    // the runlevel keeps the package from starting a server of its own
    execFileSync("apt-get", args, {
      stdio: "pipe",
      env: { ...PATH_ONLY, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" },
    });
  try {
    try {
      apt("install", "-y", "--no-install-recommends", "redis-server");
    } catch {
      apt("update");
      apt("install", "-y", "--no-install-recommends", "redis-server");
    }
  } catch (error) {
    throw new NoRedisError(
      `apt-get could not install redis-server: ${(error as Error).message.split("\n")[0]}`,
    );
  }
  const server = findServer();
  if (!server) throw new NoRedisError("redis-server was installed but is not on PATH.");
  return server;
}

const PATH_ONLY = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

/** A server of an earlier run may still hold the data: it is asked to end. */
async function endLeftover(folder: string, log: (line: string) => void): Promise<void> {
  const pidFile = join(folder, "redis.pid");
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, "utf8"));
  if (isServerIn(pid, folder)) {
    log(`Ending a Redis that an earlier run left behind (pid ${pid})`);
    process.kill(pid, "SIGTERM");
    while (isServerIn(pid, folder)) await new Promise((done) => setTimeout(done, 50));
  }
  rmSync(pidFile, { force: true });
}

function isServerIn(pid: number, folder: string): boolean {
  try {
    const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    return SERVERS.some((name) => line.includes(name)) && line.length > 0 && readLink(pid) === folder;
  } catch {
    return false;
  }
}

function readLink(pid: number): string {
  return execFileSync("readlink", [`/proc/${pid}/cwd`], { encoding: "utf8" }).trim();
}
