/**
 * How commands speak: a table for people, JSON for programs, one line for what went wrong. All that they
 * print goes through here. Stored text may hold anything, and a terminal obeys some of it: control
 * characters, and those that turn text around, are shown as U+FFFD. Line breaks stay, as the commands write
 * them.
 */
const OBEYED = /(?!\n)[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]/gu;
const SHOWN = "\ufffd";

export function print(text: string): void {
  process.stdout.write(`${harmless(text)}\n`);
}

/** JSON of the same value: what JSON leaves as it is, written as an escape. */
export function printJson(value: unknown): void {
  const escaped = JSON.stringify(value, null, 2).replace(
    OBEYED,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  process.stdout.write(`${escaped}\n`);
}

export function complain(text: string): void {
  process.stderr.write(`${harmless(text)}\n`);
}

/** For data that goes to a terminal as it is. */
export function harmless(text: string): string {
  return text.replace(OBEYED, SHOWN);
}

/** On one line: no stored text looks like another row. */
export function oneLine(text: string): string {
  return harmless(text.replace(/\r\n|[\n\r]/g, SHOWN));
}

/** Said in one line, with exit status 1. */
export class CommandError extends Error {}

/** Options that are missing, or that do not go together: exit status 2, as when Commander refuses them. */
export class UsageError extends CommandError {}

export function unknownWorkspace(id: string): CommandError {
  return new CommandError(`There is no workspace ${id}. \`postrider workspace list\` lists them.`);
}

export type OutputOptions = { json?: boolean };

/** `text` is what people see; programs get `value`. */
export function say({ json }: OutputOptions, value: unknown, text: string): void {
  if (json) printJson(value);
  else print(text);
}

export function table(rows: readonly (readonly unknown[])[], head: readonly string[]): string {
  if (rows.length === 0) return "None.";
  const cells = [head, ...rows].map((row) =>
    row.map((cell) => (cell === null || cell === undefined ? "-" : oneLine(String(cell)))),
  );
  const widths = head.map((_, n) => Math.max(...cells.map((row) => row[n]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((cell, n) => cell.padEnd(widths[n] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

export function time(date: Date | null): string | null {
  return date === null ? null : date.toISOString();
}
