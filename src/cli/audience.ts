/** `postrider audience create`. */
import { newId } from "../ids.ts";
import { AUDIENCES_MAX, insertAudience } from "../record/contacts/audiences.ts";
import type { Context } from "./context.ts";
import { CommandError, type OutputOptions, say, unknownWorkspace } from "./print.ts";

type CreateAudienceOptions = OutputOptions & { workspace: string; name: string; doubleOptIn?: boolean };

export async function create({ sql, clock }: Context, options: CreateAudienceOptions) {
  const now = clock.now();
  const id = newId(now);
  const { workspace: workspaceId, name, doubleOptIn = false } = options;
  const inserted = await insertAudience(sql, { workspaceId, id, name, doubleOptIn }, new Date(now));
  if (inserted === "no workspace") throw unknownWorkspace(workspaceId);
  if (inserted === "too many")
    throw new CommandError(`A workspace can have at most ${AUDIENCES_MAX} audiences. Delete one first.`);
  say(options, { id, name, double_opt_in: doubleOptIn }, `Audience ${id} (${name}).`);
}
