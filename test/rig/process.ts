/**
 * A process of the engine that a test may kill: the built roles run as in production, on the leash of the
 * test file, so that none is left behind.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { ChildReport } from "../../src/embedded/parent.ts";
import type { Role } from "../../src/rules/roles.ts";
import { type EngineOptions, settingsOf } from "./engine.ts";
import { type AskLoop, type LoopAnswer, type LoopReport, preloads, type SetClock } from "./preloads.ts";

export type EngineProcess = {
  pid: number;
  /** Of its api, when it has one. */
  port: number | null;
  /** Where it takes reports, when it does. */
  inboundPort: number | null;
  /** Of its console, when it has one. */
  consolePort: number | null;
  /** Where it takes mail over SMTP in TLS, when it does. */
  submissionTlsPort: number | null;
  /** False as soon as it has ended, by itself too. */
  isRunning(): boolean;
  /** As a power cut would. */
  kill(): Promise<unknown>;
  /** It finishes what is under way; with its exit status, null when it had to be killed. */
  stop(): Promise<number | null>;
  /** SIGSTOP and SIGCONT: it stands still and does not know. */
  freeze(): void;
  thaw(): void;
  /** From now on its wall clock is off by this much; needs a process that was started with `wrongByMs`. */
  setClock(offsetMs: number): Promise<void>;
  /**
   * How long its event loop was held since this was asked last; needs a process started with `watchesLoop`.
   */
  loop(): Promise<LoopReport>;
};

/** The built command line, which also serves roles. */
export const POSTRIDER = fileURLToPath(new URL("../../dist/cli/postrider.js", import.meta.url));

/** Another command line than the built one, and another Node than that of the tests. */
export type Installation = { program?: string; execPath?: string };

export async function startProcess(
  roles: readonly Role[],
  options: EngineOptions & { wrongByMs?: number; watchesLoop?: boolean } & Installation,
): Promise<EngineProcess> {
  const { execArgv, env } = preloads(options);
  const child = fork(options.program ?? POSTRIDER, ["serve", "--role", roles.join()], {
    execArgv,
    ...(options.execPath !== undefined && { execPath: options.execPath }),
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { PATH: process.env.PATH, LOG_LEVEL: "silent", ...env, ...settingsOf(options) },
  });
  const ended = once(child, "exit") as Promise<[number | null]>;
  const started = new Promise<[ChildReport]>((resolve) => {
    child.on("message", (told: ChildReport) => {
      if (told.kind === "ready" || told.kind === "failed") resolve([told]);
    });
  });
  const [report] = (await Promise.race([started, ended])) as [ChildReport | number | null];
  if (typeof report !== "object" || report?.kind !== "ready")
    throw new Error(`a process with the roles ${roles} did not start: ${JSON.stringify(report)}`);
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    const [status] = await ended;
    return status;
  };
  return {
    pid: child.pid as number,
    port: report.port,
    inboundPort: report.inboundPort,
    consolePort: report.consolePort,
    submissionTlsPort: report.submissionTlsPort,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    kill: () => end("SIGKILL"),
    stop: () => end("SIGTERM"),
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    async setClock(offsetMs) {
      if (options.wrongByMs === undefined) throw new Error("this process was started with a right clock");
      const answered = Promise.race([once(child, "message"), ended]);
      child.send({ kind: "set clock", offsetMs } satisfies SetClock);
      await answered;
    },
    async loop() {
      if (!options.watchesLoop) throw new Error("this process was started without a watch on its loop");
      const answered = Promise.race([once(child, "message"), ended]);
      child.send({ kind: "loop?" } satisfies AskLoop);
      const [answer] = (await answered) as [LoopAnswer | number | null];
      if (answer === null || typeof answer === "number")
        throw new Error(`the process ended with status ${answer}`);
      return answer.report;
    },
  };
}
