/**
 * Web servers of others in front of the api and the console, each with the file of `ops/proxy` that people
 * copy: other ports, the name `localhost`, and a certificate of the test's own.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { issue } from "../../src/smtp/certificate.ts";
import { read } from "./opsfiles.ts";

const DAY_MS = 86_400_000;
const END_MS_MAX = 5_000;

type Behind = { port: number; apiPorts: readonly [number, number]; consolePort: number };

type FrontProgram = {
  name: string;
  /** Its file names a second api, to be used by who has one. */
  takesTwo: boolean;
  program: string;
  version: string;
  /** What the file becomes, and how it is started with it, in a folder that has the certificate. */
  configure(behind: Behind, folder: string): { text: string; args(file: string): string[] };
};

const PROGRAMS: readonly FrontProgram[] = [
  { name: "nginx", takesTwo: true, program: "/usr/sbin/nginx", version: "-v", configure: ofNginx },
  { name: "Caddy", takesTwo: false, program: "/usr/bin/caddy", version: "version", configure: ofCaddy },
  { name: "HAProxy", takesTwo: true, program: "/usr/sbin/haproxy", version: "-v", configure: ofHaproxy },
];

export type FrontProxy = Pick<FrontProgram, "name" | "takesTwo"> & {
  start(behind: Behind): Promise<{ stop(): Promise<void> }>;
};

/** Those that are installed; of the others, a warning. */
export const FRONT_PROXIES: readonly FrontProxy[] = PROGRAMS.filter(isInstalled).map((front) => ({
  ...{ name: front.name, takesTwo: front.takesTwo },
  start: (behind) => start(front, behind),
}));

function isInstalled({ name, program, version }: FrontProgram): boolean {
  try {
    execFileSync(program, [version], { stdio: "ignore" });
    return true;
  } catch {
    console.warn(`${name} is not installed; what ops/proxy says of it is not tested`);
    return false;
  }
}

/** Throws where the file does not have what is replaced. */
function replaced(path: string, changes: Readonly<Record<string, string>>): string {
  return Object.entries(changes).reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`${path} has no "${from}"`);
    return text.replaceAll(from, to);
  }, read(path));
}

function ofNginx({ port, apiPorts, consolePort }: Behind, folder: string) {
  const server = replaced("ops/proxy/nginx.conf", {
    "127.0.0.1:3000": `127.0.0.1:${apiPorts[0]}`,
    "# server 127.0.0.1:3010": `server 127.0.0.1:${apiPorts[1]}`,
    "127.0.0.1:3001": `127.0.0.1:${consolePort}`,
    "listen 443": `listen 127.0.0.1:${port}`,
    "mail.example.com": "localhost",
    "/etc/postrider/tls/": `${folder}/`,
  });
  const kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const places = kept.map((what) => `${what}_temp_path ${folder}/${what};`).join("\n");
  return {
    text: `daemon off; pid ${folder}/pid; events {}\nhttp {\naccess_log off;\n${places}\n${server}\n}`,
    args: (file: string) => ["-e", "stderr", "-c", file],
  };
}

function ofCaddy({ port, apiPorts, consolePort }: Behind, folder: string) {
  const site = replaced("ops/proxy/Caddyfile", {
    "127.0.0.1:3000": `127.0.0.1:${apiPorts[0]}`,
    "127.0.0.1:3001": `127.0.0.1:${consolePort}`,
    "mail.example.com {": `https://localhost:${port} {\nbind 127.0.0.1\ntls ${folder}/fullchain.pem ${folder}/privkey.pem\n`,
  });
  return {
    text: `{\nadmin off\nauto_https disable_redirects\n}\n${site}`,
    args: (file: string) => ["run", "--adapter", "caddyfile", "--config", file],
  };
}

function ofHaproxy({ port, apiPorts, consolePort }: Behind, folder: string) {
  return {
    text: replaced("ops/proxy/haproxy.cfg", {
      "127.0.0.1:3000": `127.0.0.1:${apiPorts[0]}`,
      "# server api-2 127.0.0.1:3010": `server api-2 127.0.0.1:${apiPorts[1]}`,
      "127.0.0.1:3001": `127.0.0.1:${consolePort}`,
      "bind :443": `bind 127.0.0.1:${port}`,
      "/etc/postrider/tls/": `${folder}/`,
    }),
    args: (file: string) => ["-db", "-f", file],
  };
}

async function start(front: FrontProgram, behind: Behind): Promise<{ stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-front-"));
  chmodSync(folder, 0o755);
  const now = Date.now();
  const { cert, key } = issue({ name: "localhost", from: now - DAY_MS, until: now + DAY_MS });
  writeFileSync(join(folder, "fullchain.pem"), cert);
  writeFileSync(join(folder, "privkey.pem"), key);
  writeFileSync(join(folder, "both.pem"), cert + key);
  const { text, args } = front.configure(behind, folder);
  const file = join(folder, "configuration");
  writeFileSync(file, text);
  const child = spawn(front.program, args(file), {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, HOME: folder },
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (heard: string) => {
      said += heard;
    });
  const ended = once(child, "close");
  const failed = ended.then(() => {
    throw new Error(`${front.name} did not start:\n${said}`);
  });
  // once it has started, its end is no failure
  failed.catch(() => {});
  while (!(await Promise.race([accepts(behind.port), failed])))
    await new Promise((resolve) => setTimeout(resolve, 20));
  return {
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
      await ended;
      clearTimeout(timer);
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  const came = await once(socket, "connect").then(
    () => true,
    () => false,
  );
  socket.destroy();
  return came;
}
