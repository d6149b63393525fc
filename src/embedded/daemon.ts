/**
 * A server program that we run: started, heard until it says that it is ready, and ended with a deadline. Its
 * last lines are kept, because they say why it did not start.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { withoutOthers } from "./folder.ts";
import { PortTakenError } from "./port.ts";

const START_MS_MAX = 30_000;
const STOP_MS_MAX = 8_000;
const LINES_KEPT = 50;

export type DaemonOptions = {
  name: string;
  program: string;
  args: readonly string[];
  /** Root starts it as somebody else. */
  owner?: { uid: number; gid: number } | null;
  /** Where it works; root may start it below folders that it cannot enter itself. */
  cwd?: string;
  env: Record<string, string>;
  isReady(line: string): boolean;
  onLine?(line: string): void;
  /** The signal that ends it in order, and the one that ends it at once without harm to its data. */
  gently: NodeJS.Signals;
  atOnce: NodeJS.Signals;
  /** Ends it at once, also while it starts. */
  signal?: AbortSignal | undefined;
};

export type Daemon = {
  pid: number;
  /** Resolves when it has ended, whoever ended it. */
  ended: Promise<void>;
  stop(): Promise<void>;
};

export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { name, program, args, owner, cwd = "/", env, signal } = options;
  const child = withoutOthers(() =>
    spawn(program, args, { ...(owner ?? {}), cwd, env, stdio: ["ignore", "pipe", "pipe"] }),
  );
  const lines: string[] = [];
  const ended = new Promise<void>((done) => {
    child.once("exit", () => done());
    child.once("error", (error) => {
      lines.push(error.message);
      if (child.pid === undefined) done();
    });
  });
  const endAtOnce = () => child.kill(options.atOnce);
  signal?.addEventListener("abort", endAtOnce);
  ended.then(() => signal?.removeEventListener("abort", endAtOnce));
  if (signal?.aborted) endAtOnce();

  const ready = new Promise<void>((done) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream).on("line", (line) => {
        lines.push(line);
        if (lines.length > LINES_KEPT) lines.shift();
        options.onLine?.(line);
        if (options.isReady(line)) done();
      });
  });
  const outcome = await Promise.race([
    ready.then(() => "ready" as const),
    ended.then(() => "ended" as const),
    after(START_MS_MAX),
  ]);
  if (outcome !== "ready") {
    child.kill("SIGKILL");
    await ended;
    const said = lines.join("\n");
    if (/address already in use/i.test(said)) throw new PortTakenError(`The port of ${name} is in use`);
    throw new Error(`${name} did not start${outcome === "late" ? " in time" : ""}:\n${said}`);
  }
  return {
    pid: child.pid as number,
    ended,
    async stop() {
      child.kill(options.gently);
      const timer = setTimeout(endAtOnce, STOP_MS_MAX);
      await ended;
      clearTimeout(timer);
    },
  };
}

function after(ms: number): Promise<"late"> {
  return new Promise((done) => setTimeout(() => done("late"), ms).unref());
}
