/**
 * The command line as an operator runs it: a process of its own, with the settings of an engine of the test.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { expect } from "vitest";
import { type EngineOptions, settingsOf } from "./engine.ts";
import { preloads } from "./preloads.ts";
import { type Installation, POSTRIDER } from "./process.ts";

export type Ran = { status: number | null; out: string; err: string };

export type CommandLine = {
  /** Under way, for whoever wants to interfere. */
  begin(...args: string[]): ChildProcessWithoutNullStreams;
  postrider(...args: string[]): Promise<Ran>;
  /** What it says as JSON; it has to succeed. */
  json<T>(...args: string[]): Promise<T>;
};

export function commandLine(
  options: EngineOptions & Installation & { wrongByMs?: number } = {},
): CommandLine {
  const { execArgv, env } = preloads(options);
  function begin(...args: string[]): ChildProcessWithoutNullStreams {
    return spawn(options.execPath ?? process.execPath, [...execArgv, options.program ?? POSTRIDER, ...args], {
      env: { PATH: process.env.PATH, ...env, ...settingsOf(options) },
    });
  }
  async function postrider(...args: string[]): Promise<Ran> {
    const child = begin(...args);
    const ran: Ran = { status: null, out: "", err: "" };
    child.stdout.on("data", (chunk) => {
      ran.out += chunk;
    });
    child.stderr.on("data", (chunk) => {
      ran.err += chunk;
    });
    return new Promise((resolve) => child.once("close", (status) => resolve({ ...ran, status })));
  }
  return {
    begin,
    postrider,
    async json<T>(...args: string[]): Promise<T> {
      const { status, out, err } = await postrider(...args, "--json");
      expect(status, err).toBe(0);
      return JSON.parse(out) as T;
    },
  };
}
