/** Waiting for processes that are not our children to end. */
import { existsSync, readFileSync } from "node:fs";

const LOOK_EVERY_MS = 50;

/** Resolves when none of the processes is there any more; with how long that took. */
export async function gone(pids: readonly number[], patienceMs: number): Promise<number> {
  const began = performance.now();
  for (;;) {
    const left = pids.filter((pid) => existsSync(`/proc/${pid}`) && !isZombie(pid));
    const ms = performance.now() - began;
    if (left.length === 0) return ms;
    if (ms > patienceMs) throw new Error(`after ${Math.round(ms)} ms there are still ${left}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

function isZombie(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}
