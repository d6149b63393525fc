/** Times as people write them on the command line: RFC 3339 with an offset, or a day in UTC. */
import { InvalidArgumentError } from "commander";
import { parseInstant } from "../api/time.ts";

/** Without an offset a time would mean another moment on each machine. */
export function readTime(text: string): Date {
  const at = instantOf(text);
  if (at === null)
    throw new InvalidArgumentError(
      "It must be a time with an offset, such as 2026-11-20T20:07:38Z, or a day such as 2026-11-20.",
    );
  return new Date(at);
}

export function instantOf(text: string): number | null {
  return parseInstant(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text);
}
