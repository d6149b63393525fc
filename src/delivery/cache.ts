/**
 * A cache of lookups, by name. An entry is kept as long as its answer is valid. Parallel requests for one
 * name share one lookup. When a lookup fails, the previous answer is used for another hour. At its limit the
 * oldest entry is dropped.
 */
export type Learnt<T> = {
  value: T;
  keepMs: number;
  /** The lookup failed. */
  isFailure: boolean;
};

type CacheEntry<T> = { value: T; until: number; staleUntil: number };

const STALE_MS_MAX = 3_600_000;

export class LookupCache<T> {
  readonly #ask: (name: string) => Promise<Learnt<T>>;
  readonly #now: () => number;
  readonly #entriesMax: number;
  readonly #entries = new Map<string, CacheEntry<T>>();
  readonly #asking = new Map<string, Promise<T>>();

  constructor(ask: (name: string) => Promise<Learnt<T>>, now: () => number, entriesMax: number) {
    this.#ask = ask;
    this.#now = now;
    this.#entriesMax = entriesMax;
  }

  known(name: string): T | null {
    const entry = this.#entries.get(name);
    return entry && this.#now() < entry.until ? entry.value : null;
  }

  learn(name: string): Promise<T> {
    const known = this.known(name);
    if (known !== null) return Promise.resolve(known);
    let asking = this.#asking.get(name);
    if (!asking) {
      asking = this.#ask(name)
        .then((learnt) => this.#keep(name, learnt))
        .finally(() => this.#asking.delete(name));
      this.#asking.set(name, asking);
    }
    return asking;
  }

  #keep(name: string, { value, keepMs, isFailure }: Learnt<T>): T {
    const now = this.#now();
    const before = this.#entries.get(name);
    const until = now + keepMs;
    const entry =
      isFailure && before && now < before.staleUntil
        ? { ...before, until: Math.min(until, before.staleUntil) }
        : { value, until, staleUntil: isFailure ? until : until + STALE_MS_MAX };
    this.#entries.delete(name); // so that it is the youngest
    this.#entries.set(name, entry);
    if (this.#entries.size > this.#entriesMax) {
      const [oldest] = this.#entries.keys();
      this.#entries.delete(oldest as string);
    }
    return entry.value;
  }
}
