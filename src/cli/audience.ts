/** `postrider audience create`. */
import { Command } from "commander";
import { newId } from "../ids.ts";
import { insertAudience } from "../record/contacts/audiences.ts";
import { CommandError, type Context, type Output, say, withContext } from "./context.ts";
import { readId } from "./workspace.ts";

type CreateOptions = Output & { workspace: string; name: string; doubleOptIn?: boolean };

export function audienceCommand(): Command {
  const command = new Command("audience").description("audiences of a workspace");
  command
    .command("create")
    .requiredOption("--workspace <id>", "whose audience", readId)
    .requiredOption("--name <name>", "what people call it")
    .option("--double-opt-in", "new contacts must confirm")
    .option("--json", "as JSON")
    .action((options: CreateOptions) => withContext((context) => create(context, options)));
  return command;
}

async function create({ sql, clock }: Context, options: CreateOptions) {
  const now = clock.now();
  const id = newId(now);
  const { workspace: workspaceId, name, doubleOptIn = false } = options;
  if (!(await insertAudience(sql, { workspaceId, id, name, doubleOptIn }, new Date(now))))
    throw new CommandError(`There is no workspace ${workspaceId}.`);
  say(options, { id, name, double_opt_in: doubleOptIn }, `Audience ${id} (${name}).`);
}
