/**
 * Where the latest mail of a simulated workspace goes: the shares that its sources have in it, as production
 * sees them. Sources are numbered, since their shares are asked for at every look.
 */
import { LATEST_MAX } from "../record/workspaces/bouncesources.ts";
import type { DayCounts, SourceCounts } from "../record/workspaces/caps.ts";
import { COUNTED_DAYS_MAX } from "./policy/evidence.ts";
import type { SourceShare } from "./workload.ts";

type MutableSource = { -readonly [K in keyof SourceCounts]: SourceCounts[K] };
type MutableDay = DayCounts & { sources: MutableSource[] };

/** Of each source, by its number; `names`: the numbers of those that the mail has at all, in its order. */
type Shares = { of: Float64Array; isNamed: Uint8Array; names: readonly number[] };

/** `numbers`: of its sources, in their order. */
type KnownDay = { counts: MutableDay; numbers: number[] };

/** Of a source that no mail goes to: complaints alone are of such. */
const NO_NUMBER = -1;

export class LatestMail {
  readonly #names: readonly string[];
  readonly #numbers: ReadonlyMap<string, number>;
  /** Of each stream, its sources. */
  readonly #streams: readonly { numbers: readonly number[]; shares: readonly number[] }[];
  /** Oldest first, from `#head` on. */
  readonly #mail: { stream: number; count: number }[] = [];
  #head = 0;
  #total = 0;
  /** Of the mail before today, and before yesterday; null: there was none. */
  #usual: Shares | null = null;
  #earlier: Shares | null = null;
  readonly #days: KnownDay[] = [];

  constructor(sourcesOfStreams: readonly (readonly SourceShare[])[]) {
    this.#names = [...new Set(sourcesOfStreams.flat().map(([name]) => name))];
    const numbers = new Map(this.#names.map((name, n) => [name, n]));
    this.#numbers = numbers;
    this.#streams = sourcesOfStreams.map((sources) => ({
      numbers: sources.map(([name]) => numbers.get(name) as number),
      shares: sources.map(([, share]) => share),
    }));
  }

  note(stream: number, count: number): void {
    const noted = Math.min(count, LATEST_MAX);
    this.#mail.push({ stream, count: noted });
    this.#total += noted;
    while (this.#total > LATEST_MAX) {
      const oldest = this.#mail[this.#head] as { count: number };
      const excess = Math.min(oldest.count, this.#total - LATEST_MAX);
      oldest.count -= excess;
      this.#total -= excess;
      if (oldest.count === 0) this.#head++;
    }
    if (this.#head < LATEST_MAX) return;
    this.#mail.splice(0, this.#head);
    this.#head = 0;
  }

  beginDay(today: MutableDay): void {
    this.#days.push({ counts: today, numbers: [] });
    if (this.#days.length > COUNTED_DAYS_MAX) this.#days.shift();
    this.#earlier = this.#usual;
    this.#usual = this.#total === 0 ? null : this.#shares();
  }

  /** Writes into the counts of each day what was attempted of each source that bounced, and what is usual. */
  shareOut(): void {
    const bounced = this.#bounced();
    if (bounced.length === 0) return;
    const isBounced = new Uint8Array(this.#names.length);
    for (const number of bounced) isBounced[number] = 1;
    const latest = this.#shares();
    const [newToday, newEarlier] = [newSourcesIn(latest, this.#usual), newSourcesIn(latest, this.#earlier)];
    for (let n = 0; n < this.#days.length; n++) {
      const isToday = n === this.#days.length - 1;
      const day = this.#days[n] as KnownDay;
      this.#addMissing(day, bounced, isBounced);
      writeShares(day, isBounced, latest, isToday ? this.#usual : this.#earlier);
      const newSources = isToday ? newToday : newEarlier;
      if (newSources) day.counts.newSources = newSources;
    }
  }

  /** The sources that bounced on any of the days, in the order in which the days have them. */
  #bounced(): number[] {
    const found: number[] = [];
    const isFound = new Uint8Array(this.#names.length);
    for (const { counts, numbers } of this.#days) {
      const { sources } = counts;
      for (let n = 0; n < sources.length; n++) {
        const { name, bounced } = sources[n] as MutableSource;
        if (n === numbers.length) numbers.push(this.#numbers.get(name) ?? NO_NUMBER);
        const number = numbers[n] as number;
        if (bounced <= 0 || number === NO_NUMBER || isFound[number] === 1) continue;
        isFound[number] = 1;
        found.push(number);
      }
    }
    return found;
  }

  #addMissing({ counts, numbers }: KnownDay, bounced: readonly number[], isBounced: Uint8Array): void {
    let missing = bounced.length;
    for (const number of numbers) if (isBounced[number] === 1) missing--;
    if (missing === 0) return;
    for (const number of bounced) {
      if (numbers.includes(number)) continue;
      const name = this.#names[number] as string;
      counts.sources.push({ name, attempted: 0, bounced: 0, complained: 0, fblDelivered: 0 });
      numbers.push(number);
    }
  }

  #shares(): Shares {
    const of = new Float64Array(this.#names.length);
    const isNamed = new Uint8Array(this.#names.length);
    const names: number[] = [];
    const total = this.#total;
    const mail = total === 0 ? [] : this.#mail;
    for (let n = this.#head; n < mail.length; n++) {
      const { stream, count } = mail[n] as { stream: number; count: number };
      const { numbers, shares } = this.#streams[stream] as { numbers: number[]; shares: number[] };
      for (let m = 0; m < numbers.length; m++) {
        const number = numbers[m] as number;
        of[number] = (of[number] as number) + ((shares[m] as number) * count) / total;
        if (isNamed[number] === 1) continue;
        isNamed[number] = 1;
        names.push(number);
      }
    }
    return { of, isNamed, names };
  }
}

function writeShares(
  { counts, numbers }: KnownDay,
  isBounced: Uint8Array,
  latest: Shares,
  usual: Shares | null,
): void {
  const { sources, attempted } = counts;
  for (let n = 0; n < sources.length; n++) {
    const number = numbers[n] as number;
    if (isBounced[number] !== 1) continue;
    const source = sources[n] as MutableSource;
    source.attempted = attempted * (latest.of[number] as number);
    if (usual) source.usual = usual.of[number] as number;
  }
}

/** Of very many sources that have no name here, none is new; null: nobody knows what is usual. */
function newSourcesIn(latest: Shares, usual: Shares | null): DayCounts["newSources"] | null {
  if (usual === null) return null;
  let share = 0;
  for (const number of latest.names) if (usual.isNamed[number] !== 1) share += latest.of[number] as number;
  return { usual: 0, latest: share };
}
