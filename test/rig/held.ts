/**
 * How long the event loop of this process was held, in CPU: a busy machine takes longer, but works no more.
 */
import { openSync, readSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { LoopReport } from "./preloads.ts";

/**
 * After some runs there is a pause, longer each time: others who share the cores may have them for a second,
 * and it looks as if we worked. Not after each: the first run after a pause is slow, too.
 */
const RUNS_AT_ONCE = 4;
const pauseBefore = (run: number): number =>
  run > 0 && run % RUNS_AT_ONCE === 0 ? Math.min(2_000, 100 * run) : 0;
const sleeping = new Int32Array(new SharedArrayBuffer(4));

type Cpu = { process: number; mainThread: number };

/**
 * Of the process to the microsecond, with the threads that collect garbage, which hold up no loop; of its
 * main thread to a tick of the system, where that tells.
 */
function cpu(): Cpu {
  const { user, system } = process.cpuUsage();
  return { process: (user + system) / 1_000, mainThread: mainThreadMs() };
}

const mainThreadMs = openMainThread() ?? (() => Number.POSITIVE_INFINITY);

function openMainThread(): (() => number) | null {
  try {
    const file = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
    const bytes = Buffer.alloc(64);
    return () =>
      Number.parseInt(bytes.toString("latin1", 0, readSync(file, bytes, 0, bytes.length, 0)), 10) / 1e6;
  } catch {
    return null;
  }
}

/** Of the main thread: neither figure is less. */
function workedMs(from: Cpu, to: Cpu): number {
  const ofMainThread = to.mainThread - from.mainThread;
  const ofProcess = to.process - from.process;
  return Number.isNaN(ofMainThread) ? ofProcess : Math.min(ofProcess, ofMainThread);
}

/**
 * Of work that is done at once; the least of a few runs, as the first ones also compile and collect garbage
 * of others.
 */
export function costOf(work: () => unknown, enoughMs: number, runs = 16): number {
  let least = Number.POSITIVE_INFINITY;
  for (let n = 0; n < runs && least > enoughMs; n++) {
    if (pauseBefore(n) > 0) Atomics.wait(sleeping, 0, 0, pauseBefore(n));
    const began = cpu();
    work();
    least = Math.min(least, workedMs(began, cpu()));
  }
  return least;
}

/** Of the piece that costs most. */
export function costOfLongest(work: () => Iterable<unknown>, enoughMs: number, runs = 16): number {
  let least = Number.POSITIVE_INFINITY;
  for (let n = 0; n < runs && least > enoughMs; n++) {
    if (pauseBefore(n) > 0) Atomics.wait(sleeping, 0, 0, pauseBefore(n));
    let [longest, began] = [0, cpu()];
    const noteUntilNow = () => {
      const now = cpu();
      longest = Math.max(longest, workedMs(began, now));
      began = now;
    };
    for (const _ of work()) noteUntilNow();
    noteUntilNow();
    least = Math.min(least, longest);
  }
  return least;
}

/** The most between two turns of the loop while the work goes on; the least of a few runs. */
export async function heldBy(work: () => unknown, enoughMs: number, runs = 16): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let n = 0; n < runs && least > enoughMs; n++) {
    if (pauseBefore(n) > 0) await delay(pauseBefore(n));
    least = Math.min(least, await longestTurn(work));
  }
  return least;
}

/**
 * The most that a process with a watch on its loop works in one turn while the work goes on; the least of a
 * few runs, as its own garbage of before is collected in any of them.
 */
export async function workedBy(
  { loop }: { loop(): Promise<LoopReport> },
  work: () => Promise<unknown>,
  enoughMs: number,
  runs = 16,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let n = 0; n < runs && least > enoughMs; n++) {
    if (pauseBefore(n) > 0) await delay(pauseBefore(n));
    await loop();
    await work();
    least = Math.min(least, (await loop()).workedMsMax);
  }
  return least;
}

async function longestTurn(work: () => unknown): Promise<number> {
  let longest = 0;
  let began = cpu();
  let isOver = false;
  const watch = (): void => {
    const now = cpu();
    longest = Math.max(longest, workedMs(began, now));
    began = now;
    if (!isOver) setImmediate(watch);
  };
  await new Promise((resolve) => setImmediate(resolve));
  setImmediate(watch);
  began = cpu();
  await work();
  await new Promise((resolve) => setImmediate(resolve));
  isOver = true;
  return longest;
}
