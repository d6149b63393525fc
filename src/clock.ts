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
  let isOver = false;
  const dueAt = performance.now() + ms;
  const judge = () => {
    if (!isOver) late();
  };
  const judgeSoon = () => setImmediate(judge);
  const judgeOrWait = () => {
    const heldUpMs = performance.now() - dueAt;
    if (heldUpMs < HELD_UP_MS_MIN) return judgeSoon();
    timer = setTimeout(judgeSoon, Math.min(heldUpMs, ms));
  };
  let timer: NodeJS.Timeout = setTimeout(judgeOrWait, ms);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
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
