/**
 * A limit on the bytes of all request bodies in a process. An owner may hold at most as much as is still
 * free: the first gets half of all, the second half of the rest. So there is always room for the next owner.
 */
export class BodyBudget {
  readonly #bytesMax: number;
  readonly #heldBy = new Map<string, number>();
  #held = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  take(owner: string, bytes: number): boolean {
    const held = (this.#heldBy.get(owner) ?? 0) + bytes;
    if (held > this.#bytesMax - this.#held - bytes) return false;
    this.#heldBy.set(owner, held);
    this.#held += bytes;
    return true;
  }

  give(owner: string, bytes: number): void {
    const left = (this.#heldBy.get(owner) ?? 0) - bytes;
    if (left > 0) this.#heldBy.set(owner, left);
    else this.#heldBy.delete(owner);
    this.#held -= bytes;
  }

  /** Bytes that arrived before their owner was known; freed when the owner has no room for them. */
  move(from: string, to: string, bytes: number): boolean {
    this.give(from, bytes);
    return this.take(to, bytes);
  }
}
