/** `postrider email find`, as it is typed. */
import { Command } from "commander";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../email.ts");

export function emailCommand(): Command {
  const command = new Command("email").description("find e-mails of any workspace");
  command
    .command("find")
    .description(
      "find e-mails by Message-ID, id or recipient, or a workspace by the X-Postrider-Mark of its mail",
    )
    .argument("<what>", "a Message-ID, an id, the address of a recipient, or an X-Postrider-Mark")
    .option("--workspace <id>", "only in this workspace", readId)
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "find", { isLong: true }));
  return command;
}
