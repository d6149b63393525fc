/** `postrider usage`, as it is typed. */
import { Command } from "commander";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../usage.ts");

export function usageCommand(): Command {
  return new Command("usage")
    .description("show how much of its quota and caps a workspace has used")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "usage"));
}
