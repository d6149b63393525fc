/** `postrider account`, as it is typed. */
import { Command } from "commander";
import { runsWithStores } from "./runs.ts";
import { readSwitch } from "./workspace.ts";

const actions = () => import("../account.ts");

export function accountCommand(): Command {
  const command = new Command("account").description("people who sign in to the console");
  command
    .command("set")
    .description("make somebody an operator, who sees what concerns the whole installation, or take it back")
    .argument("<email>", "the address of the account")
    .requiredOption("--operator <on|off>", "whether they are an operator", readSwitch)
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "set"));
  command
    .command("password")
    .description("make a new password, end all sessions, and switch the second factor off")
    .argument("<email>", "the address of the account")
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "password"));
  return command;
}
