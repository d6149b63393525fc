/**
 * A process of ours that ends with us: started with a log file, heard until it serves or says why it cannot,
 * ended with a deadline. It is in a group of its own: Ctrl-C reaches the root alone, which ends the others in
 * order.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Role } from "../rules/roles.ts";
import type { ChildReport } from "./parent.ts";

/**
 * What a process of these roles runs with. Half of the requests and mails of a moment outlive a young
 * generation of 16 MB, and are then copied twice: with 32 MB all of `deliver` takes 6% less CPU; with 64 MB,
 * no less. Elsewhere it would only be memory that stays taken.
 */
export function nodeFlags(roles: readonly Role[]): string[] {
  const isBusy = roles.includes("api") || roles.includes("deliver");
  return ["--enable-source-maps", ...(isBusy ? ["--max-semi-space-size=32"] : [])];
}

/** Why a start failed, in a line for the user, and the status that the process ends with. */
export class ChildStartError extends Error {
  readonly status: number;
  readonly isPortTaken: boolean;

  constructor(reason: string, status = 1, isPortTaken = false) {
    super(reason);
    this.status = status;
    this.isPortTaken = isPortTaken;
  }
}

export type ChildOptions = {
  /** How messages call it. */
  name: string;
  script: string;
  args: readonly string[];
  roles: readonly Role[];
  env: Record<string, string>;
  logFile: string;
  say(line: string): void;
};

export type Child = {
  pid: number;
  /** The report that it serves; rejects with a StartError when it cannot. */
  started: Promise<ChildReport>;
  /** Resolves when it has ended, with why. */
  ended: Promise<string>;
  end(msMax: number): Promise<void>;
};

export function startChild({ name, script, args, roles, env, logFile, say }: ChildOptions): Child {
  const log = openSync(logFile, "a", 0o600);
  const child = spawn(process.execPath, [...nodeFlags(roles), script, ...args], {
    stdio: ["ignore", log, log, "ipc"],
    detached: true,
    env,
  });
  closeSync(log);
  let failure: Extract<ChildReport, { kind: "failed" }> | null = null;
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (status, signal) => resolve(failure?.reason ?? signal ?? `status ${status}`));
  });
  const served = new Promise<ChildReport>((resolve) => {
    child.on("message", (report: ChildReport) => {
      if (report.kind === "progress") say(report.line);
      else if (report.kind === "failed") failure = report;
      else resolve(report);
    });
  });
  const died = ended.then((why) => {
    throw new ChildStartError(
      failure?.reason ?? `The ${name} process ended while it was starting (${why}). See ${logFile}`,
      failure?.status,
      failure?.isPortTaken,
    );
  });
  const started = Promise.race([served, died]);
  started.catch(() => {}); // who does not wait for it looks at `ended`
  return {
    pid: child.pid ?? 0,
    started,
    ended,
    async end(msMax) {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), msMax);
      await ended;
      clearTimeout(timer);
    },
  };
}
