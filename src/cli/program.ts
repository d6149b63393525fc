/** The commands as one program, with a version, an example each, and a way on after a mistake. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { EXAMPLES } from "./examples.ts";

/**
 * What can be typed. One is loaded when it is named; all of them, for help and for what is misspelt, take 50
 * ms of CPU.
 */
const COMMANDS: Record<string, () => Promise<Command>> = {
  serve: async () => (await import("./commands/serve.ts")).serveCommand(),
  migrate: async () => (await import("./commands/migrate.ts")).migrateCommand(),
  backup: async () => (await import("./commands/backup.ts")).backupCommand(),
  restore: async () => (await import("./commands/backup.ts")).restoreCommand(),
  doctor: async () => (await import("./commands/doctor.ts")).doctorCommand(),
  workspace: async () => (await import("./commands/workspace.ts")).workspaceCommand(),
  account: async () => (await import("./commands/account.ts")).accountCommand(),
  key: async () => (await import("./commands/key.ts")).keyCommand(),
  domain: async () => (await import("./commands/domain.ts")).domainCommand(),
  audience: async () => (await import("./commands/audience.ts")).audienceCommand(),
  automation: async () => (await import("./commands/automation.ts")).automationCommand(),
  contact: async () => (await import("./commands/contact.ts")).contactCommand(),
  usage: async () => (await import("./commands/usage.ts")).usageCommand(),
  caps: async () => (await import("./commands/caps.ts")).capsCommand(),
  queue: async () => (await import("./commands/queue.ts")).queueCommand(),
  email: async () => (await import("./commands/email.ts")).emailCommand(),
  stream: async () => (await import("./commands/stream.ts")).streamCommand(),
  suppression: async () => (await import("./commands/suppression.ts")).suppressionCommand(),
  webhook: async () => (await import("./commands/webhook.ts")).webhookCommand(),
  "send-test": async () => (await import("./commands/sendtest.ts")).sendTestCommand(),
};

/** With all commands, or with the one that the first word names. */
export async function makeProgram(word = ""): Promise<Command> {
  const only = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined;
  const program = new Command("postrider")
    .description("Postrider sends transactional e-mail at high rate.")
    .version(packageVersion(), "-V, --version", "the version of Postrider")
    // an option of a command may have the name of one of ours: `caps policy show --version 2`
    .enablePositionalOptions()
    .option("--cell <name>", "work with this cell of CELLS_FILE instead of home; stands before the command")
    .hook("preAction", async (program) => {
      const { cell } = program.opts<{ cell?: string }>();
      if (cell !== undefined) (await import("./context.ts")).chooseCell(cell);
    })
    .helpCommand(false);
  for (const make of only === undefined ? Object.values(COMMANDS) : [only]) program.addCommand(await make());
  program.addCommand(helpCommand(program));
  for (const command of everyCommand(program)) {
    const path = pathOf(command);
    const example = EXAMPLES[path];
    if (example !== undefined)
      command.addHelpText("after", `\nExample:\n  postrider ${path} ${example}`.trimEnd());
    const help = `postrider help ${path}`.trimEnd();
    command.configureOutput({
      outputError: (text, write) => write(`${oneSentence(inOurWords(text))} See \`${help}\`.\n`),
    });
    command.exitOverride();
    nameUnknownOptionFirst(command);
    for (const option of command.options) {
      if (typeof option.defaultValue === "object") option.defaultValueDescription ??= "none";
      if (option.mandatory) option.description += " (required)";
    }
  }
  return program;
}

/**
 * Before Commander looks for required options: of `--workspce ID` it would say only that `--workspace` is
 * missing.
 */
function nameUnknownOptionFirst(command: Command & { unknownOption?(flag: string): void }): void {
  if (command.commands.length > 0) return;
  const parse = command.parseOptions.bind(command);
  command.parseOptions = (args) => {
    const parsed = parse(args);
    const [first] = parsed.unknown;
    if (first !== undefined && !parsed.unknown.some(asksForHelp)) command.unknownOption?.(first);
    return parsed;
  };
}

function asksForHelp(word: string): boolean {
  return word === "-h" || word === "--help";
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

/** Commander calls a value a command-argument value, or an argument of an option. */
function inOurWords(text: string): string {
  return text
    .replace(
      /^error: command-argument value '([\s\S]*?)' is invalid for argument '([^']+)'\./,
      "error: '$1' is invalid for <$2>.",
    )
    .replace(/^error: option '([^']+)' argument '([\s\S]*?)' is invalid\./, "error: '$2' is invalid for $1.");
}

function oneSentence(text: string): string {
  const line = text.trim().replaceAll("\n", " ");
  return /[.?)]$/.test(line) ? line : `${line}.`;
}

function packageVersion(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}
