/**
 * Large bodies take turns. The library reads a fast sender for as long as it finds its buffer full, and then the next
 * one, in one turn of the event loop. When enough was read in a turn, all others wait for the next one.
 */
import type { HttpResponse } from "uWebSockets.js";

const TURN_BYTES_MAX = 4 * 1024 * 1024;

type Reader = Pick<HttpResponse, "pause" | "resume">;

export class LargeBodies {
  /** In the order of their turns: whoever was read last is behind the others. */
  readonly #arriving = new Set<Reader>();
  readonly #waiting = new Set<Reader>();
  #bytes = 0;

  /** Some bytes of a body, of which there are more to come. */
  read(reader: Reader, bytes: number): void {
    if (this.#bytes === 0) setImmediate(() => this.#nextTurn());
    this.#bytes += bytes;
    this.#arriving.add(reader);
    if (this.#bytes < TURN_BYTES_MAX) return;
    for (const one of this.#arriving) this.#pause(one);
  }

  /** Nothing more is kept of it. */
  over(reader: Reader): void {
    this.#arriving.delete(reader);
    if (this.#waiting.delete(reader)) reader.resume();
  }

  /** Its connection is gone, and must not be touched. */
  gone(reader: Reader): void {
    this.#arriving.delete(reader);
    this.#waiting.delete(reader);
  }

  #pause(reader: Reader): void {
    if (this.#waiting.has(reader)) return;
    this.#waiting.add(reader);
    reader.pause();
  }

  #nextTurn(): void {
    this.#bytes = 0;
    for (const reader of this.#waiting) reader.resume();
    this.#waiting.clear();
  }
}

/** Of this process: it has one event loop. */
export const largeBodies = new LargeBodies();
