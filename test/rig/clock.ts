/**
 * A clock that stands still until the test moves it, for everything that is handed `now`, with timers that
 * fire when it is moved past them. Redis scripts are told its time too.
 */
import type { Clock } from "../../src/clock.ts";

type Timer = { dueAt: number; run: () => void };

/** A Wednesday noon, far from every boundary of a minute, an hour, a day or a month. */
const NOON = Date.UTC(2026, 10, 18, 12, 2, 3);

export class MovableClock implements Clock {
  #now: number;
  readonly #timers = new Set<Timer>();

  constructor(start: number | string = NOON) {
    this.#now = instantOf(start);
  }

  /** A property, so that it can be handed down as a plain function. */
  readonly now = (): number => this.#now;
  readonly given = (): number => this.#now;

  advance(ms: number): void {
    this.set(this.#now + ms);
  }

  /**
   * Forward fires what comes due on the way, each at its own time; backward only changes the time, as a bad
   * clock does.
   */
  set(instant: number | string): void {
    const end = instantOf(instant);
    for (let timer = this.#nextDueBy(end); timer; timer = this.#nextDueBy(end)) {
      this.#timers.delete(timer);
      this.#now = Math.max(this.#now, timer.dueAt);
      timer.run();
    }
    this.#now = end;
  }

  /** Runs once, `ms` from now; the answer calls it off. */
  after(ms: number, run: () => void): () => void {
    const timer = { dueAt: this.#now + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  #nextDueBy(end: number): Timer | null {
    let next: Timer | null = null;
    for (const timer of this.#timers)
      if (timer.dueAt <= end && (!next || timer.dueAt < next.dueAt)) next = timer;
    return next;
  }
}

function instantOf(instant: number | string): number {
  const ms = typeof instant === "number" ? instant : Date.parse(instant);
  if (!Number.isFinite(ms)) throw new Error(`not an instant: ${instant}`);
  return ms;
}
