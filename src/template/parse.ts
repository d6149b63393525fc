/**
 * From the source of a part to its parsed form. Liquid, and what callers know from elsewhere: `{{{name}}}` is
 * not escaped, and `{{name|friend}}` falls back to the word "friend", unless that is the name of a filter; in
 * quotes (`{{name|"first"}}`) it always is the fallback.
 */
import {
  LiquidError,
  Output,
  ParseError,
  Parser,
  type Template,
  Tokenizer,
  type TopLevelToken,
  TypeGuards,
} from "liquidjs";
import { messageOf } from "../caught.ts";
import { prepare } from "./context.ts";
import { TemplateFault, type TemplatePart } from "./fault.ts";
import { type Dialect, rawFilter } from "./language.ts";
import type { Meter } from "./meter.ts";
import type { Variables } from "./variables.ts";

export const SOURCE_CHARS_MAX = 500_000;
const PIECES_MAX = 5_000;
const EXPRESSION_CHARS_MAX = 4_000;
const DEPTH_MAX = 50;
const PIECE_UNITS = 300;
const TOKEN_UNITS = 250;
const EXPRESSION_CHAR_UNITS = 40;
const HTML_CHARS_PER_UNIT = 10;

/** `{{ path | words }}` with two or three braces; the words hold no brace, pipe or line break. */
const WITH_FALLBACK =
  /(\{\{\{?)(-?)\s*([\p{L}_][\p{L}\p{N}_-]*(?:\.[\p{L}\p{N}_-]+)*)\s*\|([^{}|\r\n]*)(\}\}\}?)/uy;

// The library would write the lines around each error into its stack, for which it splits the whole source.
Object.defineProperty(LiquidError.prototype, "update", { value: () => undefined });

type TokenizerOptions = Parameters<Tokenizer["readOutputToken"]>[0];
type HTMLToken = ReturnType<Tokenizer["readHTMLToken"]>;
type OutputToken = ReturnType<Tokenizer["readOutputToken"]>;

/** What Liquid's own tokens cannot say. */
class Marks {
  readonly raw = new WeakSet<TopLevelToken>();
  readonly fallbacks = new WeakMap<TopLevelToken, { path: string; text: string }>();
}

/** What the part asks for is noted in `variables`, and what parsing it costs in `meter`. */
export function parsePart(
  part: TemplatePart,
  source: string,
  dialect: Dialect,
  variables: Variables,
  meter: Meter,
): Template[] {
  if (source.length > SOURCE_CHARS_MAX)
    throw new TemplateFault(`it has more than ${SOURCE_CHARS_MAX} characters`, { part });
  try {
    return new TemplateParser(dialect, variables, meter).parse(source);
  } catch (error) {
    throw faultOf(error, part);
  }
}

/** Anything the library throws, with where it was in the source. */
export function faultOf(error: unknown, part: TemplatePart): TemplateFault {
  if (error instanceof TemplateFault) return error;
  if (!LiquidError.is(error)) return new TemplateFault(messageOf(error), { part });
  const cause: unknown = error.originalError;
  const missing =
    cause instanceof Error && "variableName" in cause && typeof cause.variableName === "string"
      ? cause.variableName
      : null;
  return new TemplateFault(messageOf(cause ?? error), { part, ...placeOf(error.token), missing });
}

/** The library's `getPosition` looks at each character. */
function placeOf({ input, begin }: { input: string; begin: number }): { line: number; column: number } {
  let [line, lineBegins] = [1, 0];
  for (let at = input.indexOf("\n"); at >= 0 && at < begin; at = input.indexOf("\n", lineBegins)) {
    line++;
    lineBegins = at + 1;
  }
  return { line, column: begin - lineBegins + 1 };
}

class TemplateParser extends Parser {
  readonly #dialect: Dialect;
  readonly #variables: Variables;
  readonly #meter: Meter;
  readonly #marks = new Marks();
  #pieces = 0;
  #depth = 0;

  constructor(dialect: Dialect, variables: Variables, meter: Meter) {
    super(dialect.liquid);
    this.#dialect = dialect;
    this.#variables = variables;
    this.#meter = meter;
  }

