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
 * What the work comes to. If it takes longer than this, what `late` gives or throws; the result is ignored.
 * What has arrived by then is read first: a process that was held up finds an answer and the end of its time
 * at once.
 */
export async function inTime<T, L>(ms: number, work: PromiseLike<T>, late: () => L): Promise<T | L> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(() => setImmediate(resolve), ms);
  });
  try {
    return await Promise.race([work, over.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for work, but not longer than this. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  await inTime(ms, work, () => {}).catch(() => {});
}
