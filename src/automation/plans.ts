/** What runs follow: the versions of automations, read and parsed once, of which those used last are kept. */
import { readDocuments, type VersionKey } from "../record/automations/automations.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Compiled } from "../template/compile.ts";
import { turn } from "../turn.ts";
import { type Automation, checkDocument, DocumentError, type SendStep } from "./document.ts";
import { compileOwn } from "./stepemail.ts";

const KEPT_MAX = 100;

/** With the e-mails that the document brings itself; or why it cannot be followed. */
export type CompiledAutomation = { automation: Automation; own: Map<SendStep, Compiled> } | { fault: string };

export class Plans {
  readonly #sql: Sql;
  /** The one used last comes last. */
  readonly #kept = new Map<string, CompiledAutomation>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The plan of each of these versions. */
  async of(versions: readonly VersionKey[]): Promise<(version: VersionKey) => CompiledAutomation> {
    const wanted = new Map(versions.map((version) => [keyOf(version), version]));
    const plans = new Map([...this.#kept].filter(([key]) => wanted.has(key)));
    const missing = [...wanted.values()].filter((version) => !plans.has(keyOf(version)));
    if (missing.length > 0)
      for (const { document, ...version } of await readDocuments(this.#sql, missing)) {
        plans.set(keyOf(version), await planOf(document));
        await turn();
      }
    this.#keep(plans);
    return (version) => plans.get(keyOf(version)) ?? { fault: "its version is gone" };
  }

  #keep(plans: ReadonlyMap<string, CompiledAutomation>): void {
    for (const [key, plan] of plans) {
      this.#kept.delete(key);
      this.#kept.set(key, plan);
    }
    for (const key of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_MAX) break;
      this.#kept.delete(key);
    }
  }
}

/** A document was right when it was applied; one that no longer is must not hold up the others. */
async function planOf(document: unknown): Promise<CompiledAutomation> {
  try {
    const automation = checkDocument(document);
    return { automation, own: await compileOwn(automation) };
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    return { fault: `document: ${error.message}` };
  }
}

function keyOf({ workspaceId, automationId, version }: VersionKey): string {
  return `${workspaceId} ${automationId} ${version}`;
}
