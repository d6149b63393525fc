/** `postrider backup` and `postrider restore`, as they are typed. */
import { Command } from "commander";
import { runs } from "./runs.ts";

const actions = () => import("../backup.ts");

export function backupCommand(): Command {
  return new Command("backup")
    .argument(
      "<file>",
      "where to, such as postrider.backup.gz; it is replaced when the backup is complete; - is stdout",
    )
    .description("write all rows of the database, as of one moment, to a file")
    .option("--json", "print JSON")
    .action(runs(actions, "writeBackup"));
}

export function restoreCommand(): Command {
  return new Command("restore")
    .argument("<file>", "what `postrider backup` wrote; - is stdin")
    .description("fill an empty database from a file; Redis has to be empty too")
    .option("--json", "print JSON")
    .action(runs(actions, "restoreBackup"));
}
