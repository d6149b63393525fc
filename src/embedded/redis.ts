/**
 * Redis for a machine that has none running: `redis-server` or `valkey-server`, run by us in a folder of its
 * own. It refuses writes when it is full instead of forgetting, as the queue needs. Every user of the machine
 * can connect to its port, so that `npm start` gives it a password; without one it is for tests.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { startDaemon } from "./daemon.ts";
import { makeFolder } from "./folder.ts";
import { withPort } from "./port.ts";
import { endProcess, identify, worksIn } from "./process.ts";
import { redisProgram } from "./redisprogram.ts";

/** A unix socket's path may have 107 bytes. */
const SOCKET_FOLDER_BYTES_MAX = 90;

export type RedisOptions = {
  folder: string;
  /** Missing: a free one. */
  port?: number;
  password?: string;
  /** Whether what it holds outlives it. */
  durable: boolean;
  log(line: string): void;
  /** Ends it at once, also while it starts. */
  signal?: AbortSignal;
};

export type RedisServer = {
  /** Over its unix socket, for processes of this machine. */
  url: string;
  tcpUrl: string;
  pid: number;
  ended: Promise<void>;
  stop(): Promise<void>;
};

export async function startRedis(options: RedisOptions): Promise<RedisServer> {
  const { durable, log, signal, password } = options;
  const program = await redisProgram(log);
  const folder = resolve(options.folder);
  makeFolder(folder);
  const pidFile = join(folder, "redis.pid");
  await endLeftover(pidFile, folder, log);
  const sockets =
    Buffer.byteLength(folder) <= SOCKET_FOLDER_BYTES_MAX ? folder : mkdtempSync("/tmp/postrider-");
  const socket = join(sockets, "redis.sock");
  const configFile = join(folder, "redis.conf");
  // in a file, since everybody sees the arguments of a process
  writeFileSync(configFile, password === undefined ? "" : `requirepass ${password}\n`, { mode: 0o600 });
  return withPort(options.port, async (port) => {
    const settings = {
      bind: "127.0.0.1",
      port: String(port),
      unixsocket: socket,
      unixsocketperm: "600",
      dir: folder,
      pidfile: pidFile,
      save: "",
      appendonly: durable ? "yes" : "no",
      appendfsync: "everysec",
      "maxmemory-policy": "noeviction",
    };
    const server = await startDaemon({
      name: "Redis",
      program,
      args: [configFile, ...Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])],
      env: {},
      isReady: (line) => line.includes("eady to accept connections"),
      gently: "SIGTERM",
      atOnce: "SIGKILL", // what it answered is with the system, and may be lost anyway
      signal,
    });
    return {
      // `%`, `#` and `?` of the folder escaped
      url: `unix://${pathToFileURL(socket).pathname}${password === undefined ? "" : `?password=${password}`}`,
      tcpUrl: `redis://${password === undefined ? "" : `:${password}@`}127.0.0.1:${port}`,
      pid: server.pid,
      ended: server.ended,
      async stop() {
        await server.stop();
        if (sockets !== folder) rmSync(sockets, { recursive: true, force: true });
      },
    };
  });
}

/** A server of an earlier run may still write into the folder. */
async function endLeftover(pidFile: string, folder: string, log: (line: string) => void): Promise<void> {
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, "utf8"));
  // Redis writes over its command line, but works in its data folder
  const leftover = worksIn(pid, folder) ? identify(pid) : null;
  if (leftover === null) return;
  log(`Stopping a Redis of an earlier run (pid ${pid})`);
  await endProcess(leftover, "SIGTERM");
}
