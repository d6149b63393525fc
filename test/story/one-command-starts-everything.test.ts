import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createTransport } from "nodemailer";
import { afterAll, expect, test } from "vitest";
import { gone } from "../rig/gone.ts";

const MAIN = fileURLToPath(new URL("../../dist/process/start.js", import.meta.url));
/** In CPU time, of all processes: others may have the machine meanwhile. */
const READY_CPU_SECONDS_MAX = 20;
const TICKS_PER_SECOND = 100;
const CAUGHT_MS_MAX = 30_000;
/** Whoever does not end by itself stays for ever. */
const GONE_MS_MAX = 30_000;

// as `mktemp -d` makes it: only its owner may enter, and Postgres runs as somebody else
const home = mkdtempSync(join(tmpdir(), "postrider-start-"));
let root: ChildProcess | null = null;
afterAll(() => {
  root?.kill("SIGTERM");
  rmSync(home, { recursive: true, force: true });
});

type Ready = {
  base_url: string;
  api_key: string;
  mailbox_url: string;
  inbound_url: string;
  submission_url: string;
  submission_tls_url: string;
  console_url: string;
  console_email: string;
  console_password: string;
  pids: Record<string, number>;
};

async function start(): Promise<{ ready: Ready; said: string }> {
  const child = spawn(process.execPath, [MAIN], {
    env: { PATH: process.env.PATH, POSTRIDER_HOME: home, PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  root = child;
  let said = "";
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error(`it ended:\n${said}`)));
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("Ctrl-C")) resolve();
    });
  });
  return { ready: JSON.parse(readFileSync(join(home, "ready.json"), "utf8")) as Ready, said };
}

/** With that of their children that have ended. */
function cpuSecondsOf(pids: readonly number[]): number {
  const ticksOf = (pid: number) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
  };
  return pids.reduce((sum, pid) => sum + ticksOf(pid), 0) / TICKS_PER_SECOND;
}

async function caught(ready: Ready, subject: string): Promise<boolean> {
  const deadline = performance.now() + CAUGHT_MS_MAX;
  while (performance.now() < deadline) {
    const messages = (await (await fetch(`${ready.mailbox_url}/messages`)).json()) as { subject: string }[];
    if (messages.some((message) => message.subject === subject)) return true;
  }
  return false;
}

function send({ base_url, api_key }: Ready, subject: string) {
  return fetch(`${base_url}/api/v1/emails`, {
    method: "POST",
    headers: { authorization: `Bearer ${api_key}`, "content-type": "application/json" },
    body: JSON.stringify({
      from: "demo@example.com",
      to: "you@example.com",
      subject,
      html: "<p>It works.</p>",
    }),
  });
}

async function demoOwner({ console_url, console_email: email, console_password: password }: Ready) {
  const response = await fetch(`${console_url}/call/session`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: new URL(console_url).origin },
    body: JSON.stringify({ email, password }),
  });
  return (await response.json()) as { demo_key: string; base_url: string };
}

async function submitted(url: string, pass: string): Promise<string> {
  const { hostname: host, port, protocol } = new URL(url);
  const settings = { host, port: Number(port), secure: protocol === "smtps:", requireTLS: true };
  const { response } = await createTransport({
    ...settings,
    auth: { user: "demo", pass },
    tls: { rejectUnauthorized: false },
  }).sendMail({ from: "demo@example.com", to: "you@example.com", subject: "by SMTP", text: "It works." });
  return response;
}

test("from nothing to a mail in the mailbox; killed, it leaves nobody behind, starts again with its key, and stops", async () => {
  const first = await start();
  expect(cpuSecondsOf(Object.values(first.ready.pids))).toBeLessThan(READY_CPU_SECONDS_MAX);
  expect(first.said).toContain(first.ready.api_key);
  expect(statSync(join(home, "ready.json")).mode & 0o777).toBe(0o600);
  expect(first.ready.inbound_url).toMatch(/^smtp:\/\/127\.0\.0\.1:\d+$/);
  expect(await submitted(first.ready.submission_url, first.ready.api_key)).toMatch(/^250/);
  expect(await submitted(first.ready.submission_tls_url, first.ready.api_key)).toMatch(/^250/);
  expect(first.said).toContain(first.ready.submission_url);
  expect(first.said).toContain(`(${first.ready.console_email}, password ${first.ready.console_password})`);
  // as the first command that the console shows has them
  const { api_key: demo_key, base_url } = first.ready;
  expect(await demoOwner(first.ready)).toMatchObject({ demo_key, base_url });
  expect((await send(first.ready, "first")).status).toBe(200);
  expect(await caught(first.ready, "first")).toBe(true);

  const pids = Object.values(first.ready.pids);
  process.kill(first.ready.pids.root as number, "SIGKILL");
  await gone(pids, GONE_MS_MAX);

  const second = await start();
  expect(second.ready.api_key).toBe(first.ready.api_key);
  expect((await send(second.ready, "second")).status).toBe(200);
  expect(await caught(second.ready, "second")).toBe(true);
  process.kill(second.ready.pids.root as number, "SIGINT");
  await gone(Object.values(second.ready.pids), GONE_MS_MAX);
  expect(existsSync(join(home, "ready.json"))).toBe(false);
}, 240_000);
