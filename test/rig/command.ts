/** The command line, run as people run it, on the stores of the run. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { settingsOf } from "./engine.ts";

const COMMAND = fileURLToPath(new URL("../../src/cli/postrider.ts", import.meta.url));

export type Ran = { status: number | null; out: string; err: string };

export function postrider(...args: string[]): Promise<Ran> {
  const child = spawn(process.execPath, ["--import", "tsx", COMMAND, ...args], {
    env: { PATH: process.env.PATH, ...settingsOf({}) },
  });
  const ran: Ran = { status: null, out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    ran.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    ran.err += chunk;
  });
  return new Promise((resolve) => child.once("close", (status) => resolve({ ...ran, status })));
}

/** What a command that succeeds prints with --json. */
export async function postriderJson<T>(...args: string[]): Promise<T> {
  const { status, out, err } = await postrider(...args, "--json");
  expect(status, err).toBe(0);
  return JSON.parse(out) as T;
}
