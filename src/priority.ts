/** Who goes first when the machine is busy: some work may wait, and mail is sent now. */
import { readlinkSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

/** A tenth of the time that another has who wants it, too. */
export const YIELDING = 10;
/** A third of it. */
export const HELPING = 5;

/** Of the thread that calls it alone. Only Linux has a priority for each; elsewhere all stay equal. */
export function lowerThread(priority: number): void {
  try {
    const thread = Number(readlinkSync("/proc/thread-self").split("/").at(-1));
    // whoever started the process may have put it further behind
    setPriority(thread, Math.max(priority, getPriority(thread)));
  } catch {
    // it works all the same, only not behind others
  }
}
