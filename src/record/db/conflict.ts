/**
 * Lost conflicts: the victim of a deadlock (40P01) or of a serialization failure (40001) is rolled back as a
 * whole, and is tried again. The caller gets an error only if every attempt loses.
 */
import { isRefusal } from "./lost.ts";

/** A deadlock is found after a second (`deadlock_timeout`): more would take longer than anyone waits. */
export const CONFLICT_RETRIES_MAX = 3;

/**
 * A pause for the winner: without it, the victim would often take the same lock again before the winner wakes
 * up.
 */
const PAUSE_MS_MIN = 50;
const PAUSE_MS_SPREAD = 50;

export function isConflict(error: unknown): boolean {
  return isRefusal(error) && (error.code === "40P01" || error.code === "40001");
}

/** Does `work` again when it lost a conflict. */
export async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await work();
    } catch (error) {
      if (retries === CONFLICT_RETRIES_MAX || !isConflict(error)) throw error;
      await pause();
    }
  }
}

export function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PAUSE_MS_MIN + Math.random() * PAUSE_MS_SPREAD));
}
