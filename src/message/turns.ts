/**
 * Spreads the composing of many e-mails over turns of the event loop: the e-mails of a bag are begun
 * together, and a hundred of the largest that are composed at once would hold the loop for seconds.
 */
import { turn } from "../turn.ts";

export class Turns {
  readonly #charsPerTurn: number;
  #left: number;
  #turn: Promise<void> | null = null;

  constructor(charsPerTurn: number) {
    this.#charsPerTurn = charsPerTurn;
    this.#left = charsPerTurn;
  }

  /** The turn in which so much may be composed; null: now. */
  take(chars: number): Promise<void> | null {
    this.#left -= chars;
    if (this.#left < 0) {
      this.#left = this.#charsPerTurn - chars;
      const next = (this.#turn ?? Promise.resolve()).then(turn).then(() => {
        if (this.#turn === next) this.#turn = null;
      });
      this.#turn = next;
    }
    return this.#turn;
  }
}
