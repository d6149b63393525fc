/**
 * Haraka 3.1 from npm, installed once into ~/.cache/postrider, as an instance of its own that relays
 * everything to the sink. It answers after its queue file is synced. One process for each core, with the
 * engine's own flags for Node, and every limit that would slow it lifted.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { nodeFlags } from "../../src/embedded/child.ts";
import { freePort } from "../../src/embedded/port.ts";
import type { Bench } from "../machine.ts";
import { endChild } from "../sink.ts";
import { expectSmtpSource, NotHere, type Peer, untilGreeted } from "./peer.ts";

const VERSION = "3.1.6";
/** Its dependencies as they were when that version was new. */
const BEFORE = "2026-06-01";
const HOME = join(homedir(), ".cache/postrider", `haraka-${VERSION}`);
const PROGRAM = join(HOME, "node_modules/Haraka/bin/haraka");
/** Its own, which it does not start without. */
const DEFAULTS = join(HOME, "node_modules/Haraka/config/connection.ini");
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
    await install(bench);
    const folder = join(bench.folder, "haraka");
    const port = await freePort();
    const written = files(port, bench.sink.port);
    for (const [name, text] of Object.entries(written)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    copyFileSync(DEFAULTS, join(folder, "config/connection.ini"));
    // its workers inherit the flags
    const child = spawn(process.execPath, [...nodeFlags(["deliver"]), PROGRAM, "-c", folder], {
      stdio: "ignore",
      detached: true,
    });
    const stop = bench.endings.add(() => endChild(child));
    await untilGreeted("Haraka", port, child).catch((error: Error) => {
      throw new NotHere(`${error.message}; without ${HOME} it is installed anew`);
    });
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
  return isInstalled() ? VERSION : null;
}

/**
 * An npm that was interrupted leaves packages without their files; the list of what it did it writes last.
 */
function isInstalled(): boolean {
  return [PROGRAM, DEFAULTS, join(HOME, "node_modules/.package-lock.json")].every((file) => existsSync(file));
}

async function install({ endings }: Bench): Promise<void> {
  if (isInstalled()) return;
  rmSync(HOME, { recursive: true, force: true });
  mkdirSync(HOME, { recursive: true });
  writeFileSync(join(HOME, "package.json"), '{ "private": true }\n');
  // our own .npmrc, which is in the environment, refuses packages that ask for a newer Node; these run on
  // ours
  const wanted = [`Haraka@${VERSION}`, "--omit=optional", `--before=${BEFORE}`, "--engine-strict=false"];
  const npm = spawn("npm", ["install", ...wanted, "--no-audit", "--no-fund"], {
    cwd: HOME,
    stdio: "ignore",
    timeout: INSTALL_MS_MAX,
    detached: true, // Ctrl-C is ours to pass on
  });
  const end = endings.add(() => endChild(npm));
  await once(npm, "close").catch(() => {}); // whether npm is there or not: what counts is what it has left
  await end();
  if (!isInstalled()) throw new NotHere(`npm could not install Haraka@${VERSION}`);
}
