#!/usr/bin/env node
/** The `postrider` command. */
import { Command } from "commander";
import { runRoles } from "../run.ts";
import type { Role } from "../serve.ts";

const program = new Command("postrider").description("Postrider, an engine that sends transactional e-mail");
program
  .command("serve")
  .description("serve some roles in this process")
  .requiredOption("--role <roles>", "api, deliver, keeper, with commas between")
  .action(async ({ role }: { role: string }) => {
    const status = await runRoles(role.split(",") as Role[]);
    if (status !== null) process.exit(status);
  });

await program.parseAsync();
