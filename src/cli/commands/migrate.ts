/** `postrider migrate`, as it is typed. */
import { Command } from "commander";
import { runs } from "./runs.ts";

const actions = () => import("../migrate.ts");

export function migrateCommand(): Command {
  return new Command("migrate")
    .description("apply missing migrations to the database")
    .option("--json", "print JSON")
    .action(runs(actions, "migrateRecord"));
}
