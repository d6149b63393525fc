/**
 * A version of a template, parsed once for the many e-mails written from it: its three parts, and the
 * variables they ask for. Throws a TemplateFault that names line and column.
 */
import type { Template } from "liquidjs";
import type { TemplatePart } from "./fault.ts";
import { type Dialect, html, plain } from "./language.ts";
import { COMPILE_UNITS_MAX, Meter } from "./meter.ts";
import { parsePart } from "./parse.ts";
import { Variables, type VariableUse } from "./variables.ts";

export type Source = {
  subject: string | null;
  html: string;
  /** null: derived from the html when sent. */
  text: string | null;
  from: string | null;
  replyTo: string[];
  /** Their fallbacks stand in for variables that are not given. */
  declared: readonly { key: string; fallback_value: string | number | null }[];
};

export type CompiledPart = { part: TemplatePart; dialect: Dialect; templates: Template[] };

export type Compiled = {
  subject: CompiledPart | null;
  html: CompiledPart;
  text: CompiledPart | null;
  from: string | null;
  replyTo: string[];
  fallbacks: Record<string, string | number>;
  variables: VariableUse[];
  /** What compiling it cost. */
  units: number;
};

export function compile(source: Source): Compiled {
  const meter = new Meter(COMPILE_UNITS_MAX, "its expressions are too many and too long to be compiled");
  const variables = new Variables();
  const part = (part: TemplatePart, text: string, dialect: Dialect): CompiledPart => ({
    part,
    dialect,
    templates: parsePart(part, text, dialect, variables, meter),
  });
  const { subject, text, from, replyTo, declared } = source;
  const parts = {
    subject: subject === null ? null : part("subject", subject, plain),
    html: part("html", source.html, html),
    text: text === null ? null : part("text", text, plain),
  };
  return {
    ...parts,
    from,
    replyTo,
    fallbacks: fallbacksOf(declared),
    variables: variables.list(),
    units: meter.used,
  };
}

function fallbacksOf(declared: Source["declared"]): Record<string, string | number> {
  const fallbacks: Record<string, string | number> = Object.create(null);
  for (const { key, fallback_value: value } of declared) if (value !== null) fallbacks[key] = value;
  return fallbacks;
}
