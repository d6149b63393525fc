/**
 * Who may write as whom: the nearest verified domain at or above that of the sender decides, and it belongs
 * to one workspace.
 *
 * Promises: what is allowed again and again is remembered, so that a send asks nobody: at most KEPT_MS, read
 * again in the background before that, and not beyond a change of the workspace's version, which every change
 * of its domains raises. What is refused is asked of the record first, so that a domain that was just
 * verified works at once. All names that are asked for in one turn of the event loop are one query. A
 * workspace that is moving to another cell is refused nothing: that is thrown, since its domains have left.
 */
import { expectHere } from "../record/cells/moving.ts";
import type { Sql } from "../record/db/connect.ts";
import { within } from "../record/db/groupcommit.ts";
import { ownersOf } from "../record/workspaces/domains.ts";

const KEPT_MS = 10_000;
const REFRESH_MS = 5_000;
const DOMAINS_KEPT_MAX = 20_000;
const LOAD_MS_MAX = 3_000;
/** Names of one query: a batch may bring a hundred domains, each with those above it. */
const NAMES_MAX = 2_000;

/** `version`: of the workspace that owns it, when that was the one to ask; else nobody's. */
type CachedOwner = { owner: string | null; version: number; at: number; isRefreshing: boolean };

export type Asking = {
  workspaceId: string;
  /** As it was when the caller was admitted; 0: the engine's own mail, which has no caller. */
  version: number;
};

export type OwnerParts = {
  sql: Sql;
  /** Whether nobody may write from a domain that no workspace has verified. */
  isRequired: boolean;
  onFault(error: unknown): void;
};

export class Owners {
  readonly #parts: OwnerParts;
  readonly #kept = new Map<string, CachedOwner>();
  #asked = new Map<string, Asking>();
  #answer: Promise<void> | null = null;

  constructor(parts: OwnerParts) {
    this.#parts = parts;
  }

  /**
   * Which of these domains the workspace may not write from. Nothing is asked when all of them are
   * remembered.
   */
  refused(asking: Asking, domains: Iterable<string>): ReadonlySet<string> | Promise<ReadonlySet<string>> {
    let doubted: Set<string> | null = null;
    for (const domain of domains) {
      if (this.#isRemembered(asking, domain)) continue;
      doubted ??= new Set();
      doubted.add(domain);
    }
    return doubted === null ? NONE : this.#askFor(asking, [...doubted]);
  }

  #isRemembered(asking: Asking, domain: string): boolean {
    const kept = this.#kept.get(domain);
    if (!kept || !this.#allows(kept, asking)) return false;
    if (kept.owner !== null && kept.version < asking.version) return false;
    const age = performance.now() - kept.at;
    if (age > KEPT_MS) return false;
    if (age > REFRESH_MS && !kept.isRefreshing) {
      kept.isRefreshing = true;
      this.#load(asking, [domain]).catch(this.#parts.onFault);
    }
    return true;
  }

  #allows({ owner }: Pick<CachedOwner, "owner">, { workspaceId }: Asking): boolean {
    return owner === workspaceId || (owner === null && !this.#parts.isRequired);
  }

  async #askFor(asking: Asking, domains: readonly string[]): Promise<ReadonlySet<string>> {
    await this.#load(asking, domains);
    const refused = domains.filter(
      (domain) => !this.#allows(this.#kept.get(domain) ?? { owner: null }, asking),
    );
    if (refused.length > 0) await within(expectHere(this.#parts.sql, asking.workspaceId), LOAD_MS_MAX);
    return new Set(refused);
  }

  #load(asking: Asking, domains: readonly string[]): Promise<void> {
    for (const domain of domains) this.#asked.set(domain, asking);
    this.#answer ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        const asked = this.#asked;
        this.#asked = new Map();
        this.#answer = null;
        this.#readAll(asked).then(resolve, reject);
      });
    });
    return this.#answer;
  }

  async #readAll(asked: ReadonlyMap<string, Asking>): Promise<void> {
    const at = performance.now();
    const names = [...new Set([...asked.keys()].flatMap(upwards))];
    const owners = new Map<string, string>();
    for (let from = 0; from < names.length; from += NAMES_MAX) {
      const some = names.slice(from, from + NAMES_MAX);
      const found = await within(ownersOf(this.#parts.sql, some), LOAD_MS_MAX);
      for (const { domain, workspaceId } of found) owners.set(domain, workspaceId);
    }
    for (const [domain, asking] of asked) {
      const nearest = upwards(domain).find((name) => owners.has(name));
      const owner = (nearest !== undefined && owners.get(nearest)) || null;
      const version = owner === asking.workspaceId ? asking.version : -1;
      this.#keep(domain, { owner, version, at, isRefreshing: false });
    }
  }

  #keep(domain: string, kept: CachedOwner): void {
    this.#kept.delete(domain);
    this.#kept.set(domain, kept);
    if (this.#kept.size > DOMAINS_KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value as string);
  }
}

const NONE: ReadonlySet<string> = new Set();

/** The domain and those above it, down to two labels. */
export function upwards(domain: string): string[] {
  const labels = domain.split(".");
  return labels.slice(0, -1).map((_, n) => labels.slice(n).join("."));
}
