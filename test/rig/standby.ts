/**
 * A standby that streams from a Postgres of a test: a copy of its data, run by the same program on a port of
 * its own.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Daemon, startDaemon } from "../../src/embedded/daemon.ts";
import { freePort } from "../../src/embedded/port.ts";
import type { Postgres } from "../../src/embedded/postgres.ts";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";

const ASK_MS_MAX = 30_000;

export type Standby = {
  url: string;
  port: number;
  /** A connection of the test's own: `pg_wal_replay_pause()` holds it behind. */
  sql: Sql;
  /** It takes writes from now on, as the primary. */
  promote(): Promise<void>;
  /** As a power cut would. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
};

export async function startStandby(primary: Postgres): Promise<Standby> {
  const folder = join(primary.folder, "standby");
  await copyData(primary, folder);
  const port = await freePort();
  const url = new URL(primary.tcpUrl);
  url.port = String(port);
  const start = () => run(primary, folder, port);
  let server = await start();
  const sql = connectRecord(url.href, "setup", ASK_MS_MAX);
  return {
    url: url.href,
    port,
    sql,
    async promote() {
      const [row] = await sql<{ isPromoted: boolean }[]>`select pg_promote() as "isPromoted"`;
      if (!row?.isPromoted) throw new Error("the standby was not promoted");
    },
    async kill() {
      process.kill(server.pid, "SIGQUIT");
      await server.ended;
    },
    async restart() {
      server = await start();
    },
    async stop() {
      await sql.end({ timeout: 1 });
      await server.stop();
    },
  };
}

/** As pg_basebackup does it, which the embedded Postgres does not bring. */
async function copyData(primary: Postgres, folder: string): Promise<void> {
  const data = join(primary.folder, "data");
  const sql = connectRecord(primary.url, "setup", ASK_MS_MAX);
  await sql`select pg_backup_start('standby', true)`;
  execFileSync("cp", ["-a", data, folder]);
  const [label] = await sql<{ labelfile: string }[]>`select labelfile from pg_backup_stop(false)`;
  await sql.end();
  const { uid, gid } = statSync(data);
  const { hostname, port, username, password } = new URL(primary.tcpUrl);
  const from = `host=${hostname} port=${port} user=${username} password=${password}`;
  const files = {
    backup_label: label?.labelfile ?? "",
    "standby.signal": "",
    "postgresql.auto.conf": `primary_conninfo = '${from}'\n`,
  };
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text);
    execFileSync("chown", [`${uid}:${gid}`, join(folder, name)]);
  }
  const left = readdirSync(folder).filter((name) => name.startsWith("postmaster.") || name.startsWith(".s."));
  for (const name of left) rmSync(join(folder, name));
}

function run(primary: Postgres, folder: string, port: number): Promise<Daemon> {
  const { uid, gid } = statSync(folder);
  const settings = readFileSync(`/proc/${primary.pid}/cmdline`, "utf8")
    .split("\0")
    .filter((word) => /^\w+=/.test(word) && !/^(port|unix_socket_\w+)=/.test(word));
  const all = [...settings, `port=${port}`, "unix_socket_directories="].flatMap((word) => ["-c", word]);
  return startDaemon({
    name: "The standby",
    program: readlinkSync(`/proc/${primary.pid}/exe`),
    args: ["-D", "/proc/self/cwd", ...all],
    owner: process.getuid?.() === 0 ? { uid, gid } : null,
    cwd: folder,
    env: { LC_ALL: "C" },
    isReady: (line) => line.includes("ready to accept read-only connections"),
    gently: "SIGINT",
    atOnce: "SIGQUIT",
  });
}
