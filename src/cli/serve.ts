/** `postrider serve`: some roles in this process. */
import { Command, InvalidArgumentError } from "commander";
import { runRoles } from "../process/run.ts";
import { ROLES, type Role } from "../rules/roles.ts";

export function serveCommand(): Command {
  return new Command("serve")
    .description("run the engine, or some of its roles, in this process")
    .option("--role <roles>", `comma-separated: ${ROLES.join(", ")}; default: all of them`, readRoles, [
      ...ROLES,
    ])
    .action(async ({ role: roles }: { role: Role[] }) => {
      const status = await runRoles(roles);
      if (status !== null) process.exit(status);
    });
}

function readRoles(text: string): Role[] {
  return text.split(",").map((one) => {
    const role = ROLES.find((known) => known === one.trim());
    if (!role) throw new InvalidArgumentError(`${one} is not a role. The roles are ${ROLES.join(", ")}.`);
    return role;
  });
}
