/** `postrider audience create`, as it is typed. */
import { Command } from "commander";
import { readDisplayName } from "./authored.ts";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../audience.ts");

export function audienceCommand(): Command {
  const command = new Command("audience").description("create audiences of a workspace");
  command
    .command("create")
    .description("create an audience")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .requiredOption("--name <name>", "a display name", readDisplayName)
    .option("--double-opt-in", "new contacts must confirm by e-mail (double opt-in)")
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "create"));
  return command;
}
