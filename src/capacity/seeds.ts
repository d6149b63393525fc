/**
 * Many simulated workspaces, each with the next seed, on as many threads as there are cores. What comes out is the
 * same on one thread: a run depends on its seed alone.
 */
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Policy } from "./policy.ts";
import { type Run, simulate } from "./simulate.ts";
import type { Scenario } from "./workload.ts";

export type SeedRange = { policy: Policy; scenario: Scenario; days: number; seed: number; runs: number };

/** To start a thread costs as much as some runs. */
const RUNS_PER_THREAD_MIN = 20;

export async function simulateSeeds(range: SeedRange, threads: number, onRun: () => void): Promise<Run[]> {
  const used = Math.min(mayThread ? threads : 1, Math.floor(range.runs / RUNS_PER_THREAD_MIN));
  if (used <= 1) return simulateHere(range, onRun);
  const parts = partsOf(range, used);
  const runs = await Promise.all(parts.map((part) => simulateThere(part, onRun)));
  return runs.flat();
}

/** Sources that are run as they are need a loader, which a thread does not get. */
const threadFile = fileURLToPath(new URL("./seedthread.js", import.meta.url));
const mayThread = import.meta.url.endsWith(".js");

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
): Run[] {
  return Array.from({ length: runs }, (_, n) => {
    const run = simulate(policy, scenario, days, seed + n);
    onRun(run);
    return run;
  });
}

function simulateThere(part: SeedRange, onRun: () => void): Promise<Run[]> {
  return new Promise((resolve, reject) => {
    const runs: Run[] = [];
    const worker = new Worker(threadFile, { workerData: part });
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
