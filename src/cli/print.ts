/**
 * All that commands print goes through here. Stored text may hold anything, and a terminal obeys some of it: control
 * characters, and those that turn text around, are shown as U+FFFD. Line breaks stay, as the commands write them.
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