  override parse(source: string): Template[] {
    const { options } = this.#dialect.liquid;
    const tokenizer = new TemplateTokenizer(source, this.#dialect, this.#marks, this.#meter);
    return this.parseTokens(tokenizer.readTopLevelTokens(options));
  }

  override parseToken(token: TopLevelToken, remaining: TopLevelToken[]): ReturnType<Parser["parseToken"]> {
    this.#meter.use(PIECE_UNITS);
    if (++this.#pieces > PIECES_MAX)
      throw new ParseError(new Error(`it has more than ${PIECES_MAX} pieces`), token);
    if (++this.#depth > DEPTH_MAX)
      throw new ParseError(new Error(`blocks are nested more than ${DEPTH_MAX} deep`), token);
    if (!TypeGuards.isHTMLToken(token) && token.end - token.begin > EXPRESSION_CHARS_MAX)
      throw new ParseError(
        new Error(`an expression has more than ${EXPRESSION_CHARS_MAX} characters`),
        token,
      );
    const parsed = super.parseToken(token, remaining);
    this.#depth--;
    this.#variables.note(parsed as Template);
    this.#meter.use(prepare(parsed as Template) * TOKEN_UNITS);
    const fallback = this.#marks.fallbacks.get(token);
    if (fallback) this.#variables.noteFallback(fallback.path, fallback.text);
    if (parsed instanceof Output) {
      if (!isOneValue(parsed)) throw new ParseError(new Error("one value belongs between braces"), token);
      if (this.#marks.raw.has(token)) this.#unescape(parsed);
    }
    return parsed;
  }

  #unescape({ value }: Output): void {
    if (value.filters.at(-1)?.raw) return;
    value.filters.pop();
    value.filters.push(rawFilter(this.#dialect.liquid));
  }
}

/** `{{ first name }}` would be written as `first` alone. */
function isOneValue({ value }: Output): boolean {
  let values = 0;
  for (const token of value.initial.postfix) {
    if (!TypeGuards.isOperatorToken(token)) values++;
    else if (token.operator !== "not") values--;
  }
  return values === 1;
}

class TemplateTokenizer extends Tokenizer {
  readonly #dialect: Dialect;
  readonly #marks: Marks;
  readonly #meter: Meter;
  /** Where each mark is found next. */
  readonly #found = new Map<string, number>();
  #pieces = 0;

  constructor(source: string, dialect: Dialect, marks: Marks, meter: Meter) {
    super(source, dialect.liquid.options.operators);
    this.#dialect = dialect;
    this.#marks = marks;
    this.#meter = meter;
    meter.use(source.length / HTML_CHARS_PER_UNIT);
  }

  override readTopLevelToken(options: TokenizerOptions & object): TopLevelToken {
    if (++this.#pieces > PIECES_MAX) throw this.error(`it has more than ${PIECES_MAX} pieces`);
    const token = super.readTopLevelToken(options);
    this.#meter.use(PIECE_UNITS);
    if (!TypeGuards.isHTMLToken(token)) this.#meter.use((token.end - token.begin) * EXPRESSION_CHAR_UNITS);
    return token;
  }

  /** The library compares each character with each mark, which takes ten times as long. */
  override readHTMLToken(marks: string[]): HTMLToken {
    const [begin, end] = [this.p, this.N];
    this.N = begin;
    const token = super.readHTMLToken(marks);
    this.N = end;
    token.end = this.p = Math.min(...marks.map((mark) => this.#next(mark, begin)));
    return token;
  }

  #next(mark: string, from: number): number {
    let found = this.#found.get(mark) ?? -1;
    if (found < from) {
      const at = this.input.indexOf(mark, from);
      found = at < 0 ? this.N : at;
      this.#found.set(mark, found);
    }
    return found;
  }

  override readOutputToken(options: TokenizerOptions = this.#dialect.liquid.options): OutputToken {
    const fallback = this.#readFallback(options);
    if (fallback) return fallback;
    if (!this.match("{{{")) return super.readOutputToken(options);
    const token = super.readOutputToken({
      ...options,
      outputDelimiterLeft: "{{{",
      outputDelimiterRight: "}}}",
    });
    this.#marks.raw.add(token);
    return token;
  }

  #readFallback(options: TokenizerOptions): OutputToken | null {
    WITH_FALLBACK.lastIndex = this.p;
    const match = WITH_FALLBACK.exec(this.input);
    if (!match) return null;
    const [whole, opening = "", strip = "", path = "", given = "", closing = ""] = match;
    const words = given.replace(/-$/, "").trim();
    if (opening.length !== closing.length || this.#beginsWithFilter(words)) return null;
    const text = withoutQuotes(words);
    this.p += whole.length;
    // the same said in Liquid; its string literals read what JSON writes
    const said = `{{${strip} ${path} | default: ${JSON.stringify(text)} ${given.endsWith("-") ? "-" : ""}}}`;
    const token = new Tokenizer(said).readOutputToken(options);
    if (opening === "{{{") this.#marks.raw.add(token);
    this.#marks.fallbacks.set(token, { path, text });
    return token;
  }

  #beginsWithFilter(words: string): boolean {
    const name = /^(\w+)\s*(:|$)/.exec(words);
    return name !== null && (name[2] === ":" || this.#dialect.isFilter(name[1] as string));
  }
}

function withoutQuotes(words: string): string {
  return /^(".*"|'.*')$/.test(words) && words.length > 1 ? words.slice(1, -1) : words;
}
