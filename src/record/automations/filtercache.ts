/**
 * Filters of automations, parsed: with every event those of all automations that listen are needed, up to 200
 * of 32 KB. Which version holds is asked of the record each time; what is not kept is read again.
 */
import type { Filter } from "../../rules/filters.ts";

/** Of JSON; parsed it takes up to five times as much. */
const KEPT_CHARS_MAX = 8 * 1024 * 1024;
/** Of one beside its JSON. */
const ENTRY_CHARS = 200;

/**
 * A version of an automation, and when it last changed: a record that lost its last commits in a failover
 * gives a number again.
 */
export type FilterKey = { workspaceId: string; id: string; version: number; updatedAt: Date };

export class FilterCache {
  /** Those used last come last. */
  readonly #kept = new Map<string, { filters: readonly Filter[]; chars: number }>();
  #chars = 0;

  get(key: FilterKey): readonly Filter[] | null {
    const name = nameOf(key);
    const kept = this.#kept.get(name);
    if (!kept) return null;
    this.#kept.delete(name);
    this.#kept.set(name, kept);
    return kept.filters;
  }

  keep(key: FilterKey, filters: readonly Filter[], filterChars: number): void {
    const name = nameOf(key);
    this.#drop(name);
    const chars = filterChars + ENTRY_CHARS;
    this.#kept.set(name, { filters, chars });
    this.#chars += chars;
    for (const oldest of this.#kept.keys()) {
      if (this.#chars <= KEPT_CHARS_MAX) break;
      this.#drop(oldest);
    }
  }

  #drop(name: string): void {
    this.#chars -= this.#kept.get(name)?.chars ?? 0;
    this.#kept.delete(name);
  }
}

function nameOf({ workspaceId, id, version, updatedAt }: FilterKey): string {
  return `${workspaceId} ${id} ${version} ${updatedAt.getTime()}`;
}
