/**
 * The templates at hand: found by id or external id, compiled once per version, and the ones used last are
 * kept. Which version is sent is asked of the record each time, so that a change holds from the next request.
 */
import type { Sql } from "../record/db/connect.ts";
import { within } from "../record/db/groupcommit.ts";
import {
  currentVersions,
  readVersions,
  type VersionRef,
  type VersionText,
} from "../record/mail/templates.ts";
import { turnIfLate } from "../turn.ts";
import { type Compiled, compile } from "./compile.ts";
import { TemplateFault } from "./fault.ts";
import { COMPILE_UNITS_MAX } from "./meter.ts";
import type { RenderBudget } from "./render.ts";

/** A version that was saved under wider limits may not compile any more. */
export type Shelved = Compiled | TemplateFault;

const KEPT_BYTES_MAX = 32 * 1024 * 1024;
/** Measured: a piece takes 1 KB once compiled, whatever its length, and has two braces at least. */
const BYTES_PER_BRACE = 500;

export class TemplateCache {
  readonly #sql: Sql;
  readonly #timeoutMs: number;
  /** The one used last comes last. */
  readonly #kept = new Map<string, { compiled: Shelved; bytes: number }>();
  #bytes = 0;

  constructor(sql: Sql, timeoutMs: number) {
    this.#sql = sql;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The compiled versions to send, by the names they were asked for; those that do not exist are missing.
   * What compiling them takes is charged to the budget, also where they are at hand: what a request may do
   * must not depend on what others sent before it.
   */
  async fetch(
    workspaceId: string,
    refs: readonly string[],
    budget: RenderBudget | null = null,
  ): Promise<Map<string, Shelved>> {
    const current = await within(
      currentVersions(this.#sql, workspaceId, [...new Set(refs)]),
      this.#timeoutMs,
    );
    const known = new Map<string, Shelved>();
    const unread: VersionRef[] = [];
    for (const one of current) {
      const compiled = this.#take(keyOf(one));
      if (compiled) known.set(keyOf(one), compiled);
      else unread.push(one);
    }
    if (unread.length > 0) {
      const read = await within(readVersions(this.#sql, workspaceId, unread), this.#timeoutMs);
      for (const version of read) {
        const late = turnIfLate();
        if (late) await late;
        known.set(keyOf(version), this.#take(keyOf(version)) ?? this.#compile(version));
      }
    }
    for (const compiled of known.values())
      budget?.takeWork(compiled instanceof TemplateFault ? COMPILE_UNITS_MAX : compiled.units);
    const found = new Map<string, Shelved>();
    for (const ref of refs) {
      const one = current.find(({ id, externalId }) => id === ref.toLowerCase() || externalId === ref);
      const compiled = one && known.get(keyOf(one));
      if (compiled) found.set(ref, compiled);
    }
    return found;
  }

  #take(key: string): Shelved | null {
    const kept = this.#kept.get(key);
    if (!kept) return null;
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    return kept.compiled;
  }

  #compile(version: VersionText): Shelved {
    const compiled = compiledOf(version);
    const bytes =
      compiledBytes(version.html) + compiledBytes(version.plain ?? "") + compiledBytes(version.subject ?? "");
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

function compiledOf(version: VersionText): Shelved {
  try {
    return compile({ ...version, text: version.plain });
  } catch (error) {
    if (error instanceof TemplateFault) return error;
    throw error;
  }
}

/** What a source takes once it is compiled, about. */
export function compiledBytes(source: string): number {
  return source.length + (source.split("{").length - 1) * BYTES_PER_BRACE;
}

function keyOf({ id, version }: VersionRef): string {
  return `${id} ${version}`;
}
