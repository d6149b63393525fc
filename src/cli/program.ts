/** The commands as one program, with a version, an example each, and a way on after a mistake. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { audienceCommand } from "./audience.ts";
import { automationCommand } from "./automation.ts";
import { capsCommand } from "./caps.ts";
import { contactCommand } from "./contact.ts";
import { doctorCommand } from "./doctor.ts";
import { domainCommand } from "./domain.ts";
import { emailCommand } from "./email.ts";
import { EXAMPLES } from "./examples.ts";
import { keyCommand } from "./key.ts";
import { migrateCommand } from "./migrate.ts";
import { queueCommand } from "./queue.ts";
import { sendTestCommand } from "./sendtest.ts";
import { serveCommand } from "./serve.ts";
import { suppressionCommand } from "./suppression.ts";
import { usageCommand } from "./usage.ts";
import { workspaceCommand } from "./workspace.ts";

export function makeProgram(): Command {
  const program = new Command("postrider")
    .description("Postrider sends transactional e-mail at high rate.")
    .version(packageVersion(), "-V, --version", "the version of Postrider")
    .helpCommand(false);
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
    sendTestCommand,
  ])
    program.addCommand(make());
  program.addCommand(helpCommand(program));
  for (const command of everyCommand(program)) {
    const path = pathOf(command);
    const example = EXAMPLES[path];
    if (example !== undefined)
      command.addHelpText("after", `\nExample:\n  postrider ${path} ${example}`.trimEnd());
    const help = `postrider help ${path}`.trimEnd();
    command.configureOutput({
      outputError: (text, write) => write(`${oneSentence(text)} See \`${help}\`.\n`),
    });
    command.exitOverride();
  }
  return program;
}

/** Commander's own looks no further than the first word. */
function helpCommand(program: Command): Command {
  return new Command("help")
    .argument("[command...]", "such as `workspace create`")
    .description("what a command does, its options and an example")
    .action(async (words: string[]) => {
      const [found, unknown] = follow(program, words);
      if (unknown === undefined || found.commands.length === 0) found.outputHelp();
      else await program.parseAsync(words, { from: "user" }); // which says what is like it
    });
}

/** As far as the words are commands, and the first that is none. */
function follow(program: Command, words: readonly string[]): [Command, string | undefined] {
  let at = program;
  for (const word of words) {
    const next = at.commands.find((command) => command.name() === word);
    if (!next) return [at, word];
    at = next;
  }
  return [at, undefined];
}

export function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

/** Without the name of the program: `workspace create`. */
export function pathOf(command: Command): string {
  const { parent } = command;
  return parent ? `${pathOf(parent)} ${command.name()}`.trimStart() : "";
}

function oneSentence(text: string): string {
  const line = text.trim().replaceAll("\n", " ");
  return /[.?)]$/.test(line) ? line : `${line}.`;
}

function packageVersion(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}
