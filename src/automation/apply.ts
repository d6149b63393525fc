/** Applying a document: checked as a whole, its e-mails included, before anything of it is kept. */
import { newId } from "../ids.ts";
import {
  type AppliedVersion,
  type AutomationRow,
  applyAutomation,
  type MeantAutomation,
} from "../record/automations/automations.ts";
import type { Sql } from "../record/db/connect.ts";
import { currentVersions } from "../record/mail/templates.ts";
import { type Automation, type AutomationStep, checkDocument, DocumentError } from "./document.ts";
import { checkOwn } from "./stepemail.ts";

/** `missingTemplates` are named by send steps and do not exist: these steps are skipped until they do. */
export type ApplyResult = { applied: AppliedVersion; missingTemplates: string[] };

/** For whoever hands on what is wrong with a document. */
export async function applyOrSay(
  ...given: Parameters<typeof apply>
): Promise<AppliedVersion | { kind: "wrong"; says: string }> {
  try {
    return (await apply(...given)).applied;
  } catch (error) {
    if (error instanceof DocumentError) return { kind: "wrong", says: error.message };
    throw error;
  }
}

/** Throws a DocumentError when the document is not right. */
export async function apply(
  sql: Sql,
  workspaceId: string,
  document: unknown,
  now: number,
  state: AutomationRow["state"] = "active",
  meant: MeantAutomation = "named",
): Promise<ApplyResult> {
  const automation = checkDocument(document);
  await checkOwn(automation);
  const { name, audience_id, event, entry, filters } = automation;
  const terms = { name, audience_id, event, entry };
  const given = { terms, filters, document, state, meant };
  const applied = await applyAutomation(sql, workspaceId, newId(now), given, new Date(now));
  return { applied, missingTemplates: await missingTemplates(sql, workspaceId, automation) };
}

async function missingTemplates(sql: Sql, workspaceId: string, { steps }: Automation): Promise<string[]> {
  const named = [...new Set(templatesOf(steps))];
  if (named.length === 0) return [];
  const known = await currentVersions(sql, workspaceId, named);
  return named.filter(
    (ref) => !known.some(({ id, externalId }) => id === ref.toLowerCase() || externalId === ref),
  );
}

function templatesOf(steps: readonly AutomationStep[]): string[] {
  return steps.flatMap((step) => {
    if (step.kind === "send") return step.send.template ?? [];
    return "branches" in step ? step.branches.flatMap((branch) => templatesOf(branch.steps)) : [];
  });
}
