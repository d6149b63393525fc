/**
 * A limit on the bytes held at once. Requests are served in order, so that small ones do not overtake a large
 * one for ever. A request larger than the limit is served when nothing else is held.
 */
export class ByteBudget {
  readonly #bytes: number;
  #free: number;
  #waiting: { bytes: number; enter(isIn: boolean): void }[] = [];

  constructor(bytes: number) {
    this.#bytes = bytes;
    this.#free = bytes;
  }

  /**
   * Holds room while `work` runs, and frees it however that ends. False, without running it, when there is no
   * room in time.
   */
  async with(wanted: number, waitMs: number, work: () => Promise<void>): Promise<boolean> {
    const bytes = Math.min(wanted, this.#bytes);
    if (this.#waiting.length === 0 && bytes <= this.#free) this.#free -= bytes;
    else if (!(await this.#wait(bytes, waitMs))) return false;
    try {
      await work();
    } finally {
      this.#free += bytes;
      this.#admit();
    }
    return true;
  }

  #wait(bytes: number, waitMs: number): Promise<boolean> {
    return new Promise((enter) => {
      const waiting = { bytes, enter };
      this.#waiting.push(waiting);
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((one) => one !== waiting);
        enter(false);
        this.#admit(); // the next in line may be small enough
      }, waitMs);
      waiting.enter = (isIn) => {
        clearTimeout(timer);
        enter(isIn);
      };
    });
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next && next.bytes <= this.#free; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#free -= next.bytes;
      next.enter(true);
    }
  }
}
