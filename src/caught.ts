/**
 * What is caught may be anything. What it says is read here, so that nobody takes it for an Error unasked.
 */

/** Its message; where that is empty, as of several failures in one, its code. */
export function messageOf(error: unknown): string {
  return textOf(error, "message") || codeOf(error) || String(error);
}

/** Of Postgres (`23505`) or of the system (`ENOENT`). */
export function codeOf(error: unknown): string | undefined {
  return textOf(error, "code");
}

/** Of the system: in what it failed (`listen`, `open`). */
export function syscallOf(error: unknown): string | undefined {
  return textOf(error, "syscall");
}

function textOf(error: unknown, field: string): string | undefined {
  if (typeof error !== "object" || error === null || !(field in error)) return undefined;
  const value: unknown = Reflect.get(error, field);
  return typeof value === "string" ? value : undefined;
}
