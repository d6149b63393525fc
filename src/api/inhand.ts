/**
 * How much work callers may have in hand at once: as much as is done in half a second, by what was done
 * lately. Who comes with more is told at once to come again, rather than to wait behind the others for longer
 * than callers wait.
 *
 * By Little's law this finds the right measure by itself: while what is in hand takes less than half a
 * second, more is done than was counted on, and more is allowed next; while it takes longer, less.
 *
 * A caller may have as much in hand as is still free: the first gets half of all, and whoever comes next
 * finds room. A little is always taken, whatever was done before, so that a pause of a store has an end.
 */
import { MAIN_THREAD_BYTES_MAX } from "./json.ts";
import type { Route } from "./routes.ts";

/** For what a single caller has in hand. */
const WAIT_MS_MAX = 500;
/** Of all there is the first caller gets half. */
const CALLERS_SHARE = 2;
/** Bytes that are done in a millisecond; a guess, until it is known. */
const POSSIBLE_AT_FIRST = 10_000;
const COUNT_MS_MIN = 100;
/** What was done so long ago counts a third. */
const FORGET_MS = 1_000;
/** Of what is possible, when somebody was refused although there was not enough to do. */
const GROWTH = 1.25;

export class WorkInHand {
  /** So many requests are taken in any case; with half of them there is enough to do. */
  readonly #always: number;
  readonly #now: () => number;
  readonly #heldBy = new Map<string, number>();
  #held = 0;
  #requests = 0;
  #possible = POSSIBLE_AT_FIRST;
  /** Since the last count. */
  #countedAt: number;
  #done = 0;
  #requestsMin = 0;
  #hasRefused = false;

  constructor(always: number, now: () => number = () => performance.now()) {
    this.#always = always;
    this.#now = now;
    this.#countedAt = now();
  }

  /** Whether more of this caller would be taken now. */
  hasRoom(caller: string, work: number): boolean {
    this.#count();
    if (this.#requests < this.#always) return true;
    const free = this.#possible * WAIT_MS_MAX * CALLERS_SHARE - this.#held - work;
    if ((this.#heldBy.get(caller) ?? 0) + work <= free) return true;
    this.#hasRefused = true;
    return false;
  }

  /**
   * Hands back what is called when it is done, however it ended, and says whether this was the first time;
   * null: there is no room.
   */
  take(caller: string, work: number): (() => boolean) | null {
    if (!this.hasRoom(caller, work)) return null;
    this.#requests++;
    this.#held += work;
    this.#heldBy.set(caller, (this.#heldBy.get(caller) ?? 0) + work);
    let isDone = false;
    return () => {
      if (isDone) return false;
      isDone = true;
      this.#end(caller, work);
      return true;
    };
  }

  #end(caller: string, work: number): void {
    this.#requests--;
    this.#held -= work;
    const left = (this.#heldBy.get(caller) ?? 0) - work;
    if (left > 0) this.#heldBy.set(caller, left);
    else this.#heldBy.delete(caller);
    this.#done += work;
    this.#requestsMin = Math.min(this.#requestsMin, this.#requests);
    this.#count();
  }

  #count(): void {
    const now = this.#now();
    const passed = now - this.#countedAt;
    if (passed < COUNT_MS_MIN) return;
    const hadEnough = this.#requestsMin >= this.#always / 2;
    if (hadEnough)
      this.#possible += (this.#done / passed - this.#possible) * (1 - Math.exp(-passed / FORGET_MS));
    else if (this.#hasRefused) this.#possible *= GROWTH;
    this.#countedAt = now;
    this.#done = 0;
    this.#requestsMin = this.#requests;
    this.#hasRefused = false;
  }
}

/** What a request costs besides its bytes, as if it were so many more. */
const REQUEST_BYTES = 1_000;
const SMALL_ALWAYS = 32;
/** Large bodies are parsed by a thread of their own, and written over connections of their own. */
const LARGE_ALWAYS = 16;

/** Each route that commits is counted by itself, and its large bodies are, too. */
export class WorkOfRoutes {
  readonly #works = new Map<Route, { small: WorkInHand; large: WorkInHand }>();
  #requests = 0;

  /** Whether there is a point in asking for room. */
  get isMuch(): boolean {
    return this.#requests >= LARGE_ALWAYS;
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
      both = { small: new WorkInHand(SMALL_ALWAYS), large: new WorkInHand(LARGE_ALWAYS) };
      this.#works.set(route, both);
    }
    return bytes > MAIN_THREAD_BYTES_MAX ? both.large : both.small;
  }
}
