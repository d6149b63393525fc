/**
 * A workspace's own words for the confirmation mail: its template
 * `confirm-subscription:<id of the audience>`, else `confirm-subscription`, under a sender that the workspace
 * may write as. One that fails, leaves out the link or has no such sender must not keep people from
 * confirming: then the mail is the plain one, the operator's.
 */
import { headerValueOk, parseMailbox, withoutDirectionMarks } from "../address.ts";
import type { Owners } from "../domain/owners.ts";
import type { OwedConfirmation } from "../record/contacts/confirmations.ts";
import type { TemplateCache } from "../template/cache.ts";
import { TemplateFault } from "../template/fault.ts";
import { RenderBudget, renderEmail } from "../template/render.ts";
import type { ConfirmationText } from "./confirm.ts";

const EXTERNAL_ID = "confirm-subscription";

/** null when there is no template; throws when there is one that cannot be used. */
export async function confirmFromTemplate(
  { templates, owners }: { templates: TemplateCache; owners: Owners },
  owed: OwedConfirmation,
  confirmUrl: string,
  now: number,
): Promise<ConfirmationText | null> {
  const { workspaceId, audienceId, audienceName } = owed;
  const refs = [`${EXTERNAL_ID}:${audienceId}`, EXTERNAL_ID];
  const versions = await templates.fetch(workspaceId, refs);
  const version = refs.flatMap((ref) => versions.get(ref) ?? [])[0];
  if (!version) return null;
  if (version instanceof TemplateFault) throw version;
  const variables = {
    confirm_url: confirmUrl,
    audience_id: audienceId,
    audience_name: audienceName,
    email: owed.email,
    first_name: owed.firstName,
    last_name: owed.lastName,
  };
  const { subject, html, text, from, replyTo } = await renderEmail(version, variables, new RenderBudget(now));
  if (!html.includes(confirmUrl))
    throw new Error("the confirmation template does not contain {{confirm_url}}");
  if (subject === null || !headerValueOk(subject))
    throw new Error("the confirmation template has no subject, or a subject of several lines");
  const domain = from === null ? undefined : parseMailbox(from)?.domain;
  if (domain === undefined) throw new Error("the confirmation template has no `from`");
  if ((await owners.refused({ workspaceId, version: 0 }, [domain])).size > 0)
    throw new Error(
      `the confirmation template sends from ${domain}, which is not verified for the workspace`,
    );
  return { subject: withoutDirectionMarks(subject), html, text, from, replyTo };
}
