/**
 * PgBouncer in front of the Postgres of the run. It refuses to run as root, so it runs as `nobody`.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../src/embedded/port.ts";

export type PgBouncer = {
  port: number;
  /** The same database, through the pooler. */
  through(databaseUrl: string): string;
  stop(): Promise<void>;
};

/** In its settings: it leaves out what comes with our connections, without a word. */
export const IGNORED = `ignore_startup_parameters = ${[
  ...["statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout"],
  ...["plan_cache_mode", "enable_seqscan", "enable_bitmapscan", "synchronous_commit", "jit"],
  "postrider.settings",
].join()}`;

const INSTALLED = "pgbouncer";

/** `missing`: why the tests cannot run on it; null: they can. */
type PgBouncerProgram = { name: string; program: string; missing: string | null };

/** The installed one, and the newer one that `.ci/pgbouncer` unpacks, which keeps prepared statements. */
export const PGBOUNCERS: readonly PgBouncerProgram[] = [
  found(INSTALLED, "pgbouncer is not installed"),
  found(
    join(tmpdir(), "postrider-pgbouncer/pgbouncer"),
    "the newer pgbouncer is not here: run .ci/pgbouncer",
  ),
];
export const missingPgBouncer = PGBOUNCERS[0]?.missing ?? null;

function found(program: string, absence: string): PgBouncerProgram {
  try {
    const said = execFileSync(program, ["--version"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return { name: said.split("\n", 1)[0] as string, program, missing: null };
  } catch {
    console.warn(`${absence}; what is said of poolers is not tested on it`);
    return { name: absence, program, missing: absence };
  }
}

export async function startPgBouncer(
  databaseUrl: string,
  lines: readonly string[],
  program = INSTALLED,
): Promise<PgBouncer> {
  const { hostname, port, username, password } = new URL(databaseUrl);
  const folder = mkdtempSync(join(tmpdir(), "postrider-pgbouncer-"));
  chmodSync(folder, 0o755);
  const own = await freePort();
  const file = join(folder, "pgbouncer.ini");
  const login = `user=${decodeURIComponent(username)} password=${decodeURIComponent(password)}`;
  writeFileSync(
    file,
    ["[databases]", `* = host=${hostname} port=${port} ${login}`, "[pgbouncer]", "listen_addr = 127.0.0.1"]
      .concat(`listen_port = ${own}`, "unix_socket_dir =", "auth_type = any", "max_client_conn = 500", lines)
      .join("\n"),
  );
  const args = process.getuid?.() === 0 ? ["-u", "nobody", file] : [file];
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const ended = once(child, "exit");
  const isUp = async () => {
    const socket = connect(own, "127.0.0.1");
    const came = await Promise.race([
      once(socket, "connect").then(
        () => true,
        () => false,
      ),
      ended.then(() => {
        throw new Error(`PgBouncer did not start: ${said}`);
      }),
    ]);
    socket.destroy();
    return came;
  };
  while (!(await isUp())) await new Promise((resolve) => setTimeout(resolve, 20));
  return {
    port: own,
    through(databaseUrl) {
      const url = new URL(databaseUrl);
      url.searchParams.delete("socket");
      [url.hostname, url.port] = ["127.0.0.1", String(own)];
      return url.href;
    },
    async stop() {
      child.kill("SIGINT");
      const timer = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await ended;
      clearTimeout(timer);
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
