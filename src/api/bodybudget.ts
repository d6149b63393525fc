/**
 * The bytes of all bodies that a process holds at once, and who holds them. Nobody may hold more than is still free: one
 * owner gets half of all, a second half of the rest, and whoever comes then finds room, however much the others hold.
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

  /** What arrived before it was known whose it is; given free when its owner has no room for it. */
  move(from: string, to: string, bytes: number): boolean {
    this.give(from, bytes);
    return this.take(to, bytes);
  }
}
