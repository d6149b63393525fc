/** `postrider doctor`, as it is typed. */
import { Command } from "commander";
import { runs } from "./runs.ts";

const actions = () => import("../doctor.ts");

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("check this machine, Postgres, Redis and the way mail leaves")
    .option("--json", "print JSON")
    .action(runs(actions, "doctor"));
}
