/**
 * What is wrong with a template, or with what it was given: part, line and column, in words for its author.
 */
export type TemplatePart = "subject" | "html" | "text";

export class TemplateFault extends Error {
  readonly part: TemplatePart | null;
  readonly line: number | null;
  readonly column: number | null;
  /** The variable that was not given and has no fallback. */
  readonly missing: string | null;

  constructor(
    reason: string,
    where: { part?: TemplatePart; line?: number; column?: number; missing?: string | null } = {},
  ) {
    super(reason);
    this.part = where.part ?? null;
    this.line = where.line ?? null;
    this.column = where.column ?? null;
    this.missing = where.missing ?? null;
  }

  /** Such as `html, line 3, column 7`. */
  get place(): string {
    return [this.part, this.line && `line ${this.line}`, this.column && `column ${this.column}`]
      .filter((word) => word)
      .join(", ");
  }
}
