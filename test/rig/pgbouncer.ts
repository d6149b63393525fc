/**
 * Debian's PgBouncer in front of the Postgres of the run. It refuses to run as root, so it runs as `nobody`.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../src/embedded/port.ts";

export type PgBouncer = {
  /** The same database, through the pooler. */
  through(databaseUrl: string): string;
  stop(): Promise<void>;
};

/** Why the tests cannot run; null: they can. */
export const missingPgBouncer = (() => {
  try {
    execFileSync("pgbouncer", ["--version"], { stdio: "ignore" });
    return null;
  } catch {
    console.warn("pgbouncer is not installed: what is said of poolers is not tested");
    return "pgbouncer is not installed";
  }
})();

export async function startPgBouncer(databaseUrl: string, lines: readonly string[]): Promise<PgBouncer> {
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
  const child = spawn("pgbouncer", args, { stdio: ["ignore", "ignore", "pipe"] });
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
