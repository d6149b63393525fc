/**
 * What runs follow: the versions of automations, read and checked once, of which those used last are kept. Of
 * very long ones only so many are taken up together as fit into memory.
 */
import { readDocuments, type VersionKey } from "../record/automations/automations.ts";
import type { Sql } from "../record/db/connect.ts";
import { turn } from "../turn.ts";
import { type Automation, checkDocument, DocumentError } from "./document.ts";

const KEPT_MAX = 1_000;
/** Of documents as JSON, of which one may have 512 KB. */
const KEPT_CHARS_MAX = 16 * 1024 * 1024;
const TOGETHER_CHARS_MAX = 32 * 1024 * 1024;
const READ_MAX = 10;

/** What a version says, or why it cannot be followed. */
export type VersionPlan = { automation: Automation } | { fault: string };
type KnownPlan = { plan: VersionPlan; chars: number };

export class Plans {
  readonly #sql: Sql;
  /** The one used last comes last. */
  readonly #kept = new Map<string, KnownPlan>();
  #chars = 0;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The plan of each of these versions; null: there is no room for it beside the others. */
  async of(versions: readonly VersionKey[]): Promise<(version: VersionKey) => VersionPlan | null> {
    const wanted = new Map(versions.map((version) => [keyOf(version), version]));
    const plans = new Map([...this.#kept].filter(([key]) => wanted.has(key)));
    const missing = [...wanted.values()].filter((version) => !plans.has(keyOf(version)));
    let chars = 0;
    while (missing.length > 0 && chars < TOGETHER_CHARS_MAX) {
      const some = missing.splice(0, READ_MAX);
      for (const version of some) plans.set(keyOf(version), { plan: GONE, chars: 0 });
      for (const { document, documentChars, ...version } of await readDocuments(this.#sql, some)) {
        plans.set(keyOf(version), { plan: planOf(document), chars: documentChars });
        chars += documentChars;
        await turn();
      }
    }
    for (const [key, known] of plans) this.#keep(key, known);
    return (version) => plans.get(keyOf(version))?.plan ?? null;
  }

  #keep(key: string, known: KnownPlan): void {
    this.#drop(key);
    if (known.plan === GONE) return;
    this.#kept.set(key, known);
    this.#chars += known.chars;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_MAX && this.#chars <= KEPT_CHARS_MAX) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    this.#chars -= this.#kept.get(key)?.chars ?? 0;
    this.#kept.delete(key);
  }
}

const GONE: VersionPlan = { fault: "its version is gone" };

/** A document was right when it was applied; one that no longer is must not hold up the others. */
function planOf(document: unknown): VersionPlan {
  try {
    return { automation: checkDocument(document) };
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    return { fault: `document: ${error.message}` };
  }
}

function keyOf({ workspaceId, automationId, version }: VersionKey): string {
  return `${workspaceId} ${automationId} ${version}`;
}
