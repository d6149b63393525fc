/**
 * From a compiled version and what was given for its variables to the letter. Rendering runs on the thread that answers
 * everybody, so all of a request shares one budget of time and output; a caller that renders many letters gives way to
 * others between two of them.
 */
import { Context, type Template, toValueSync } from "liquidjs";
import type { Compiled, CompiledPart } from "./compile.ts";
import { TemplateFault } from "./fault.ts";
import { NOW } from "./language.ts";
import { faultOf } from "./parse.ts";
import { WORK_UNITS_MAX } from "./price.ts";

const REQUEST_RENDER_MS_MAX = 100;
const REQUEST_OUTPUT_BYTES_MAX = 4 * 1024 * 1024;

/** What the templates of one request, or of one step of a run, may take: to compile what is not at hand, and to render. */
export class RenderBudget {
  /** The time that `now` stands for in a template. */
  readonly now: number;
  #msLeft = REQUEST_RENDER_MS_MAX;
  #bytesLeft = REQUEST_OUTPUT_BYTES_MAX;

  constructor(now: number) {
    this.now = now;
  }

  get msLeft(): number {
    return this.#msLeft;
  }

  takeTime(ms: number): void {
    this.#msLeft = Math.max(0, this.#msLeft - ms);
  }

  takeOutput(bytes: number): void {
    if (bytes > this.#bytesLeft)
      throw new Error(`the templates of a request may write ${REQUEST_OUTPUT_BYTES_MAX} bytes at most`);
    this.#bytesLeft -= bytes;
  }
}

export type Letter = {
  /** null: the template has none, and the request must. */
  subject: string | null;
  html: string;
  /** null: derived from the html when sent. */
  text: string | null;
  from: string | null;
  replyTo: string[];
};

/** Throws a TemplateFault when a variable is missing, the budget is used up, or the template fails. */
export function renderLetter(
  version: Compiled,
  variables: Record<string, unknown>,
  budget: RenderBudget,
): Letter {
  const given = { ...version.fallbacks, ...withoutNulls(variables) };
  return {
    subject: version.subject && renderPart(version.subject, given, budget),
    html: renderPart(version.html, given, budget),
    text: version.text && renderPart(version.text, given, budget),
    from: version.from,
    replyTo: version.replyTo,
  };
}

function renderPart(
  { part, dialect, templates }: CompiledPart,
  given: Record<string, unknown>,
  budget: RenderBudget,
): string {
  if (budget.msLeft === 0) throw outOfTime(part);
  const began = performance.now();
  const { liquid } = dialect;
  const context = new Context(
    // a copy, which the template may change, and without a prototype, whose names nobody gave
    Object.assign(Object.create(null), given),
    liquid.options,
    { sync: true, renderLimit: budget.msLeft, memoryLimit: WORK_UNITS_MAX },
    { liquid },
  );
  context.setRegister(NOW, budget.now);
  const output = new Output(budget);
  try {
    toValueSync(liquid.renderer.renderTemplates(templates as Template[], context, output));
    return storable(output.buffer);
  } catch (error) {
    if (performance.now() - began >= budget.msLeft) throw outOfTime(part);
    throw faultOf(error, part);
  } finally {
    budget.takeTime(performance.now() - began);
  }
}

/** Half a character, which filters can leave, becomes U+FFFD; the record cannot keep U+0000. */
function storable(text: string): string {
  if (text.includes("\0")) throw new Error("text must not contain U+0000");
  return text.isWellFormed() ? text : text.toWellFormed();
}

export function outOfTime(part?: CompiledPart["part"]): TemplateFault {
  return new TemplateFault(
    `the templates of a request may take ${REQUEST_RENDER_MS_MAX} ms at most`,
    part && { part },
  );
}

class Output {
  readonly #budget: RenderBudget;
  buffer = "";

  constructor(budget: RenderBudget) {
    this.#budget = budget;
  }

  /** Values come as text; only the markup that tags write themselves may be something else. */
  write(value: unknown): void {
    const text = typeof value === "string" ? value : String(value ?? "");
    this.#budget.takeOutput(Buffer.byteLength(text));
    this.buffer += text;
  }
}

function withoutNulls(variables: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== null));
}
