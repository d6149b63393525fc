/** `postrider caps`, as it is typed. */
import { Command, InvalidArgumentError, Option } from "commander";
import { CAP_MIN, OVERRIDE_MAX } from "../../rules/plans.ts";
import { readTime } from "../time.ts";
import { readAuthor, readReason } from "./authored.ts";
import { evidenceCommand } from "./capsevidence.ts";
import { policyCommand } from "./capspolicy.ts";
import { compareCommand, replayCommand } from "./capsreplay.ts";
import { tablesCommand } from "./capstables.ts";
import { whyCommand } from "./capswhy.ts";
import { reads, runsWithStores } from "./runs.ts";
import { simulateCommand } from "./simulate.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../caps.ts");

const FORECAST_DAYS_MAX = 365;
const FITTED_DAYS = 90;

export function capsCommand(): Command {
  const command = new Command("caps").description(
    "sending caps of a workspace: show, set, forecast, simulate",
  );
  command
    .command("show")
    .alias("status")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--json", "print JSON")
    .description("show the caps, how much of them is used, and how many e-mails wait")
    .action(runsWithStores(actions, "show"));
  command
    .command("set")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--minimum <n>", "least daily cap that the policy may set, in recipients", readCap)
    .option("--maximum <n>", "highest daily cap that the policy may set, in recipients", readCap)
    .option("--fixed <n>", "daily cap that replaces the policy, in recipients", readCap)
    .option("--fixed-hour <n>", "hourly cap that replaces the policy, in recipients", readCap)
    .option("--until <time>", "when the override ends: an RFC 3339 time, 12h or 7d; default: never")
    .addOption(
      new Option("--clear", "remove the override").conflicts([
        "minimum",
        "maximum",
        "fixed",
        "fixedHour",
        "until",
      ]),
    )
    .requiredOption("--reason <text>", "why, for the history", readReason)
    .requiredOption("--by <name>", "who, for the history", readAuthor)
    .option("--json", "print JSON")
    .description("override the policy by hand")
    .action(runsWithStores(actions, "set"));
  command
    .command("history")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--from <time>", "changes from this time on: an RFC 3339 time or a day", readTime)
    .option("--to <time>", "changes before this time", readTime)
    .option("--json", "print JSON")
    .description("list every change with its reason and the numbers that decided, newest first")
    .action(runsWithStores(actions, "history"));
  command
    .command("forecast")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--days <n>", "how many days ahead", readDays, 14)
    .option(
      "--policy <file>",
      "a policy file to use instead of the policy in force",
      reads(actions, "readPolicyFile"),
    )
    .option("--json", "print JSON")
    .description("show the caps of the coming days, if traffic stays as in the last week")
    .action(runsWithStores(actions, "showForecast"));
  command
    .command("fit")
    .option("--days <n>", "how many days of history", readDays, FITTED_DAYS)
    .option("--json", "print JSON: a file for `caps simulate --receivers`, and priors for a policy")
    .description("fit the priors and the receivers of the simulator to the counts of all workspaces")
    .action(runsWithStores(actions, "showFit"));
  return command
    .addCommand(policyCommand())
    .addCommand(whyCommand())
    .addCommand(evidenceCommand())
    .addCommand(replayCommand())
    .addCommand(compareCommand())
    .addCommand(simulateCommand())
    .addCommand(tablesCommand());
}

function readCap(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < CAP_MIN || value > OVERRIDE_MAX)
    throw new InvalidArgumentError(`It must be a whole number from ${CAP_MIN} to ${OVERRIDE_MAX}.`);
  return value;
}

function readDays(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1 || value > FORECAST_DAYS_MAX)
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${FORECAST_DAYS_MAX}.`);
  return value;
}
