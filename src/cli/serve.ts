/** `postrider serve`: some roles in this process. */
import type { Command } from "commander";
import { runProcesses } from "../process/many.ts";
import { runRoles } from "../process/run.ts";
import type { Role } from "../rules/roles.ts";

/** They listen on ports of their own. */
const ALONE: readonly Role[] = ["inbound", "submission", "console"];

export async function serveRoles(
  { role: roles, processes }: { role: Role[]; processes: number },
  command: Command,
): Promise<void> {
  const alone = processes > 1 ? roles.find((role) => ALONE.includes(role)) : undefined;
  if (alone !== undefined)
    command.error(`The role ${alone} listens on a port that processes cannot share: run it once.`);
  const status = processes === 1 ? await runRoles(roles) : await runProcesses(roles, processes);
  if (status !== null) process.exit(status);
}
