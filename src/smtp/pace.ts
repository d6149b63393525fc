/** A rate limit with even spacing; a short burst may run ahead of it. */
const BURST_MS = 100;

export class Pace {
  readonly #everyMs: number;
  /** When the next one would be due if all came evenly spaced. */
  #dueAt = Number.NEGATIVE_INFINITY;

  /** Zero: no limit. */
  constructor(perSecond: number) {
    this.#everyMs = perSecond > 0 ? 1000 / perSecond : 0;
  }

  /** How long until one may go; zero: now. */
  waitMs(now: number): number {
    return this.#everyMs === 0 ? 0 : Math.max(0, this.#dueAt - BURST_MS - now);
  }

  spend(now: number): void {
    if (this.#everyMs > 0) this.#dueAt = Math.max(this.#dueAt, now) + this.#everyMs;
  }
}
