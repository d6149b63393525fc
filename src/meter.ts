/**
 * What this process has counted, as plain numbers: counting is an addition, and whoever asks for the metrics
 * pays for the rest. Counts belong to the process and to nothing in it, so they are not handed down: who
 * counts declares the family beside the code that counts.
 *
 * Promises: a family has at most SERIES_MAX series; what would be one more is counted under `other`.
 */
const SERIES_MAX = 200;
const OTHER = "other";

/** A number that somebody adds to. */
export type Count = { n: number };

/** One series of a histogram: how many were at most each bound, and beyond the last. */
export type Distribution = { counts: number[]; sum: number };

export type Family = {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
} & (
  | { readonly type: "counter" | "gauge"; read(): Map<readonly string[], number> }
  | { readonly type: "histogram"; bounds: readonly number[]; read(): Map<readonly string[], Distribution> }
);

const families: Family[] = [];

/** Of all parts of the process that were loaded. */
export function allFamilies(): readonly Family[] {
  return families;
}

class LabelledSeries<T> {
  readonly all = new Map<string, { labels: readonly string[]; value: T }>();
  readonly #make: () => T;

  constructor(make: () => T) {
    this.#make = make;
  }

  of(labels: readonly string[]): T {
    const name = labels.length === 1 ? (labels[0] as string) : labels.join("\n");
    const known = this.all.get(name);
    if (known) return known.value;
    // the last place is for these
    if (this.all.size >= SERIES_MAX - 1 && labels.some((label) => label !== OTHER))
      return this.of(labels.map(() => OTHER));
    const value = this.#make();
    this.all.set(name, { labels, value });
    return value;
  }

  read<Read>(shown: (value: T) => Read): Map<readonly string[], Read> {
    return new Map([...this.all.values()].map(({ labels, value }) => [labels, shown(value)]));
  }
}

export class Counter {
  readonly #series = new LabelledSeries<Count>(() => ({ n: 0 }));

  /** Without labels there is one series, which begins at zero. */
  constructor(name: string, help: string, labels: readonly string[] = []) {
    if (labels.length === 0) this.of();
    families.push({ name, help, labels, type: "counter", read: () => this.#series.read(({ n }) => n) });
  }

  /** For whoever adds often, to keep. */
  of(...labels: string[]): Count {
    return this.#series.of(labels);
  }

  add(n: number, ...labels: string[]): void {
    this.#series.of(labels).n += n;
  }
}

export class Histogram {
  readonly #series: LabelledSeries<Distribution>;
  readonly #bounds: readonly number[];

  constructor(name: string, help: string, bounds: readonly number[], labels: readonly string[] = []) {
    this.#bounds = bounds;
    this.#series = new LabelledSeries(() => ({
      counts: new Array<number>(bounds.length + 1).fill(0),
      sum: 0,
    }));
    if (labels.length === 0) this.#series.of([]);
    families.push({
      name,
      help,
      labels,
      type: "histogram",
      bounds,
      read: () => this.#series.read((one) => one),
    });
  }

  note(value: number, ...labels: string[]): void {
    this.noteIn(this.#series.of(labels), value);
  }

  /** For whoever notes often, to keep. */
  of(...labels: string[]): Distribution {
    return this.#series.of(labels);
  }

  noteIn(series: Distribution, value: number): void {
    let place = 0;
    while (place < this.#bounds.length && value > (this.#bounds[place] as number)) place++;
    series.counts[place] = (series.counts[place] as number) + 1;
    series.sum += value;
  }
}

/** What is true now: of everybody who is followed, the sum for each set of labels. */
export class Gauge {
  readonly #followed = new Set<{ labels: readonly string[]; read: () => number }>();

  constructor(name: string, help: string, labels: readonly string[] = []) {
    families.push({ name, help, labels, type: "gauge", read: () => this.#sums() });
  }

  /** Until what is returned is called. */
  follow(read: () => number, ...labels: string[]): () => void {
    const one = { labels, read };
    this.#followed.add(one);
    return () => void this.#followed.delete(one);
  }

  #sums(): Map<readonly string[], number> {
    const sums = new LabelledSeries<Count>(() => ({ n: 0 }));
    for (const { labels, read } of this.#followed) sums.of(labels).n += read();
    return sums.read(({ n }) => n);
  }
}

/** Upper bounds in seconds, from a script in Redis to a request that waited for a store. */
export const SECONDS: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
/** Of conversations with receivers. */
export const LONG_SECONDS: readonly number[] = [
  0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600,
];
/** How many there were in a group. */
export const SIZES: readonly number[] = [1, 3, 10, 30, 100, 300, 1_000, 3_000];
