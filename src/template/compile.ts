/**
 * A version of a template, parsed once for the many e-mails written from it: its three parts, and the variables they
 * ask for. Throws a TemplateFault that names line and column.
 */
import { analyzeSync, type Template, Variable } from "liquidjs";
import type { Part } from "./fault.ts";
import { type Dialect, html, plain } from "./language.ts";
import { type Parsed, parsePart } from "./parse.ts";

export type Source = {
  subject: string | null;
  html: string;
  /** null: derived from the html when sent. */
  text: string | null;
  from: string | null;
  replyTo: string[];
  /** For variables that are not given, whatever the template says beside them. */
  fallbacks: Record<string, string | number>;
};

export type CompiledPart = { part: Part; dialect: Dialect; templates: Template[] };

export type Compiled = {
  subject: CompiledPart | null;
  html: CompiledPart;
  text: CompiledPart | null;
  from: string | null;
  replyTo: string[];
  fallbacks: Record<string, string | number>;
  variables: VariableUse[];
};

/** A variable as a template uses it. */
export type VariableUse = {
  key: string;
  type: "string" | "number" | "list" | "object";
  fallback_value: string | number | null;
};

export function compile(source: Source): Compiled {
  const variables = new Map<string, VariableUse>();
  const part = (part: Part, text: string, dialect: Dialect): CompiledPart => {
    const parsed = parsePart(part, text, dialect);
    for (const use of usesOf(parsed)) {
      const known = variables.get(use.key);
      if (!known) variables.set(use.key, use);
      else if (known.type === "string") known.type = use.type;
    }
    return { part, dialect, templates: parsed.templates };
  };
  const { subject, text, from, replyTo, fallbacks } = source;
  return {
    subject: subject === null ? null : part("subject", subject, plain),
    html: part("html", source.html, html),
    text: text === null ? null : part("text", text, plain),
    from,
    replyTo,
    fallbacks,
    variables: [...variables.values()],
  };
}

function usesOf({ templates, lists, fallbacks }: Parsed): VariableUse[] {
  const { globals } = analyzeSync(templates, { partials: false });
  return Object.entries(globals).map(([key, references]) => {
    const isObject = references.some(({ segments }) => segments.slice(1).some((one) => !isCount(one)));
    return {
      key,
      type: lists.has(key) ? "list" : isObject ? "object" : "string",
      fallback_value: fallbacks.get(key) ?? null,
    };
  });
}

/** What texts and lists have, too. */
function isCount(segment: string | number | Variable): boolean {
  return segment instanceof Variable || ["size", "first", "last"].includes(String(segment));
}
