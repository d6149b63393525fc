/**
 * A process of the engine whose log is read line by line, from before it is ready; it ends with the test
 * file.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll } from "vitest";
import type { Role } from "../../src/rules/roles.ts";
import { type EngineOptions, settingsOf } from "./engine.ts";
import { POSTRIDER } from "./process.ts";

const END_MS_MAX = 20_000;
const running = new Set<ChildProcess>();
afterAll(() => Promise.all([...running].map(ended)));

export type LogLine = { level: number; msg: string } & Record<string, unknown>;

export type Launched = {
  pid: number;
  /** Its log so far; what is no JSON was written by somebody else. */
  lines: readonly LogLine[];
  /** What it said to whoever started it. */
  err(): string;
  /** Resolves with the first line that says this. */
  says(msg: string | RegExp): Promise<LogLine>;
  /** With its exit status. */
  ended: Promise<number | null>;
  signal(name: NodeJS.Signals): void;
};

export function launch(
  roles: readonly Role[],
  options: EngineOptions,
  args: readonly string[] = [],
  node = process.execPath,
): Launched {
  const child = spawn(node, [POSTRIDER, "serve", "--role", roles.join(), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, LOG_LEVEL: "info", ...settingsOf(options) },
  });
  running.add(child);
  const lines: LogLine[] = [];
  const listeners = new Set<() => void>();
  let err = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  createInterface({ input: child.stdout }).on("line", (text) => {
    try {
      lines.push(JSON.parse(text) as LogLine);
    } catch {
      lines.push({ level: 0, msg: text });
    }
    for (const listener of listeners) listener();
  });
  const over = once(child, "close").then(([status]) => {
    running.delete(child);
    return status as number | null;
  });
  return {
    pid: child.pid as number,
    lines,
    err: () => err,
    says: (wanted) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const found = lines.find(({ msg }) =>
            typeof wanted === "string" ? msg === wanted : wanted.test(msg),
          );
          if (!found) return;
          listeners.delete(look);
          resolve(found);
        };
        listeners.add(look);
        look();
        over.then(() =>
          reject(new Error(`it ended without saying ${wanted}: ${err}${JSON.stringify(lines)}`)),
        );
      }),
    ended: over,
    signal: (name) => void child.kill(name),
  };
}

async function ended(child: ChildProcess): Promise<void> {
  const over = once(child, "close");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
  await over;
  clearTimeout(timer);
}
