/** `postrider send-test`, as it is typed. */
import { Command } from "commander";
import { runs } from "./runs.ts";
import { readId, readMailbox } from "./workspace.ts";

const actions = () => import("../sendtest.ts");

export function sendTestCommand(): Command {
  return new Command("send-test")
    .description(
      "send one e-mail over the usual route and print the SMTP conversation; nothing is stored or counted",
    )
    .requiredOption("--to <address>", "the recipient", readMailbox)
    .option("--from <address>", "the sender; default: MAIL_FROM", readMailbox)
    .option("--workspace <id>", "sign with the DKIM keys of this workspace", readId)
    .option("--json", "print JSON")
    .action(runs(actions, "sendTest"));
}
