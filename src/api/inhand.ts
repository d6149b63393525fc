/**
 * How much work callers may have in hand at once: as much as is done in half a second, of large bodies in two
 * seconds, by what was done lately. Who comes with more is told at once to come again, rather than to wait
 * behind the others for longer than callers wait.
 *
 * By Little's law this finds the right measure by itself: while what is in hand takes less than that, more is
 * done than was counted on, and more is allowed next; while it takes longer, less. Requests
 * that are few or quick say nothing of what is possible: they never lower it.
 *
 * A caller may have as much in hand as is still free: the first gets half of all, and whoever comes next
 * finds room. A little is always taken, whatever was done before, so that a pause of a store has an end. It
 * is shared in the same way: large bodies of one caller may be more than all that is possible.
 */
import { MAIN_THREAD_BYTES_MAX } from "./json.ts";
import type { Route } from "./routes.ts";

/** Of all there is the first caller gets half. */
const CALLERS_SHARE = 2;
const COUNT_MS_MIN = 100;
/** What was done so long ago counts a third. */
const FORGET_MS = 1_000;
/** Of what is possible, when somebody was refused although there was not enough to do. */
const GROWTH = 1.25;

export type WorkLimits = {
  /** So many of a single caller are taken in any case; fewer than half of them are not enough to do. */
  always: number;
  /** For what a single caller has in hand. */
  waitMsMax: number;
  /** Bytes that are done in a millisecond; a guess, until it is known. */
  possibleAtFirst: number;
};

type Held = { requests: number; work: number };
const NOTHING: Held = { requests: 0, work: 0 };

export class WorkInHand {
  readonly #limits: WorkLimits;
  readonly #now: () => number;
  readonly #heldBy = new Map<string, Held>();
  readonly #held: Held = { ...NOTHING };
  /** Bytes that are done in a millisecond. */
  #possible: number;
  /** Bytes in a millisecond, whether there was enough to do or not. */
  #rate = 0;
  /** Since the last count. */
  #countedAt: number;
  #done = 0;
  #least: Held = { ...NOTHING };
  #hasRefused = false;

  constructor(limits: WorkLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#possible = limits.possibleAtFirst;
    this.#now = now;
    this.#countedAt = now();
  }

  /** Whether more of this caller would be taken now. */
  hasRoom(caller: string, work: number): boolean {
    this.#count();
    const { always, waitMsMax } = this.#limits;
    const all = this.#held;
    const { requests, work: held } = this.#heldBy.get(caller) ?? NOTHING;
    if (requests + 1 <= always * CALLERS_SHARE - all.requests - 1) return true;
    if (held + work <= this.#possible * waitMsMax * CALLERS_SHARE - all.work - work) return true;
    this.#hasRefused = true;
    return false;
  }

  /**
   * Hands back what is called when it is done, however it ended, and says whether this was the first time;
   * null: there is no room.
   */
  take(caller: string, work: number): (() => boolean) | null {
    if (!this.hasRoom(caller, work)) return null;
    const held = this.#heldBy.get(caller) ?? { ...NOTHING };
    this.#heldBy.set(caller, held);
    for (const one of [held, this.#held]) {
      one.requests++;
      one.work += work;
    }
    let isDone = false;
    return () => {
      if (isDone) return false;
      isDone = true;
      this.#end(caller, held, work);
      return true;
    };
  }

  #end(caller: string, held: Held, work: number): void {
    for (const one of [held, this.#held]) {
      one.requests--;
      one.work -= work;
    }
    if (held.requests === 0) this.#heldBy.delete(caller);
    this.#done += work;
    this.#least = least(this.#least, this.#held);
    this.#count();
  }

  #count(): void {
    const now = this.#now();
    const passed = now - this.#countedAt;
    if (passed < COUNT_MS_MIN) return;
    const weight = 1 - Math.exp(-passed / FORGET_MS);
    const done = this.#done / passed;
    this.#rate += (done - this.#rate) * weight;
    if (this.#least.requests < this.#limits.always / 2) {
      if (this.#hasRefused) this.#possible *= GROWTH;
    } else if (this.#isSlow()) this.#possible += (done - this.#possible) * weight;
    // also when all of them are done at once, as in one commit, and nothing is left to do
    this.#possible = Math.max(this.#possible, this.#rate);
    this.#countedAt = now;
    this.#done = 0;
    this.#least = { ...this.#held };
    this.#hasRefused = false;
  }

  /** Whether what was in hand all the time takes at least half as long as it may. */
  #isSlow(): boolean {
    return this.#least.work >= (this.#rate * this.#limits.waitMsMax) / 2;
  }
}

function least(a: Held, b: Held): Held {
  return { requests: Math.min(a.requests, b.requests), work: Math.min(a.work, b.work) };
}

/** What a request costs besides its bytes, as if it were so many more. */
const REQUEST_BYTES = 1_000;
export const SMALL: WorkLimits = { always: 32, waitMsMax: 500, possibleAtFirst: 10_000 };
/**
 * Large bodies are parsed by a thread of their own, and written over connections of their own. Who sends them
 * waits longer in any case.
 */
export const LARGE: WorkLimits = { always: 16, waitMsMax: 2_000, possibleAtFirst: 30_000 };

/** Each route that commits is counted by itself, and its large bodies are, too. */
export class WorkOfRoutes {
  readonly #works = new Map<Route, { small: WorkInHand; large: WorkInHand }>();
  #requests = 0;

  /** Whether there is a point in asking for room. */
  get isMuch(): boolean {
    return this.#requests >= LARGE.always;
  }

  hasRoom(route: Route, caller: string, bytes: number): boolean {
    return !route.commits || this.#of(route, bytes).hasRoom(caller, REQUEST_BYTES + bytes);
  }

  /** Hands back what is called once when it is done, however it ended; null: there is no room. */
  take(route: Route, caller: string, bytes: number): (() => void) | null {
    if (!route.commits) return () => {};
    const end = this.#of(route, bytes).take(caller, REQUEST_BYTES + bytes);
    if (end === null) return null;
    this.#requests++;
    return () => {
      if (end()) this.#requests--;
    };
  }

  #of(route: Route, bytes: number): WorkInHand {
    let both = this.#works.get(route);
    if (!both) {
      both = { small: new WorkInHand(SMALL), large: new WorkInHand(LARGE) };
      this.#works.set(route, both);
    }
    return bytes > MAIN_THREAD_BYTES_MAX ? both.large : both.small;
  }
}
