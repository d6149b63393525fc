/** `postrider caps tables`, as it is typed. */
import { Command } from "commander";
import { reads, runs } from "./runs.ts";
import { readCount } from "./simulate.ts";

const actions = () => import("../capstables.ts");

const RUNS_MAX = 100_000;

export function tablesCommand(): Command {
  return new Command("tables")
    .description("harm to healthy senders and bad mail before the first step; needs no Postgres and no Redis")
    .option(
      "--policy <file|inforce>",
      "the policy file, or `inforce`; default: the built-in policy",
      reads(() => import("../simulate.ts"), "readPolicy"),
    )
    .option("--runs <n>", "how many senders at each volume and rate", readCount(10, RUNS_MAX), 200)
    .option("--json", "print JSON")
    .action(runs(actions, "tables"));
}
