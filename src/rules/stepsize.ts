/**
 * How much a repeated step may take on at once, measured by the step itself. A step that failed because it
 * was too much for its timeout would fail again for ever at the same size: it takes a quarter next time, and
 * one that came too close half. Full steps that were quick double it again, up to the maximum.
 */

/** What Postgres says when a transaction was too much, rather than wrong. */
const TOO_MUCH = new Set([
  "57014", // statement timeout
  "55P03", // lock timeout
  "25P03", // idle in transaction for too long
  "25P04", // transaction timeout
  "53200", // out of memory
  "53400", // a configured limit, as of temporary files
]);

/** Whether less work at once could have succeeded. */
export function isTooMuch(error: unknown): boolean {
  return error instanceof Error && "code" in error && TOO_MUCH.has(String(error.code));
}

export type StepLimits = {
  max: number;
  /** 1 by default. */
  min?: number;
  /** A step that took longer is made smaller: half of the timeout, or less where others wait for the step. */
  slowMs: number;
  /**
   * A step of this size is not made smaller for being slow, only for failing: what takes the time of so small
   * a step is the step itself, as its commit is, and smaller ones would do less in the same time. A hundredth
   * of `max` by default.
   */
  enough?: number;
};

export class StepSize {
  readonly #limits: Required<StepLimits>;
  #most: number;

  constructor(limits: StepLimits) {
    const { max, min = 1, enough = max / 100 } = limits;
    this.#limits = { ...limits, min, enough };
    this.#most = limits.max;
  }

  /** How much the next step may take on. */
  get most(): number {
    return this.#most;
  }

  /** Runs a step at the present size. `done` counts how much of that there was to do; without it, all. */
  async take<T>(
    step: (most: number) => Promise<T>,
    done: (result: T) => number = () => this.#most,
  ): Promise<T> {
    const most = this.#most;
    const since = performance.now();
    try {
      const result = await step(most);
      this.succeeded(Math.min(most, done(result)), performance.now() - since);
      return result;
    } catch (error) {
      this.failed(error, most, performance.now() - since);
      throw error;
    }
  }

  /** For a step that counts what it did: whether it was full, so that there may be more to do. */
  async full(step: (most: number) => Promise<number>): Promise<boolean> {
    const [done, most] = await this.take(
      async (most) => [await step(most), most] as const,
      ([done]) => done,
    );
    return done >= most;
  }

  /** A step of `size` was done in `ms`. */
  succeeded(size: number, ms: number): void {
    const { slowMs, enough } = this.#limits;
    if (size === 0) return; // how long it takes to find nothing does not depend on how much it might have been
    if (ms > slowMs) this.#set(Math.max(this.#most / 2, Math.min(this.#most, enough)));
    // twice as much is expected to take twice as long; a step that was not full says nothing about more
    else if ((ms <= slowMs / 2 || this.#most < enough) && size >= this.#most) this.#set(this.#most * 2);
  }

  /** A step of `size` failed after `ms`. Only what less work may mend makes the next one smaller. */
  failed(error: unknown, size: number, ms: number): void {
    if (isTooMuch(error) || ms > this.#limits.slowMs) this.#set(size / 4);
  }

  #set(size: number): void {
    const { max, min } = this.#limits;
    this.#most = Math.max(min, Math.min(max, Math.floor(size)));
  }
}
