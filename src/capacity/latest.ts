/**
 * Where the latest mail of a simulated workspace goes: the shares that its sources have in it, as production
 * sees them.
 */
import { LATEST_MAX } from "../record/workspaces/bouncesources.ts";
import type { DayCounts, SourceCounts } from "../record/workspaces/caps.ts";
import type { SourceShare } from "./workload.ts";

type MutableSource = { -readonly [K in keyof SourceCounts]: SourceCounts[K] };
type MutableDay = DayCounts & { sources: MutableSource[] };
type Shares = ReadonlyMap<string, number>;

const NO_SHARE: Shares = new Map();

export class LatestMail {
  readonly #mail: { sources: readonly SourceShare[]; count: number }[] = [];
  #total = 0;
  /** Of the mail before today, and before yesterday; null: there was none. */
  #usual: Shares | null = null;
  #earlier: Shares | null = null;

  note(sources: readonly SourceShare[], count: number): void {
    const noted = Math.min(count, LATEST_MAX);
    this.#mail.push({ sources, count: noted });
    this.#total += noted;
    while (this.#total > LATEST_MAX) {
      const oldest = this.#mail[0] as { count: number };
      const excess = Math.min(oldest.count, this.#total - LATEST_MAX);
      oldest.count -= excess;
      this.#total -= excess;
      if (oldest.count === 0) this.#mail.shift();
    }
  }

  beginDay(): void {
    this.#earlier = this.#usual;
    this.#usual = this.#total === 0 ? null : this.#shares();
  }

  /** Writes into the counts of each day what was attempted of each source that bounced, and what is usual. */
  shareOut(days: readonly MutableDay[]): void {
    const names = new Set(
      days.flatMap(({ sources }) => sources.filter(({ bounced }) => bounced > 0).map(({ name }) => name)),
    );
    if (names.size === 0) return;
    const latest = this.#shares();
    for (const [n, day] of days.entries()) {
      const usual = n === days.length - 1 ? this.#usual : this.#earlier;
      for (const name of names) {
        const attempted = day.attempted * (latest.get(name) ?? 0);
        const known = day.sources.find((one) => one.name === name);
        const source = known ?? { name, attempted: 0, bounced: 0, complained: 0, fblDelivered: 0 };
        if (!known) day.sources.push(source);
        source.attempted = attempted;
        if (usual) source.usual = usual.get(name) ?? 0;
      }
      if (usual) day.newSources = newSourcesIn(latest, usual);
    }
  }

  #shares(): Shares {
    if (this.#total === 0) return NO_SHARE;
    const shares = new Map<string, number>();
    for (const { sources, count } of this.#mail)
      for (const [name, share] of sources)
        shares.set(name, (shares.get(name) ?? 0) + (share * count) / this.#total);
    return shares;
  }
}

/** Of very many sources that have no name here, none is new. */
function newSourcesIn(latest: Shares, usual: Shares): NonNullable<DayCounts["newSources"]> {
  let share = 0;
  for (const [name, one] of latest) if (!usual.has(name)) share += one;
  return { usual: 0, latest: share };
}
