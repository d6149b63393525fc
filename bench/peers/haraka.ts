/**
 * Haraka 3.1 from npm, installed once into ~/.cache/postrider, as an instance of its own that relays everything to the
 * sink. It answers after its queue file is synced. One process for each core, and every limit that would slow it lifted.
 */
import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { freePort } from "../../src/embedded/port.ts";
import type { Bench } from "../machine.ts";
import { endChild } from "../sink.ts";
import { expectSmtpSource, NotHere, type Peer, untilGreeted } from "./peer.ts";

const VERSION = "3.1.6";
/** Its dependencies as they were when that version was new. */
const BEFORE = "2026-06-01";
const HOME = join(homedir(), ".cache/postrider", `haraka-${VERSION}`);
const PROGRAM = join(HOME, "node_modules/Haraka/bin/haraka");
const INSTALL_MS_MAX = 120_000;

function files(port: number, sinkPort: number): Record<string, string> {
  return {
    "config/me": "haraka.bench.example.com\n",
    "config/smtp.ini": `listen=127.0.0.1:${port}\nnodes=cpus\n`,
    "config/log.ini": "[main]\nlevel=EMERG\n",
    "config/outbound.ini": "concurrency_max=1000\nenable_tls=false\nlocal_mx_ok=true\n",
    "config/plugins": "to_sink\n",
    "plugins/to_sink.js": `exports.register = function () {
  this.register_hook("connect", "trust");
  this.register_hook("get_mx", "route");
};
exports.trust = (next, connection) => {
  connection.relaying = true;
  next();
};
exports.route = (next) => next(OK, { exchange: "127.0.0.1", port: ${sinkPort}, priority: 0 });
`,
  };
}

export const haraka: Peer = {
  name: "Haraka",
  async start(bench: Bench) {
    expectSmtpSource();
    install();
    const folder = join(bench.folder, "haraka");
    const port = await freePort();
    const written = files(port, bench.sink.port);
    for (const [name, text] of Object.entries(written)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    // its own defaults, which it does not start without
    copyFileSync(join(PROGRAM, "../../config/connection.ini"), join(folder, "config/connection.ini"));
    const child = spawn(process.execPath, [PROGRAM, "-c", folder], { stdio: "ignore", detached: true });
    const stop = bench.endings.add(() => endChild(child));
    await untilGreeted("Haraka", port, child);
    const text = Object.entries(written).map(([name, content]) => `${name}:\n${content}`);
    return {
      intake: { kind: "smtp", port },
      processes: [{ name: "haraka", pid: child.pid as number }],
      exhibits: [{ name: `Haraka ${VERSION}`, text: text.join("\n") }],
      stop,
    };
  },
};

/** null: it is not installed. */
export function harakaVersion(): string | null {
  return existsSync(PROGRAM) ? VERSION : null;
}

function install(): void {
  if (existsSync(PROGRAM)) return;
  mkdirSync(HOME, { recursive: true });
  writeFileSync(join(HOME, "package.json"), '{ "private": true }\n');
  const wanted = [`Haraka@${VERSION}`, "--omit=optional", `--before=${BEFORE}`];
  const { status } = spawnSync("npm", ["install", ...wanted, "--no-audit", "--no-fund"], {
    cwd: HOME,
    stdio: "ignore",
    timeout: INSTALL_MS_MAX,
  });
  if (status !== 0) throw new NotHere(`npm could not install Haraka@${VERSION}`);
}
