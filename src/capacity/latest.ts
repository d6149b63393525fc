/** Where the latest mail of a simulated workspace goes: the shares that its sources have in it, as production sees them. */
import { LATEST_MAX } from "../record/workspaces/bouncesources.ts";
import type { DayCounts, SourceCounts } from "../record/workspaces/caps.ts";

type MutableSource = { -readonly [K in keyof SourceCounts]: SourceCounts[K] };

export class LatestMail {
  readonly #mail: { source: string | null; count: number }[] = [];
  #total = 0;

  note(source: string | null, count: number): void {
    this.#mail.push({ source, count: Math.min(count, LATEST_MAX) });
    this.#total += Math.min(count, LATEST_MAX);
    while (this.#total > LATEST_MAX) {
      const oldest = this.#mail[0] as { count: number };
      const excess = Math.min(oldest.count, this.#total - LATEST_MAX);
      oldest.count -= excess;
      this.#total -= excess;
      if (oldest.count === 0) this.#mail.shift();
    }
  }

  /** Writes into the counts of each day what was attempted of each source that bounced. */
  shareOut(days: readonly (DayCounts & { sources: MutableSource[] })[]): void {
    const names = new Set(
      days.flatMap(({ sources }) => sources.filter(({ bounced }) => bounced > 0).map(({ name }) => name)),
    );
    for (const name of names) {
      const share = this.#shareOf(name);
      for (const { attempted, sources } of days) {
        const known = sources.find((one) => one.name === name);
        if (known) known.attempted = attempted * share;
        else sources.push({ name, attempted: attempted * share, bounced: 0, complained: 0, fblDelivered: 0 });
      }
    }
  }

  #shareOf(name: string): number {
    const mail = this.#mail.reduce((sum, { source, count }) => sum + (source === name ? count : 0), 0);
    return this.#total === 0 ? 0 : mail / this.#total;
  }
}
