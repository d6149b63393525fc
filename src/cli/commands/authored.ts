/** Who says so, why, and what something is called: what a command writes into a record that others read. */
import { InvalidArgumentError } from "commander";
import { hasMoreChars } from "../../chars.ts";

const AUTHOR_CHARS_MAX = 100;
const REASON_CHARS_MAX = 300;
const NAME_CHARS_MAX = 200;

export function readAuthor(text: string): string {
  return readLine(text, AUTHOR_CHARS_MAX);
}

export function readReason(text: string): string {
  return readLine(text, REASON_CHARS_MAX);
}

export function readDisplayName(text: string): string {
  return readLine(text, NAME_CHARS_MAX);
}

function readLine(text: string, charsMax: number): string {
  const line = text.trim();
  if (line === "" || hasMoreChars(line, charsMax) || /\p{Cc}/u.test(line))
    throw new InvalidArgumentError(`It must have 1 to ${charsMax} characters, on one line.`);
  return line;
}
