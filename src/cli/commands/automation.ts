/** `postrider automation`, as it is typed. */
import { Command } from "commander";
import { RUNS_SHOWN } from "./limits.ts";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../automation.ts");

export function automationCommand(): Command {
  const command = new Command("automation").description("automations of a workspace and their runs");
  const add = (usage: string, description: string, action: ReturnType<typeof runsWithStores>): Command =>
    command
      .command(usage)
      .description(description)
      .requiredOption("--workspace <id>", "the workspace", readId)
      .option("--json", "print JSON")
      .action(action);
  add(
    "apply <file>",
    "create an automation from a file, or its next version",
    runsWithStores(actions, "applyFile"),
  );
  add("list", "list the automations of a workspace", runsWithStores(actions, "list"));
  add(
    "show <automation>",
    "show an automation (id or name): its document, runs and step counts",
    runsWithStores(actions, "show"),
  );
  add("pause <automation>", "start no new runs; active runs continue", runsWithStores(actions, "pause"));
  add("resume <automation>", "start new runs again", runsWithStores(actions, "resume"));
  add(
    "runs <automation>",
    `list its runs, newest first, ${RUNS_SHOWN} at a time`,
    runsWithStores(actions, "listRunsOf"),
  )
    .option("--state <state>", "only runs in this state: active, finished or stopped")
    .option("--after <run>", "only runs older than this one", readId);
  add("run <run>", "show one run: what each step did and when", runsWithStores(actions, "showRun"));
  add(
    "stop <automation>",
    "pause an automation and end its runs, or end one run",
    runsWithStores(actions, "stop"),
  ).option("--run <id>", "end only this run, and do not pause", readId);
  return command;
}
