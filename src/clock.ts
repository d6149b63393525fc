/** Time that the root hands down, and waiting with a bound. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** The clock that the root reads and hands down; tests hand down one that they move. */
export type Clock = {
  now(): number;
  /** What Redis and Postgres are told: 0 lets them use their own time, the same for all processes. */
  given(): number;
};

/** Waits for work, but not longer than this: a late result is ignored. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work.catch(() => {}), deadline]);
  clearTimeout(timer);
}
