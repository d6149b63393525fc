/** `postrider audience create`. */
import { Command } from "commander";
import { newId } from "../ids.ts";
import { insertAudience } from "../record/contacts/audiences.ts";
import { type Context, type OutputOptions, say, unknownWorkspace, withContext } from "./context.ts";
import { readId } from "./workspace.ts";

type CreateAudienceOptions = OutputOptions & { workspace: string; name: string; doubleOptIn?: boolean };

export function audienceCommand(): Command {
  const command = new Command("audience").description("create audiences of a workspace");
  command
    .command("create")
    .description("create an audience")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .requiredOption("--name <name>", "a display name")
    .option("--double-opt-in", "new contacts must confirm by e-mail (double opt-in)")
    .option("--json", "print JSON")
    .action((options: CreateAudienceOptions) => withContext((context) => create(context, options)));
  return command;
}

async function create({ sql, clock }: Context, options: CreateAudienceOptions) {
  const now = clock.now();
  const id = newId(now);
  const { workspace: workspaceId, name, doubleOptIn = false } = options;
  if (!(await insertAudience(sql, { workspaceId, id, name, doubleOptIn }, new Date(now))))
    throw unknownWorkspace(workspaceId);
  say(options, { id, name, double_opt_in: doubleOptIn }, `Audience ${id} (${name}).`);
}
