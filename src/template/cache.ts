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
import { type RenderBudget, TOO_MUCH_TOGETHER } from "./render.ts";

/** A version that was saved under wider limits may not compile any more. */
export type Shelved = Compiled | TemplateFault;

const KEPT_BYTES_MAX = 32 * 1024 * 1024;
/** Of sources, each of which may have 1 MB. */
const READ_MAX = 10;
/** Measured: 0.4 to 0.7 for a unit of what compiling took. Twice that, for what nobody has measured. */
const BYTES_PER_UNIT = 1.5;

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
   * must not depend on what others sent before it. Once it is spent, what is left is not compiled.
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
    const versionOf = (ref: string) =>
      current.find(({ id, externalId }) => id === ref.toLowerCase() || externalId === ref);
    const wanted = new Set(refs.flatMap((ref) => versionOf(ref) ?? []));
    const known = new Map<string, Shelved>();
    for (let rest = [...wanted]; rest.length > 0; rest = rest.slice(READ_MAX))
      await this.#fetchSome(workspaceId, rest.slice(0, READ_MAX), known, budget);
    const found = new Map<string, Shelved>();
    for (const ref of refs) {
      const one = versionOf(ref);
      const compiled = one && known.get(keyOf(one));
      if (compiled) found.set(ref, compiled);
    }
    return found;
  }

  async #fetchSome(
    workspaceId: string,
    versions: readonly VersionRef[],
    known: Map<string, Shelved>,
    budget: RenderBudget | null,
  ): Promise<void> {
    // held from here on: what others compile meanwhile may drop it from those kept
    const atHand = new Map(versions.map((version) => [keyOf(version), this.#take(keyOf(version))]));
    const unread = versions.filter((version) => !atHand.get(keyOf(version)));
    const isRead = unread.length > 0 && !budget?.isSpent;
    const read = isRead ? await within(readVersions(this.#sql, workspaceId, unread), this.#timeoutMs) : [];
    const texts = new Map(read.map((version) => [keyOf(version), version]));
    for (const key of versions.map(keyOf)) {
      const late = turnIfLate();
      if (late) await late;
      if (budget?.isSpent) {
        known.set(key, new TemplateFault(TOO_MUCH_TOGETHER));
        continue;
      }
      const text = texts.get(key);
      const compiled = atHand.get(key) ?? this.#take(key) ?? (text && this.#compile(text));
      if (!compiled) continue;
      known.set(key, compiled);
      budget?.takeWork(compiled instanceof TemplateFault ? COMPILE_UNITS_MAX : compiled.units);
    }
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
    const units = compiled instanceof TemplateFault ? 0 : compiled.units;
    const bytes = compiledBytes([version.subject, version.html, version.plain], units);
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

/** What the parts of a template take once they are compiled, about. */
export function compiledBytes(parts: readonly (string | null | undefined)[], units: number): number {
  return parts.reduce((bytes, part) => bytes + (part?.length ?? 0), units * BYTES_PER_UNIT);
}

function keyOf({ id, version }: VersionRef): string {
  return `${id} ${version}`;
}
