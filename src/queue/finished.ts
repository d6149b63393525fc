/**
 * Removes bags whose jobs have ended from the queue, in groups: while one script call runs, the next group
 * gathers.
 */
import type { BagQueue, BagRef } from "./bagqueue.ts";

export class FinishedBags {
  readonly #line: BagQueue;
  readonly #onFault: (error: unknown) => void;
  #left: BagRef[] = [];
  #running: Promise<void> | null = null;

  constructor(line: BagQueue, onFault: (error: unknown) => void) {
    this.#line = line;
    this.#onFault = onFault;
  }

  note(bag: BagRef): void {
    this.#left.push(bag);
    this.#running ??= this.#run();
  }

  async flush(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#left.length > 0) {
      const shard = this.#left[0]?.shard ?? 0;
      const group = this.#left.filter((bag) => bag.shard === shard);
      this.#left = this.#left.filter((bag) => bag.shard !== shard);
      try {
        await this.#line.stepOut(
          shard,
          group.map((bag) => bag.workspaceId),
        );
      } catch (error) {
        // the keeper recounts
        this.#onFault(error);
      }
    }
    this.#running = null;
  }
}
