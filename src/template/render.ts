/**
 * From a compiled version and what was given for its variables to the e-mail. Rendering runs on the thread
 * that answers everybody, so others have their turn between two pieces of it, each e-mail may do so much work
 * and no more, and all of a request share one budget of work and output.
 */
import type { Template } from "liquidjs";
import { inTurns } from "../turn.ts";
import type { Compiled, CompiledPart } from "./compile.ts";
import { PaidContext } from "./context.ts";
import { NOW } from "./language.ts";
import { EMAIL_UNITS_MAX, Meter, REQUEST_UNITS_MAX } from "./meter.ts";
import { faultOf } from "./parse.ts";
import { inPieces } from "./pieces.ts";

/** Of each part, as of those that a caller writes without a template. */
const PART_BYTES_MAX = 2 * 1024 * 1024;
const REQUEST_OUTPUT_BYTES_MAX = 4 * 1024 * 1024;

export const TOO_MUCH_TOGETHER = "the templates of this request do too much work together";

/** What the templates of one request, or of one step of a run, may take. */
export class RenderBudget {
  /** The time that `now` stands for in a template. */
  readonly now: number;
  #unitsLeft: number;
  #bytesLeft = REQUEST_OUTPUT_BYTES_MAX;

  constructor(now: number, units: number = REQUEST_UNITS_MAX) {
    this.now = now;
    this.#unitsLeft = units;
  }

  /** For the next e-mail. */
  meter(): Meter {
    if (this.#unitsLeft < EMAIL_UNITS_MAX) return new Meter(this.#unitsLeft, TOO_MUCH_TOGETHER);
    return new Meter(
      EMAIL_UNITS_MAX,
      `an e-mail's template may do ${EMAIL_UNITS_MAX} units of work at most: shorten its loops, lists or texts`,
    );
  }

  get isSpent(): boolean {
    return this.#unitsLeft === 0;
  }

  takeWork(units: number): void {
    this.#unitsLeft = Math.max(0, this.#unitsLeft - units);
  }

  takeOutput(bytes: number): void {
    if (bytes > this.#bytesLeft)
      throw new Error(`the templates of a request may write ${REQUEST_OUTPUT_BYTES_MAX} bytes at most`);
    this.#bytesLeft -= bytes;
  }
}

export type RenderedEmail = {
  /** null: the template has none, and the request must. */
  subject: string | null;
  html: string;
  /** null: derived from the html when sent. */
  text: string | null;
  from: string | null;
  replyTo: string[];
};

/** Rejects with a TemplateFault when a variable is missing, the budget is used up, or the template fails. */
export function renderEmail(
  version: Compiled,
  variables: Record<string, unknown>,
  budget: RenderBudget,
): Promise<RenderedEmail> {
  return inTurns(renderInPieces(version, variables, budget));
}

export function* renderInPieces(
  version: Compiled,
  variables: Record<string, unknown>,
  budget: RenderBudget,
): Generator<void, RenderedEmail> {
  const given = { ...version.fallbacks, ...withoutNulls(variables) };
  const meter = budget.meter();
  const part = (part: CompiledPart) => renderPart(part, given, meter, budget);
  try {
    return {
      subject: version.subject && (yield* part(version.subject)),
      html: yield* part(version.html),
      text: version.text && (yield* part(version.text)),
      from: version.from,
      replyTo: version.replyTo,
    };
  } finally {
    budget.takeWork(meter.used);
  }
}

function* renderPart(
  { part, dialect, templates }: CompiledPart,
  given: Record<string, unknown>,
  meter: Meter,
  budget: RenderBudget,
): Generator<void, string> {
  const { liquid } = dialect;
  // a copy, which the template may change, and without a prototype, whose names nobody gave
  const context = new PaidContext(Object.assign(Object.create(null), given), liquid, meter);
  context.setRegister(NOW, budget.now);
  const output = new RenderedTexts(budget);
  try {
    yield* inPieces(liquid.renderer.renderTemplates(templates as Template[], context, output), meter);
    return storable(output.buffer);
  } catch (error) {
    throw faultOf(error, part);
  }
}

/** Half a character, which filters can leave, becomes U+FFFD; the record cannot keep U+0000. */
function storable(text: string): string {
  if (text.includes("\0")) throw new Error("text must not contain U+0000");
  return text.isWellFormed() ? text : text.toWellFormed();
}

class RenderedTexts {
  readonly #budget: RenderBudget;
  #bytesLeft = PART_BYTES_MAX;
  buffer = "";

  constructor(budget: RenderBudget) {
    this.#budget = budget;
  }

  /** Values come as text; only the markup that tags write themselves may be something else. */
  write(value: unknown): void {
    const text = typeof value === "string" ? value : String(value ?? "");
    const bytes = Buffer.byteLength(text);
    this.#bytesLeft -= bytes;
    if (this.#bytesLeft < 0) throw new Error(`it may write ${PART_BYTES_MAX} bytes at most`);
    this.#budget.takeOutput(bytes);
    this.buffer += text;
  }
}

function withoutNulls(variables: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== null));
}
