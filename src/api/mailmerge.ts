/**
 * Turns drafts into e-mails: those that name a template are rendered, before anything is reserved for them.
 * The templates of a request are loaded together and share one budget. Others have their turn between two
 * e-mails.
 */
import { Unavailable } from "../admission/unavailable.ts";
import type { Shelved, TemplateCache } from "../template/cache.ts";
import { TemplateFault } from "../template/fault.ts";
import { RenderBudget, type RenderedEmail, renderEmail } from "../template/render.ts";
import { turnIfLate } from "../turn.ts";
import { type Draft, type SendEmail, type WrittenEmail, writeDraft } from "./draft.ts";
import { Refusal, refuse } from "./problem.ts";

/** `onRefused` hears which draft cannot be written; what it throws ends the request. */
export async function writeDrafts(
  templates: Pick<TemplateCache, "fetch">,
  drafts: readonly Draft[],
  onRefused: (n: number, refusal: Refusal) => void,
): Promise<WrittenEmail[]> {
  const budget = new RenderBudget(drafts[0]?.sender.now ?? 0);
  const versions = await fetchVersions(templates, drafts, budget);
  const written: WrittenEmail[] = [];
  for (const [n, draft] of drafts.entries()) {
    const late = turnIfLate();
    if (late) await late;
    try {
      const { template } = draft.body;
      const rendered = template ? await fill(template, draft.at, versions, budget) : null;
      written.push(writeDraft(draft, rendered));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      onRefused(n, error);
    }
  }
  return written;
}

async function fetchVersions(
  templates: Pick<TemplateCache, "fetch">,
  drafts: readonly Draft[],
  budget: RenderBudget,
): Promise<Map<string, Shelved>> {
  const refs = drafts.flatMap(({ body }) => body.template?.id ?? []);
  const [first] = drafts;
  if (refs.length === 0 || !first) return new Map();
  try {
    return await templates.fetch(first.sender.workspaceId, refs, budget);
  } catch (error) {
    throw new Unavailable("postgres", "Postgres did not answer", error);
  }
}

async function fill(
  template: NonNullable<SendEmail["template"]>,
  at: string,
  versions: Map<string, Shelved>,
  budget: RenderBudget,
): Promise<RenderedEmail> {
  const version = versions.get(template.id);
  if (!version)
    throw refuse("not_found", `The template \`${template.id}\` does not exist (\`${at}template.id\`).`);
  try {
    if (version instanceof TemplateFault) throw version;
    return await renderEmail(version, template.variables ?? {}, budget);
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    if (error.missing === null)
      throw refuse(
        "validation_error",
        `The template \`${template.id}\` cannot be rendered (\`${at}template\`): ${words(error)}.`,
      );
    throw refuse(
      "validation_error",
      `The \`${at}template.variables.${error.missing}\` field is missing, and the template \`${template.id}\` has no fallback for it (${error.place}).`,
    );
  }
}

function words({ message, place }: TemplateFault): string {
  return place === "" ? message : `${message} (${place})`;
}
