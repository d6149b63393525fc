/**
 * What a command does is loaded when it runs. Help and the answer to a misspelt word need only the
 * definitions in this folder, so these import Commander and small readers, and no store, no schema and no
 * role.
 */
import { type Command, InvalidArgumentError } from "commander";
import type { Context } from "../context.ts";

type Load<Module> = () => Promise<Module>;
type NamesOf<Module, Kind> = {
  [Name in keyof Module]: Module[Name] extends Kind ? Name : never;
}[keyof Module];
/**
 * As Commander calls it: the arguments of the command, its options with those of the commands above it, the
 * command.
 */
type CommandAction = (...given: never[]) => unknown;
type CommandWithStores = (context: Context, ...given: never[]) => unknown;
type Reader = (text: string, before: never) => unknown;

/** For a command that opens what it needs itself. */
export function runs<Module>(load: Load<Module>, name: NamesOf<Module, CommandAction>) {
  return async (...given: unknown[]): Promise<void> => {
    const read = await argumentsOf(given);
    const act = (await load())[name] as (...given: unknown[]) => unknown;
    await act(...read);
  };
}

/**
 * For a command that works with Postgres and Redis; a workspace that it is about exists. `isLong`: it may
 * take longer than ten seconds.
 */
export function runsWithStores<Module>(
  load: Load<Module>,
  name: NamesOf<Module, CommandWithStores>,
  how: { isLong?: boolean } = {},
) {
  return async (...given: unknown[]): Promise<void> => {
    const read = await argumentsOf(given);
    const act = (await load())[name] as (context: Context, ...given: unknown[]) => Promise<void>;
    const { expectWorkspace, withContext } = await import("../context.ts");
    const { workspace } = read.at(-2) as { workspace?: string };
    await withContext(async (context) => {
      if (workspace !== undefined) await expectWorkspace(context, workspace);
      await act(context, ...read);
    }, how);
  };
}

/** The reader of an option or argument, when it needs more than a definition may import. */
export function reads<Module>(load: Load<Module>, name: NamesOf<Module, Reader>) {
  return (text: string, before: unknown): unknown => {
    const read = async () => (await load())[name] as (text: string, before: unknown) => unknown;
    return before instanceof Unread
      ? new Unread(before.first, [...before.texts, text], read)
      : new Unread(before, [text], read);
  };
}

/** What was given, until the command runs. */
class Unread {
  readonly first: unknown;
  readonly texts: readonly string[];
  readonly #load: Load<(text: string, before: unknown) => unknown>;

  constructor(
    first: unknown,
    texts: readonly string[],
    load: Load<(text: string, before: unknown) => unknown>,
  ) {
    this.first = first;
    this.texts = texts;
    this.#load = load;
  }

  async read(refuse: (text: string, error: InvalidArgumentError) => never): Promise<unknown> {
    const read = await this.#load();
    return this.texts.reduce((before, text) => {
      try {
        return read(text, before);
      } catch (error) {
        if (error instanceof InvalidArgumentError) return refuse(text, error);
        throw error;
      }
    }, this.first);
  }
}

/** What is wrong with them is said as of those that Commander reads itself. */
async function argumentsOf(given: readonly unknown[]): Promise<unknown[]> {
  const command = given.at(-1) as Command;
  const options: Record<string, unknown> = command.optsWithGlobals();
  const refuse = ({ exitCode, code, message }: InvalidArgumentError, what: string) =>
    command.error(`error: ${what} ${message}`, { exitCode, code });
  const read: unknown[] = [];
  for (const [n, argument] of command.registeredArguments.entries()) {
    const value = given[n];
    read.push(
      value instanceof Unread
        ? await value.read((text, error) => refuse(error, `'${text}' is invalid for <${argument.name()}>.`))
        : value,
    );
  }
  for (const option of command.options) {
    const name = option.attributeName();
    const value = options[name];
    if (value instanceof Unread)
      options[name] = await value.read((text, error) =>
        refuse(error, `'${text}' is invalid for ${option.flags}.`),
      );
  }
  return [...read, options, command];
}
