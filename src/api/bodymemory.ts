/**
 * Memory for large bodies, shared with the thread that parses them, and reused. A body of 38 MB in new
 * buffers cost the main thread 130 ms: the library reads a fast sender without a pause, and each buffer is
 * work for the garbage collector, which does not count shared memory. The first write to new memory costs ten
 * times a later one, so the thread does it.
 */
const SLAB_BYTES = 512 * 1024;
/** Free pieces, to be reused. */
const SLABS_KEPT_MAX = 256;
const SLABS_AT_START = 64;

const free: SharedArrayBuffer[] = [];

export function makeSlabs(): SharedArrayBuffer[] {
  return Array.from({ length: SLABS_AT_START }, () => {
    const slab = new SharedArrayBuffer(SLAB_BYTES);
    new Uint8Array(slab).fill(1);
    return slab;
  });
}

export function giveSlabs(slabs: readonly SharedArrayBuffer[]): void {
  free.push(...slabs.slice(0, SLABS_KEPT_MAX - free.length));
}

/** Bytes that arrive in chunks whose memory is only lent. */
export class BodyMemory {
  readonly pieces: Buffer[] = [];
  readonly #slabs: SharedArrayBuffer[] = [];
  #used = SLAB_BYTES;

  add(chunk: ArrayBuffer, isLarge: boolean): void {
    if (isLarge) this.#addToSlabs(new Uint8Array(chunk));
    else this.pieces.push(Buffer.from(new Uint8Array(chunk)));
  }

  /** Nobody reads it any more. */
  clear(): void {
    if (this.#slabs.length > 0) giveSlabs(this.#slabs);
    this.#slabs.length = 0;
    this.#used = SLAB_BYTES;
    this.pieces.length = 0;
  }

  #addToSlabs(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#used === SLAB_BYTES) this.#open();
      const slab = this.#slabs.at(-1) as SharedArrayBuffer;
      const part = bytes.subarray(at, at + SLAB_BYTES - this.#used);
      // `set` and `copy` write shared memory byte by byte, twenty times as slow
      Buffer.from(slab).fill(part, this.#used, this.#used + part.length);
      at += part.length;
      this.#used += part.length;
      this.pieces[this.pieces.length - 1] = Buffer.from(slab, 0, this.#used);
    }
  }

  #open(): void {
    this.#slabs.push(free.pop() ?? new SharedArrayBuffer(SLAB_BYTES));
    this.#used = 0;
    this.pieces.push(Buffer.alloc(0));
  }
}
