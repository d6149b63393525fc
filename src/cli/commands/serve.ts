/** `postrider serve`, as it is typed. */
import { Command, InvalidArgumentError, Option } from "commander";
import { PROCESSES_MAX, ROLES, type Role } from "../../rules/roles.ts";
import { runs } from "./runs.ts";

const actions = () => import("../serve.ts");

export function serveCommand(): Command {
  return new Command("serve")
    .description("run the engine, or some of its roles, in this process")
    .addOption(
      new Option("--role <roles>", `comma-separated: ${ROLES.join(", ")}`)
        .argParser(readRoles)
        .default([...ROLES], "all of them"),
    )
    .option(
      "--processes <n>",
      "how many processes with these roles; api processes share one port",
      readCount,
      1,
    )
    .action(runs(actions, "serveRoles"));
}

function readCount(text: string): number {
  const count = Number(text);
  if (!Number.isInteger(count) || count < 1 || count > PROCESSES_MAX)
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${PROCESSES_MAX}.`);
  return count;
}

function readRoles(text: string): Role[] {
  return text.split(",").map((one) => {
    const role = ROLES.find((known) => known === one.trim());
    if (!role) throw new InvalidArgumentError(`'${one}' is not a role. The roles are ${ROLES.join(", ")}.`);
    return role;
  });
}
