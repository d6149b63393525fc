/** Who goes first when the machine is busy: some work may wait, and mail is sent now. */
import { readFileSync, readlinkSync } from "node:fs";
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

/** How much of the time in which this process had something to do it waited for a core that others had. */
export class Crowding {
  readonly #times: () => number[];
  #ran = 0;
  #waited = 0;

  constructor(times = timesOfMainThread) {
    this.#times = times;
  }

  /** Since it was last asked: 0 to 1. Always 0 where the system does not count it; Linux does. */
  share(): number {
    const [ran = 0, waited = 0] = this.#times();
    const [ranSince, waitedSince] = [ran - this.#ran, waited - this.#waited];
    this.#ran = ran;
    this.#waited = waited;
    return waitedSince > 0 ? waitedSince / (waitedSince + ranSince) : 0;
  }
}

/** In nanoseconds: how long it ran, and how long it was ready and did not. */
function timesOfMainThread(): number[] {
  try {
    return readFileSync("/proc/self/schedstat", "utf8").split(" ").map(Number);
  } catch {
    return [];
  }
}
