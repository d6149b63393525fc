/** `postrider caps policy`, as it is typed. */
import { userInfo } from "node:os";
import { Command, Option } from "commander";
import { readAuthor, readReason } from "./authored.ts";
import { reads, runsWithStores } from "./runs.ts";
import { readCount } from "./simulate.ts";

const actions = () => import("../capspolicy.ts");

const VERSION_MAX = 1_000_000_000;
const readVersion = readCount(0, VERSION_MAX);

export function policyCommand(): Command {
  const command = new Command("policy").description("the policy in force: show, compare, change, take back");
  authored(command.command("apply"))
    .argument("<file>", "the policy file", reads(actions, "readFile"))
    .description("put a policy file in force, for every process and command")
    .action(runsWithStores(actions, "apply"));
  command
    .command("show")
    .option("--version <n>", "a version other than the one in force; 0: the built-in policy", readVersion)
    .option("--json", "print JSON")
    .description("show the policy in force, and the versions before it with their authors")
    .action(runsWithStores(actions, "show"));
  command
    .command("diff")
    .argument("<file>", "the policy file", reads(actions, "readFile"))
    .option("--json", "print JSON")
    .description("show what a policy file decides differently from the policy in force")
    .action(runsWithStores(actions, "diff"));
  command
    .command("shadow")
    .argument("<file|off>", "a policy file, or `off`", reads(actions, "readShadow"))
    .addOption(authorOption())
    .option("--json", "print JSON")
    .description("judge a policy beside the one in force, without effect: see `caps compare`")
    .action(runsWithStores(actions, "shadow"));
  authored(command.command("rollback"))
    .argument("<version>", "the version; 0: the built-in policy", readVersion)
    .description("put an earlier version in force again, as a new version")
    .action(runsWithStores(actions, "rollback"));
  return command;
}

function authored(command: Command): Command {
  return command
    .addOption(authorOption())
    .addOption(new Option("--reason <text>", "why, for the record").argParser(readReason).default("", "none"))
    .option("--json", "print JSON");
}

function authorOption(): Option {
  return new Option("--by <name>", "who, for the record")
    .argParser(readAuthor)
    .default(shellUser(), "the user of this shell");
}

function shellUser(): string {
  try {
    return userInfo().username;
  } catch {
    return "operator"; // a container may run under an id without a name
  }
}
