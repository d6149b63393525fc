/**
 * The connections of all destinations together. While there are none left, who has none waits in line, and
 * each that is freed is for the next of it: not for whoever had it, nor for whoever asks first.
 *
 * There are two lines, which take turns: one of those that have taken mail, one of strangers. So ever new
 * strangers are not in the way of mail to those that we know.
 */

export type Claimant = {
  /** Whether its mail waits for a connection and it has none. */
  readonly isStarved: boolean;
  readonly isProven: boolean;
  /** Takes one, if it still wants one. */
  wake(): void;
};

/** In one turn of the event loop: each opens a connection. */
const CALLED_AT_ONCE = 20;

export class Sockets<C extends Claimant> {
  readonly max: number;
  /** How many destinations have mail. */
  readonly users: () => number;
  #free: number;
  /** With how many each has. */
  readonly #holders = new Map<C, number>();
  readonly #known = new Set<C>();
  readonly #strangers = new Set<C>();
  #isTurnOfKnown = true;
  /** Whose turn it is now. */
  #called: C | null = null;
  #isCallingSoon = false;

  constructor(max: number, users: () => number) {
    this.max = max;
    this.#free = max;
    this.users = users;
  }

  /** Those that have some. */
  get holders(): Iterable<C> {
    return this.#holders.keys();
  }

  /** Those that nobody waits for. */
  get spare(): number {
    return Math.max(0, this.#free - this.#inLine);
  }

  /** Whether somebody waits for one. */
  get areShort(): boolean {
    return this.#inLine > this.#free;
  }

  /** How many more are needed for those in line, without those that have left. */
  get lacking(): number {
    if (this.#inLine === 0) return 0;
    for (const line of [this.#known, this.#strangers])
      for (const one of line) if (!one.isStarved) line.delete(one);
    return Math.max(0, this.#inLine - this.#free);
  }

  /** How many it may have now beside those it has; who is starved waits in line for one. */
  freeFor(one: C): number {
    if (this.#called === one) return 1;
    const isInLine = this.#known.has(one) || this.#strangers.has(one);
    if (isInLine) return 0;
    const { spare } = this;
    if (spare === 0 && one.isStarved) {
      (one.isProven ? this.#known : this.#strangers).add(one);
      if (this.#free > 0) this.#callSoon();
    }
    return spare;
  }

  take(one: C): void {
    this.#free--;
    this.#holders.set(one, (this.#holders.get(one) ?? 0) + 1);
    this.leave(one);
  }

  giveBack(one: C): void {
    this.#free++;
    const left = (this.#holders.get(one) ?? 1) - 1;
    if (left > 0) this.#holders.set(one, left);
    else this.#holders.delete(one);
    if (this.#inLine > 0) this.#callSoon();
  }

  leave(one: C): void {
    this.#known.delete(one);
    this.#strangers.delete(one);
    if (this.#called === one) this.#called = null;
  }

  get #inLine(): number {
    return this.#known.size + this.#strangers.size;
  }

  /** Later in this turn: whoever gave one back is not done with that yet. */
  #callSoon(): void {
    if (this.#isCallingSoon) return;
    this.#isCallingSoon = true;
    setImmediate(() => {
      this.#isCallingSoon = false;
      for (let left = Math.min(this.#free, this.#inLine, CALLED_AT_ONCE); left > 0; left--) this.#callNext();
      if (this.#free > 0 && this.#inLine > 0) this.#callSoon();
    });
  }

  #callNext(): void {
    const [mine, others] = this.#isTurnOfKnown
      ? [this.#known, this.#strangers]
      : [this.#strangers, this.#known];
    this.#isTurnOfKnown = !this.#isTurnOfKnown;
    const [next] = mine.size > 0 ? mine : others;
    if (!next) return;
    this.#called = next;
    next.wake();
    // who took none holds up nobody
    this.leave(next);
  }
}
