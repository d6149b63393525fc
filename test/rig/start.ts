/**
 * `npm start` of a test: the built root in a folder of its own, heard line by line, and ended with the test
 * file.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";
import type { ReadyFile } from "../../src/embedded/home.ts";

const MAIN = fileURLToPath(new URL("../../dist/process/start.js", import.meta.url));
const END_MS_MAX = 20_000;
const READY = "Ctrl-C stops everything.";

const homes: string[] = [];
const ends: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  await Promise.all(ends.map((end) => end()));
  for (const home of homes) rmSync(home, { recursive: true, force: true, maxRetries: 10 });
});

export type Started = {
  pid: number;
  /** Resolves as soon as this was said; rejects when the process ends without saying it. */
  hears(text: string): Promise<void>;
  /** What was said on stdout and stderr. */
  said(): { out: string; err: string };
  /** Resolves when it accepts requests. */
  ready(): Promise<ReadyFile>;
  /** Resolves with its status when it has ended. */
  ended: Promise<number | null>;
  signal(name: NodeJS.Signals): void;
};

/** A folder that everybody may enter, removed with everything in it when the test file ends. */
export function freshHome(): string {
  const home = mkdtempSync(join(tmpdir(), "postrider-home-"));
  chmodSync(home, 0o755);
  homes.push(home);
  return home;
}

export function start(home: string, env: Record<string, string> = {}): Started {
  const child = spawn(process.execPath, [MAIN], {
    env: { PATH: process.env.PATH, NODE_ENV: "test", POSTRIDER_HOME: home, PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = { out: "", err: "" };
  const listeners = new Set<() => void>();
  const hear = (stream: "out" | "err") => (text: string) => {
    said[stream] += text;
    for (const listener of listeners) listener();
  };
  child.stdout.setEncoding("utf8").on("data", hear("out"));
  child.stderr.setEncoding("utf8").on("data", hear("err"));
  const ended = once(child, "close").then(([status]) => status as number | null);
  const hears = (text: string) =>
    new Promise<void>((resolve, reject) => {
      const listener = () => {
        if (said.out.includes(text)) resolve();
      };
      listeners.add(listener);
      listener();
      ended.then(() => reject(new Error(`it ended without "${text}":\n${said.out}${said.err}`)));
    });
  ends.push(async () => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
    await ended;
    clearTimeout(timer);
  });
  return {
    pid: child.pid as number,
    hears,
    said: () => said,
    async ready() {
      await hears(READY);
      return readReady(home);
    },
    ended,
    signal: (name) => void child.kill(name),
  };
}

export function readReady(home: string): ReadyFile {
  return JSON.parse(readFileSync(join(home, "ready.json"), "utf8")) as ReadyFile;
}
