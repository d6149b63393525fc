/**
 * The templates at hand: found by id or external id, compiled once per version, and the ones used last are kept. Which
 * version is sent is asked of the record each time, so that a change holds from the next request.
 */
import type { Sql } from "../record/connect.ts";
import { within } from "../record/groupcommit.ts";
import { currentVersions, readVersions, type VersionRef, type VersionText } from "../record/templates.ts";
import { type Compiled, compile } from "./compile.ts";
import { outOfTime, type RenderBudget } from "./render.ts";

const KEPT_BYTES_MAX = 32 * 1024 * 1024;
/** Measured: a piece takes 1 KB once compiled, whatever its length, and has two braces at least. */
const BYTES_PER_BRACE = 500;

export class Shelf {
  readonly #sql: Sql;
  readonly #timeoutMs: number;
  /** The one used last comes last. */
  readonly #kept = new Map<string, { compiled: Compiled; bytes: number }>();
  #bytes = 0;

  constructor(sql: Sql, timeoutMs: number) {
    this.#sql = sql;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The compiled versions to send, by the names they were asked for; those that do not exist are missing. What has to be
   * compiled is charged to the budget, and throws a TemplateFault once it is spent. The first is free: one large template
   * must not be refused for having been away from the shelf.
   */
  async fetch(
    workspaceId: string,
    refs: readonly string[],
    budget: RenderBudget | null = null,
  ): Promise<Map<string, Compiled>> {
    const current = await within(
      currentVersions(this.#sql, workspaceId, [...new Set(refs)]),
      this.#timeoutMs,
    );
    const known = new Map<string, Compiled>();
    const unread: VersionRef[] = [];
    for (const one of current) {
      const compiled = this.#take(keyOf(one));
      if (compiled) known.set(keyOf(one), compiled);
      else unread.push(one);
    }
    if (unread.length > 0) {
      const read = await within(readVersions(this.#sql, workspaceId, unread), this.#timeoutMs);
      for (const [n, version] of read.entries()) {
        if (budget?.msLeft === 0) throw outOfTime();
        const began = performance.now();
        known.set(keyOf(version), this.#take(keyOf(version)) ?? this.#compile(version));
        if (n > 0) budget?.takeTime(performance.now() - began);
        await turn();
      }
    }
    const found = new Map<string, Compiled>();
    for (const ref of refs) {
      const one = current.find(({ id, externalId }) => id === ref.toLowerCase() || externalId === ref);
      const compiled = one && known.get(keyOf(one));
      if (compiled) found.set(ref, compiled);
    }
    return found;
  }

  #take(key: string): Compiled | null {
    const kept = this.#kept.get(key);
    if (!kept) return null;
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    return kept.compiled;
  }

  #compile(version: VersionText): Compiled {
    const compiled = compile({ ...version, text: version.plain });
    const bytes = bytesOf(version.html) + bytesOf(version.plain ?? "") + bytesOf(version.subject ?? "");
    this.#kept.set(keyOf(version), { compiled, bytes });
    this.#bytes += bytes;
    for (const [key, oldest] of this.#kept) {
      if (this.#bytes <= KEPT_BYTES_MAX) break;
      this.#kept.delete(key);
      this.#bytes -= oldest.bytes;
    }
    return compiled;
  }
}

function bytesOf(source: string): number {
  return source.length + (source.split("{").length - 1) * BYTES_PER_BRACE;
}

function keyOf({ id, version }: VersionRef): string {
  return `${id} ${version}`;
}

/** Lets what else waits for this thread have its turn. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
