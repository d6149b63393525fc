/**
 * Processes that are not our children: whether a number still names the process it once named, and how one is
 * ended. Numbers are given again, so that a process is known by its number and the time it was started.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { codeOf } from "../caught.ts";

const END_MS_MAX = 8_000;
const KILL_MS_MAX = 5_000;
const POLL_MS = 25;

export type Identity = { pid: number; born: string };

/** null: there is none, or it has ended and nobody took notice yet. */
export function identify(pid: number): Identity | null {
  const born = process.platform === "linux" ? bornByProc(pid) : bornByPs(pid);
  return born === null ? null : { pid, born };
}

export function stillRuns({ pid, born }: Identity): boolean {
  return identify(pid)?.born === born;
}

export function hasArgument(pid: number, argument: string): boolean {
  return process.platform === "linux"
    ? (read(`/proc/${pid}/cmdline`) ?? "").split("\0").includes(argument)
    : (ps(pid, "command=") ?? "").includes(argument);
}

/** Without /proc nobody can tell. */
export function worksIn(pid: number, folder: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === folder;
  } catch {
    return false;
  }
}

/**
 * Ends a process and waits until it has gone. One that ignores the signal is killed; throws when even that
 * fails.
 */
export async function endProcess(process: Identity, signal: NodeJS.Signals): Promise<void> {
  send(process.pid, signal);
  if (await goesWithin(END_MS_MAX, process)) return;
  send(process.pid, "SIGKILL");
  if (await goesWithin(KILL_MS_MAX, process)) return;
  throw new Error(
    `Process ${process.pid} of the last run does not end, although it was killed. End it, then start again.`,
  );
}

async function goesWithin(ms: number, process: Identity): Promise<boolean> {
  const deadline = performance.now() + ms;
  while (stillRuns(process)) {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return true;
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // it has gone meanwhile
    if (codeOf(error) !== "ESRCH") throw error;
  }
}

/** Ticks since the machine was started: field 22, counted from behind the name, which may hold anything. */
function bornByProc(pid: number): string | null {
  const stat = read(`/proc/${pid}/stat`);
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ") ?? [];
  return fields[0] === "Z" ? null : (fields[19] ?? null);
}

function bornByPs(pid: number): string | null {
  const [state, ...born] = ps(pid, "state=,lstart=")?.trim().split(/\s+/) ?? [];
  return state === undefined || state.startsWith("Z") ? null : born.join(" ");
}

function ps(pid: number, columns: string): string | null {
  try {
    return execFileSync("ps", ["-o", columns, "-p", String(pid)], { encoding: "utf8", stdio: "pipe" });
  } catch {
    return null; // ps ends with 1 when there is no such process
  }
}

function read(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null; // the process has gone
  }
}
