/** Time that the root hands down, and waiting with a bound. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** The clock that the root reads and hands down; tests hand down one that they move. */
export type Clock = {
  now(): number;
  /** What Redis and Postgres are told: 0 lets them use their own time, the same for all processes. */
  given(): number;
};

/**
 * Calls `late` in so many ms, unless what this hands back is called before. What has arrived by then is read
 * first: a process that was held up finds an answer and the end of its time at once.
 */
export function whenLate(ms: number, late: () => void): () => void {
  let isOver = false;
  const judge = () => {
    if (!isOver) late();
  };
  const timer = setTimeout(() => setImmediate(judge), ms);
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
