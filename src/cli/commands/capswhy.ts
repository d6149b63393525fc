/** `postrider caps why`, as it is typed. */
import { Command } from "commander";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../capswhy.ts");

export function whyCommand(): Command {
  return new Command("why")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--json", "print JSON")
    .description("say what the cap is, why, what would change it and when")
    .action(runsWithStores(actions, "why"));
}
