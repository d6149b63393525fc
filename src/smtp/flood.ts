/**
 * How often something may happen in a span of time, by name. What is remembered is bounded: the oldest names
 * are forgotten.
 */

const NAMES_MAX = 100_000;

export class Flood {
  readonly #most: number;
  readonly #spanMs: number;
  readonly #now: () => number;
  readonly #seen = new Map<string, { since: number; count: number }>();

  constructor(most: number, spanMs: number, now: () => number) {
    this.#most = most;
    this.#spanMs = spanMs;
    this.#now = now;
  }

  /** Whether it may happen now. Counts nothing. */
  hasRoom(name: string): boolean {
    const known = this.#seen.get(name);
    return !known || this.#now() - known.since >= this.#spanMs || known.count < this.#most;
  }

  /** Counts it, and says whether it may happen. */
  takes(name: string): boolean {
    const now = this.#now();
    const known = this.#seen.get(name);
    if (known && now - known.since < this.#spanMs) return ++known.count <= this.#most;
    this.#seen.delete(name);
    if (this.#seen.size >= NAMES_MAX) this.#seen.delete(this.#seen.keys().next().value as string);
    this.#seen.set(name, { since: now, count: 1 });
    return true;
  }
}
