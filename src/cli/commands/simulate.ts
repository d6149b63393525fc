/** `postrider caps simulate`, as it is typed. */
import { availableParallelism } from "node:os";
import { Command, InvalidArgumentError, Option } from "commander";
import { DAYS_MAX, scenarioNames } from "../../capacity/scenarios.ts";
import { reads, runs } from "./runs.ts";

const actions = () => import("../simulate.ts");

const RUNS_MAX = 100_000;
const SEED_MAX = 2 ** 31;
const THREADS_MAX = 64;

export function simulateCommand(): Command {
  return new Command("simulate")
    .description("simulate a policy on workspaces of a scenario; needs no Postgres and no Redis")
    .requiredOption(
      "--scenario <name|file>",
      `a file, or one of ${scenarioNames().join(", ")}`,
      reads(actions, "readScenario"),
    )
    .option(
      "--policy <file|inforce>",
      "the policy file, or `inforce`; default: the built-in policy",
      reads(actions, "readPolicy"),
    )
    .option("--versus <file|inforce>", "a second policy to compare with", reads(actions, "readPolicy"))
    .option("--days <n>", "how many days; default: as in the scenario", readCount(1, DAYS_MAX))
    .option(
      "--seed <n>",
      "seed of the first workspace; the same seed gives the same numbers",
      readCount(0, SEED_MAX),
      1,
    )
    .option("--runs <n>", "how many workspaces, each with the next seed", readCount(1, RUNS_MAX), 1)
    .option(
      "--set <parameter=number>",
      "compare with the policy with one number changed, such as growth=1.6; may be repeated",
      reads(actions, "readChange"),
      [],
    )
    .option(
      "--sweep <parameter=from..to/points>",
      "run with several values of one number of the policy, or of receivers.NAME",
      reads(actions, "readSwept"),
    )
    .option(
      "--receivers <file>",
      "how receivers react, as `caps fit` writes it",
      reads(actions, "readReceivers"),
    )
    .option(
      "--assert <measure<number>",
      "exit with status 1 if this does not hold; may be repeated",
      reads(actions, "readAsserted"),
      [],
    )
    .option("--explain", "tell what happened to the first workspace, and why")
    .addOption(
      new Option("--threads <n>", "how many threads")
        .argParser(readCount(1, THREADS_MAX))
        .default(availableParallelism(), "as many as cores"),
    )
    .option("--json [file]", "write all results as JSON, to a file or to standard output")
    .option("--html <file>", "write a report with charts, as one HTML file")
    .action(runs(actions, "run"));
}

export function readCount(min: number, max: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (!/^\d+$/.test(text) || count < min || count > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return count;
  };
}
