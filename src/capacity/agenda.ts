/**
 * What becomes known of simulated mail later, by the bin in which it does: lists in arrays, since there is a
 * lot of it.
 */
export type Later = "bounce" | "complaint" | "answer";

const KINDS: readonly Later[] = ["bounce", "complaint", "answer"];
const NONE = -1;

export class Agenda {
  readonly #first: Int32Array;
  readonly #next: number[] = [];
  readonly #kinds: number[] = [];
  readonly #sent: number[] = [];
  readonly #streams: number[] = [];
  readonly #arrived: number[] = [];
  readonly #counts: number[] = [];

  constructor(bins: number) {
    this.#first = new Int32Array(bins).fill(NONE);
  }

  /** What is later than the simulated time is never known. */
  add(bin: number, kind: Later, sent: number, stream: number, arrived: number, count: number): void {
    if (bin >= this.#first.length || count === 0) return;
    this.#kinds.push(KINDS.indexOf(kind));
    this.#sent.push(sent);
    this.#streams.push(stream);
    this.#arrived.push(arrived);
    this.#counts.push(count);
    this.#next.push(this.#first[bin] as number);
    this.#first[bin] = this.#next.length - 1;
  }

  has(bin: number): boolean {
    return this.#first[bin] !== NONE;
  }

  /** `sent` and `arrived` are bins: of the attempt, and of the mail's arrival. */
  each(
    bin: number,
    hears: (kind: Later, sent: number, stream: number, arrived: number, count: number) => void,
  ): void {
    for (let n = this.#first[bin] as number; n !== NONE; n = this.#next[n] as number)
      hears(
        KINDS[this.#kinds[n] as number] as Later,
        this.#sent[n] as number,
        this.#streams[n] as number,
        this.#arrived[n] as number,
        this.#counts[n] as number,
      );
  }
}
