/** `postrider serve`: some roles in this process. */
import { Command, InvalidArgumentError } from "commander";
import { runRoles } from "../run.ts";
import type { Role } from "../serve.ts";
import { complain } from "./print.ts";

/** Every role of the design; those that have nothing to do yet are accepted and say so. */
const ROLES: readonly Role[] = ["api", "deliver", "automate", "inbound", "keeper", "console"];
const AT_WORK: ReadonlySet<Role> = new Set(["api", "deliver", "automate", "inbound", "keeper"]);

export function serveCommand(): Command {
  return new Command("serve")
    .description("serve roles in this process")
    .option("--role <roles>", `${ROLES.join(", ")}, with commas between; all without it`, readRoles, [
      ...ROLES,
    ])
    .action(async ({ role: roles }: { role: Role[] }) => {
      const idle = roles.filter((role) => !AT_WORK.has(role));
      if (idle.length > 0) complain(`Nothing to do yet for ${idle.join(", ")}.`);
      const status = await runRoles(roles.filter((role) => AT_WORK.has(role)));
      if (status !== null) process.exit(status);
    });
}

function readRoles(text: string): Role[] {
  return text.split(",").map((one) => {
    const role = ROLES.find((known) => known === one.trim());
    if (!role) throw new InvalidArgumentError(`${one} is none of ${ROLES.join(", ")}.`);
    return role;
  });
}
