/** Time that the root hands down, and waiting with a bound. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** A timer is this late only when the process was held up. */
const HELD_UP_MS_MIN = 50;

/** The clock that the root reads and hands down; tests hand down one that they move. */
export type Clock = {
  now(): number;
  /** What Redis and Postgres are told: 0 lets them use their own time, the same for all processes. */
  given(): number;
};

/**
 * Calls `late` in so many ms, unless what this hands back is called before. What has arrived by then is read
 * first: a process that was held up finds an answer and the end of its time at once. Whoever answers may have
 * stood still with it, as on a machine that was frozen, and gets as long once more, within so many ms.
 */
export function whenLate(ms: number, late: () => void): () => void {
  // in whole ms, so that what is left of other times shares a timer, too
  const wholeMs = Math.ceil(ms);
  let calls = lateCallsOf.get(wholeMs);
  if (!calls) {
    calls = new LateCalls(wholeMs);
    lateCallsOf.set(wholeMs, calls);
  }
  return calls.add(late);
}

type LateCall = {
  dueAt: number;
  late(): void;
  isOver: boolean;
  before: LateCall | null;
  after: LateCall | null;
};

/** By their length, while somebody waits for one. */
const lateCallsOf = new Map<number, LateCalls>();

/**
 * Those of one length are due in the order in which they began, and share a timer: one for each would cost
 * twice as much.
 */
class LateCalls {
  readonly #ms: number;
  #first: LateCall | null = null;
  #last: LateCall | null = null;
  #timer: NodeJS.Timeout;

  constructor(ms: number) {
    this.#ms = ms;
    this.#timer = setTimeout(() => this.#ring(), ms);
  }

  add(late: () => void): () => void {
    const dueAt = performance.now() + this.#ms;
    const one: LateCall = { dueAt, late, isOver: false, before: this.#last, after: null };
    if (this.#last) this.#last.after = one;
    else this.#first = one;
    this.#last = one;
    return () => this.#end(one);
  }

  #end(one: LateCall): void {
    if (one.isOver) return;
    one.isOver = true;
    const { before, after } = one;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
    // whoever keeps what ends this one would keep all that came after it, too
    one.before = one.after = null;
    if (this.#first !== null) return;
    clearTimeout(this.#timer);
    lateCallsOf.delete(this.#ms);
  }

  #ring(): void {
    if (this.#first === null) return;
    const heldUpMs = performance.now() - this.#first.dueAt;
    if (heldUpMs < 0) this.#ringLater();
    else if (heldUpMs < HELD_UP_MS_MIN) this.#judgeSoon();
    else this.#timer = setTimeout(() => this.#judgeSoon(), Math.min(heldUpMs, this.#ms));
  }

  #ringLater(): void {
    if (this.#first === null) return;
    this.#timer = setTimeout(() => this.#ring(), this.#first.dueAt - performance.now());
  }

  /** Those that are due now, not those that will be when what has arrived was read. */
  #judgeSoon(): void {
    const now = performance.now();
    setImmediate(() => {
      const due: LateCall[] = [];
      for (let one = this.#first; one !== null && one.dueAt <= now; one = one.after) due.push(one);
      try {
        for (const one of due) {
          // one that was late may have ended others
          if (one.isOver) continue;
          this.#end(one);
          one.late();
        }
      } finally {
        this.#ringLater();
      }
    });
  }
}

/** What the work comes to. If it is late, what `late` gives or throws; the result is ignored. */
export async function inTime<T, L>(ms: number, work: PromiseLike<T>, late: () => L): Promise<T | L> {
  let cancel = () => {};
  const over = new Promise<void>((resolve) => {
    cancel = whenLate(ms, resolve);
  });
  try {
    return await Promise.race([work, over.then(late)]);
  } finally {
    cancel();
  }
}

/** Waits for work, but not longer than this. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  await inTime(ms, work, () => {}).catch(() => {});
}
