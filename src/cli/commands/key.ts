/** `postrider key`, as it is typed. */
import { Command, InvalidArgumentError, Option } from "commander";
import { isPermission, PERMISSIONS, type Permission, PRESETS } from "../../admission/permissions.ts";
import { readDisplayName } from "./authored.ts";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../key.ts");

export function keyCommand(): Command {
  const command = new Command("key").description("create, list and revoke API keys");
  command
    .command("create")
    .description("create an API key and show it once")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .addOption(
      new Option("--permission <list>", `comma-separated: ${PERMISSIONS.join(", ")}`)
        .argParser(readPermissions)
        .conflicts("preset"),
    )
    .addOption(new Option("--preset <name>", "a set of permissions").choices(Object.keys(PRESETS)))
    .option("--audience <ids>", "limit the key to these audiences: ids, comma-separated", (text) =>
      text.split(",").map(readId),
    )
    .option("--name <name>", "a display name", readDisplayName)
    .option(
      "--stream <name>",
      "the stream of mail that names none: transactional (the default), bulk, or a stream of the workspace",
    )
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "create"));
  command
    .command("list")
    .description("list the keys of a workspace, with their last use")
    .requiredOption("--workspace <id>", "the workspace", readId)
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "list"));
  command
    .command("revoke")
    .description("revoke a key at once and for good")
    .argument("<id>", "the id of the key", readId)
    .option("--cancel-scheduled", "also cancel the scheduled e-mails that were sent with this key")
    .option("--json", "print JSON")
    .action(runsWithStores(actions, "revoke", { isLong: true }));
  return command;
}

function readPermissions(text: string): Permission[] {
  return text.split(",").map((one) => {
    const name = one.trim();
    if (!isPermission(name))
      throw new InvalidArgumentError(
        `${name} is not a permission. The permissions are ${PERMISSIONS.join(", ")}.`,
      );
    return name;
  });
}
