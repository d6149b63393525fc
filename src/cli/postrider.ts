#!/usr/bin/env node
import { CommanderError } from "commander";
/**
 * The `postrider` command. One line on stderr, and exit status 1 for bad input, 2 for bad usage, 69 for a
 * store that cannot be reached, 78 for bad settings.
 */
import { messageOf } from "../caught.ts";
import { CONFIG_EXIT, ConfigError } from "../config.ts";
import { StoreUnreachable, UNREACHABLE_EXIT } from "../process/unreachable.ts";
import { complain, UsageError } from "./print.ts";
import { makeProgram } from "./program.ts";

const USAGE_EXIT = 2;

for (const output of [process.stdout, process.stderr])
  output.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") return; // whoever listened has had enough
    complain(`The output cannot be written: ${error.message}.`);
    process.exit(1);
  });

try {
  const program = await makeProgram(process.argv[2]);
  await program.parseAsync();
} catch (error) {
  process.exitCode = statusOf(error);
}

function statusOf(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    return error.code === "commander.invalidArgument" ? 1 : USAGE_EXIT;
  }
  complain(messageOf(error));
  if (error instanceof StoreUnreachable) return UNREACHABLE_EXIT;
  if (error instanceof ConfigError) return CONFIG_EXIT;
  return error instanceof UsageError ? USAGE_EXIT : 1;
}
