/** `postrider audience create`. */
import { newId } from "../ids.ts";
import { insertAudience } from "../record/contacts/audiences.ts";
import type { Context } from "./context.ts";
import { type OutputOptions, say, unknownWorkspace } from "./print.ts";

type CreateAudienceOptions = OutputOptions & { workspace: string; name: string; doubleOptIn?: boolean };

export async function create({ sql, clock }: Context, options: CreateAudienceOptions) {
  const now = clock.now();
  const id = newId(now);
  const { workspace: workspaceId, name, doubleOptIn = false } = options;
  if (!(await insertAudience(sql, { workspaceId, id, name, doubleOptIn }, new Date(now))))
    throw unknownWorkspace(workspaceId);
  say(options, { id, name, double_opt_in: doubleOptIn }, `Audience ${id} (${name}).`);
}
