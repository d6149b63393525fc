/**
 * From the source of a part to its parsed form. Liquid, and what callers know from elsewhere: `{{{name}}}` is not
 * escaped, and `{{name|friend}}` falls back to the word "friend", unless that is the name of a filter; in quotes
 * (`{{name|"first"}}`) it always is the fallback.
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
import { type Part, TemplateFault } from "./fault.ts";
import { type Dialect, rawFilter } from "./language.ts";
import type { Variables } from "./variables.ts";

export const SOURCE_CHARS_MAX = 500_000;
const PIECES_MAX = 5_000;
const EXPRESSION_CHARS_MAX = 4_000;
const DEPTH_MAX = 50;

/** `{{ path | words }}` with two or three braces; the words hold no brace, pipe or line break. */
const WITH_FALLBACK =
  /(\{\{\{?)(-?)\s*([\p{L}_][\p{L}\p{N}_-]*(?:\.[\p{L}\p{N}_-]+)*)\s*\|([^{}|\r\n]*)(\}\}\}?)/uy;

type TokenizerOptions = Parameters<Tokenizer["readOutputToken"]>[0];
type OutputToken = ReturnType<Tokenizer["readOutputToken"]>;

/** What Liquid's own tokens cannot say. */
class Marks {
  readonly raw = new WeakSet<TopLevelToken>();
  readonly fallbacks = new WeakMap<TopLevelToken, { path: string; text: string }>();
}

/** What the part asks for is noted in `variables`. */
export function parsePart(part: Part, source: string, dialect: Dialect, variables: Variables): Template[] {
  if (source.length > SOURCE_CHARS_MAX)
    throw new TemplateFault(`it has more than ${SOURCE_CHARS_MAX} characters`, { part });
  try {
    return new LetterParser(dialect, variables).parse(source);
  } catch (error) {
    throw faultOf(error, part);
  }
}

/** Anything the library throws, with where it was in the source. */
export function faultOf(error: unknown, part: Part): TemplateFault {
  if (error instanceof TemplateFault) return error;
  if (!LiquidError.is(error)) return new TemplateFault(messageOf(error), { part });
  const [line, column] = error.token.getPosition();
  const cause: unknown = error.originalError;
  const missing =
    cause instanceof Error && "variableName" in cause && typeof cause.variableName === "string"
      ? cause.variableName
      : null;
  // an error without a cause carries its place in its message
  const reason = cause ? messageOf(cause) : error.message.replace(/, line:\d+, col:\d+$/, "");
  return new TemplateFault(reason, { part, ...(line && column ? { line, column } : {}), missing });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

class LetterParser extends Parser {
  readonly #dialect: Dialect;
  readonly #variables: Variables;
  readonly #marks = new Marks();
  #depth = 0;

  constructor(dialect: Dialect, variables: Variables) {
    super(dialect.liquid);
    this.#dialect = dialect;
    this.#variables = variables;
  }

  override parse(source: string): Template[] {
    const { options } = this.#dialect.liquid;
    const tokenizer = new LetterTokenizer(source, this.#dialect, this.#marks);
    const tokens = tokenizer.readTopLevelTokens(options);
    if (tokens.length > PIECES_MAX) throw new Error(`it has more than ${PIECES_MAX} pieces`);
    return this.parseTokens(tokens);
  }

  override parseToken(token: TopLevelToken, remaining: TopLevelToken[]): ReturnType<Parser["parseToken"]> {
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

class LetterTokenizer extends Tokenizer {
  readonly #dialect: Dialect;
  readonly #marks: Marks;

  constructor(source: string, dialect: Dialect, marks: Marks) {
    super(source, dialect.liquid.options.operators);
    this.#dialect = dialect;
    this.#marks = marks;
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
