/**
 * The bytes of a message that arrives in pieces, copied into blocks: a hostile client sends a byte at a time,
 * and a buffer for each would take a hundred times the memory. Blocks are small enough to be copied and
 * handed to a thread in no time.
 */
const BLOCK_BYTES = 1024 * 1024;

export class MessageBytes {
  readonly #full: Buffer[] = [];
  #block: Buffer = Buffer.alloc(0);
  #used = 0;
  length = 0;

  add(piece: Buffer): void {
    this.length += piece.length;
    for (let from = 0; from < piece.length; ) {
      if (this.#used === BLOCK_BYTES) this.#next();
      const wanted = Math.min(this.#used + piece.length - from, BLOCK_BYTES);
      if (wanted > this.#block.length)
        this.#grow(Math.min(Math.max(wanted, 2 * this.#block.length), BLOCK_BYTES));
      from += piece.copy(this.#block, this.#used, from, from + wanted - this.#used);
      this.#used = wanted;
    }
  }

  /** Each with memory of its own, once the message is larger than a few KB. */
  blocks(): Buffer[] {
    return [...this.#full, this.#block.subarray(0, this.#used)];
  }

  whole(): Buffer {
    const blocks = this.blocks();
    return blocks.length === 1 ? (blocks[0] as Buffer) : Buffer.concat(blocks);
  }

  #next(): void {
    this.#full.push(this.#block);
    this.#block = Buffer.allocUnsafe(BLOCK_BYTES);
    this.#used = 0;
  }

  #grow(bytes: number): void {
    const larger = Buffer.allocUnsafe(bytes);
    this.#block.copy(larger, 0, 0, this.#used);
    this.#block = larger;
  }
}
