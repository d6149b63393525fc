/**
 * Work is counted, never timed: the same template with the same values is accepted or refused on every
 * machine, however busy. One unit is about 5 ns on an idle core of 2020.
 */
import type { Context } from "liquidjs";

/** To compile one version of a template, in one turn of the event loop, and to write one e-mail, in a few. */
export const COMPILE_UNITS_MAX = 3_000_000;
export const EMAIL_UNITS_MAX = 3_000_000;
/** Of one request. */
export const REQUEST_UNITS_MAX = 30_000_000;

class TooMuchWork extends Error {}

export class Meter {
  readonly #most: number;
  readonly #refusal: string;
  #used = 0;

  constructor(units: number, refusal: string) {
    this.#most = units;
    this.#refusal = refusal;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * The library's own filters count here too, and may hand over what a template gave them: a text would be
   * added as one, and "1e-9" made the sum so small that it never grew again.
   */
  use(units: number): void {
    if (typeof units !== "number" || !(units > 0)) return;
    this.#used += units;
    if (this.#used <= this.#most) return;
    this.#used = this.#most + 1;
    throw new TooMuchWork(this.#refusal);
  }

  /** As the library takes it. */
  get limiter(): Context["memoryLimit"] {
    return this as unknown as Context["memoryLimit"];
  }
}
