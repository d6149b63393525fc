/** `postrider serve`: some roles in this process. */
import { Command, InvalidArgumentError, Option } from "commander";
import { PROCESSES_MAX, runProcesses } from "../process/many.ts";
import { runRoles } from "../process/run.ts";
import { ROLES, type Role } from "../rules/roles.ts";

/** They listen on ports of their own. */
const ALONE: readonly Role[] = ["inbound", "submission", "console"];

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
    .action(async ({ role: roles, processes }: { role: Role[]; processes: number }, command: Command) => {
      const alone = processes > 1 ? roles.find((role) => ALONE.includes(role)) : undefined;
      if (alone !== undefined)
        command.error(`The role ${alone} listens on a port that processes cannot share: run it once.`);
      const status = processes === 1 ? await runRoles(roles) : await runProcesses(roles, processes);
      if (status !== null) process.exit(status);
    });
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
    if (!role) throw new InvalidArgumentError(`${one} is not a role. The roles are ${ROLES.join(", ")}.`);
    return role;
  });
}
