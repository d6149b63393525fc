/**
 * Bytes that may be in hand at once. Whoever asks first enters first, so that the large are not passed for ever by the
 * small; what is larger than all of the room enters when it is empty.
 */
export class Room {
  readonly #bytes: number;
  #free: number;
  readonly #waiting: { bytes: number; enter(): void }[] = [];

  constructor(bytes: number) {
    this.#bytes = bytes;
    this.#free = bytes;
  }

  /** Inside of it while the work goes on, however that ends. */
  async with<T>(wanted: number, work: () => Promise<T>): Promise<T> {
    const bytes = Math.min(wanted, this.#bytes);
    if (this.#waiting.length === 0 && bytes <= this.#free) this.#free -= bytes;
    else await new Promise<void>((enter) => this.#waiting.push({ bytes, enter }));
    try {
      return await work();
    } finally {
      this.#free += bytes;
      this.#admit();
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next && next.bytes <= this.#free; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#free -= next.bytes;
      next.enter();
    }
  }
}
