#!/usr/bin/env node
/**
 * The `postrider` command. One line on stderr and exit status 1 for bad input, 2 for bad usage, 78 for bad settings.
 */
import { Command, CommanderError } from "commander";
import { CONFIG_EXIT, ConfigError } from "../config.ts";
import { audienceCommand } from "./audience.ts";
import { automationCommand } from "./automation.ts";
import { capsCommand } from "./caps.ts";
import { contactCommand } from "./contact.ts";
import { doctorCommand } from "./doctor.ts";
import { domainCommand } from "./domain.ts";
import { emailCommand } from "./email.ts";
import { keyCommand } from "./key.ts";
import { migrateCommand } from "./migrate.ts";
import { complain } from "./print.ts";
import { queueCommand } from "./queue.ts";
import { serveCommand } from "./serve.ts";
import { suppressionCommand } from "./suppression.ts";
import { usageCommand } from "./usage.ts";
import { workspaceCommand } from "./workspace.ts";

const USAGE_EXIT = 2;

const program = new Command("postrider").description("Postrider sends transactional e-mail at high rate.");
for (const make of [
  serveCommand,
  migrateCommand,
  doctorCommand,
  workspaceCommand,
  keyCommand,
  domainCommand,
  audienceCommand,
  automationCommand,
  contactCommand,
  usageCommand,
  capsCommand,
  queueCommand,
  emailCommand,
  suppressionCommand,
])
  program.addCommand(make());

for (const command of everyCommand(program)) command.exitOverride();

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = statusOf(error);
}

function statusOf(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    return error.code === "commander.invalidArgument" ? 1 : USAGE_EXIT;
  }
  complain(
    error instanceof Error ? error.message || String((error as { code?: string }).code) : String(error),
  );
  return error instanceof ConfigError ? CONFIG_EXIT : 1;
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}
