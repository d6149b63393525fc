/**
 * Passwords, checked a few at a time: each takes 32 MB and a third of a second of a core. More than a few
 * waiting are refused, so that strangers who try passwords keep nobody from anything else.
 */
import { checkPassword, hashPassword, unknownHash } from "../admission/password.ts";
import { Unavailable } from "../admission/unavailable.ts";
import { AtOnce } from "../atonce.ts";

/** A hash that no password has: an unknown account takes as long as a known one. */
const NOBODYS = unknownHash();
const AT_ONCE_MAX = 2;
const WAITING_MAX = 50;

export class Hashing {
  readonly #turns = new AtOnce(AT_ONCE_MAX);

  hash(password: string): Promise<string> {
    return this.#inTurn(() => hashPassword(password));
  }

  /** `stored` null: there is no such account. */
  async isRight(password: string, stored: string | null): Promise<boolean> {
    const isRight = await this.#inTurn(() => checkPassword(password, stored ?? NOBODYS));
    return isRight && stored !== null;
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#turns.waiting >= WAITING_MAX)
      throw new Unavailable("capacity", "too many passwords are being checked");
    return this.#turns.run(work);
  }
}
