/** `postrider contact show | import | export`, as it is typed. */
import { Command, InvalidArgumentError } from "commander";
import { identity, parseMailbox } from "../../address.ts";
import { isUuid } from "../../ids.ts";
import { runsWithStores } from "./runs.ts";
import { readId } from "./workspace.ts";

const actions = () => import("../contact.ts");

export function contactCommand(): Command {
  const command = new Command("contact").description("show, import and export contacts");
  command
    .command("show")
    .argument("<email_or_id>", "an address or the id of a contact", readWho)
    .requiredOption("--audience <id>", "the audience", readId)
    .option("--json", "print JSON")
    .description("show a contact and the history of its consent")
    .action(runsWithStores(actions, "show"));
  command
    .command("import")
    .argument("<file>", "a CSV file; its first line names the columns, one of them `email`")
    .requiredOption("--audience <id>", "the audience", readId)
    .option("--consent <source>", "where they gave consent; replaces the confirmation of a double opt-in")
    .option("--skipped <file>", "where invalid rows are written; default: FILE.skipped.csv")
    .option("--restart", "start over, even if an earlier import of this file was interrupted")
    .description("add and update contacts from a file; continues an interrupted import")
    .action(runsWithStores(actions, "importFile", { isLong: true }));
  command
    .command("export")
    .argument("[file]", "the file to write; default: standard output")
    .requiredOption("--audience <id>", "the audience", readId)
    .option("--excel-safe", "put an apostrophe before cells that a spreadsheet would run as formulas")
    .description("write all contacts that are not archived as CSV")
    .action(runsWithStores(actions, "exportFile", { isLong: true }));
  return command;
}

function readWho(text: string): { identity: string } | { id: string } {
  if (isUuid(text)) return { id: text.toLowerCase() };
  const mailbox = parseMailbox(text);
  if (!mailbox) throw new InvalidArgumentError("It must be an address or the id of a contact.");
  return { identity: identity(mailbox.address) };
}
