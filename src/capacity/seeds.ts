/**
 * Many simulated workspaces, each with the next seed, on as many threads as there are cores. What comes out
 * is the same on one thread: a run depends on its seed alone.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Policy } from "./policy.ts";
import { type Run, simulate } from "./simulate.ts";
import type { Scenario } from "./workload.ts";

export type SeedRange = { policy: Policy; scenario: Scenario; days: number; seed: number; runs: number };

/** To start a thread costs as much as some runs. */
const RUNS_PER_THREAD_MIN = 20;

/** `onDays`: so many more are simulated. */
export async function simulateSeeds(
  range: SeedRange,
  threads: number,
  onDays: (days: number) => void,
): Promise<Run[]> {
  const used = Math.min(threads, Math.floor(range.runs / RUNS_PER_THREAD_MIN));
  const file = used > 1 ? compiledThread() : null;
  if (file === null)
    return simulateHere(
      range,
      () => {},
      () => onDays(1),
    );
  const parts = partsOf(range, used);
  const runs = await Promise.all(parts.map((part) => simulateThere(file, part, () => onDays(part.days))));
  return runs.flat();
}

/**
 * The compiled file, even when this one runs from the sources: a thread has no TypeScript loader. null: it is
 * not there, or the sources have changed since.
 */
function compiledThread(): string | null {
  const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const file = at("../../dist/capacity/seedthread.js");
  if (import.meta.url.endsWith(".js")) return file;
  // the compiler writes again what has changed, and nothing else
  const compiledAt = changedAt([at("../../dist/capacity"), at("../../dist/rules")]);
  return changedAt([at("."), at("../rules")]) < compiledAt ? file : null;
}

/** When the newest file below these folders was changed, in ms; 0: there is none. */
function changedAt(folders: readonly string[]): number {
  return Math.max(0, ...folders.filter((folder) => existsSync(folder)).flatMap(changesIn));
}

function changesIn(folder: string): number[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files.map((file) => statSync(join(folder, file)).mtimeMs);
}

function partsOf(range: SeedRange, parts: number): SeedRange[] {
  const each = Math.ceil(range.runs / parts);
  return Array.from({ length: parts }, (_, n) => ({
    ...range,
    seed: range.seed + n * each,
    runs: Math.max(0, Math.min(each, range.runs - n * each)),
  }));
}

export function simulateHere(
  { policy, scenario, days, seed, runs }: SeedRange,
  onRun: (run: Run) => void,
  onDay: () => void = () => {},
): Run[] {
  return Array.from({ length: runs }, (_, n) => {
    const run = simulate(policy, scenario, days, seed + n, null, onDay);
    onRun(run);
    return run;
  });
}

function simulateThere(file: string, part: SeedRange, onRun: () => void): Promise<Run[]> {
  return new Promise((resolve, reject) => {
    const runs: Run[] = [];
    const worker = new Worker(file, { workerData: part, execArgv: [] });
    worker.on("message", (run: Run) => {
      runs.push(run);
      onRun();
    });
    worker.on("error", reject);
    worker.on("exit", (code) => {
      if (runs.length === part.runs) resolve(runs);
      else reject(new Error(`A thread of the simulator ended with ${code}.`));
    });
  });
}
