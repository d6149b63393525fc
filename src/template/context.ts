/**
 * How templates run: as the library runs them, with every step and every lookup paid. The library's own
 * renderer looks at the clock instead, and its own ranges never end beyond 2^53.
 */
import {
  type Arguments,
  Context,
  CycleTag,
  Drop,
  ForTag,
  type Liquid,
  LiquidError,
  RawTag,
  RenderError,
  TablerowTag,
  type Template,
  Token,
  TokenKind,
  TypeGuards,
  toValue,
  Value,
} from "liquidjs";
import type { Meter } from "./meter.ts";

const LOOKUP_UNITS = 30;
/** The error that a missing name makes, which `default` and `if` catch. */
const MISSING_UNITS = 2_000;
const NAME_CHARS_PER_UNIT = 16;
/** Of the name of a field, or of the path of one. */
export const FIELD_NAME_CHARS_MAX = 1_000;
/** `forloop.name` holds all that stands behind `for`, and is part of each comparison with `forloop`. */
const LOOP_NAME_CHARS_MAX = 100;
const SPLIT_UNITS_PER_CHAR = 10;
const ITEM_UNITS = 2;
const RANGE_UNITS_PER_NUMBER = 5;
const KEY_UNITS = 40;

type Path = Parameters<Context["_get"]>[0];
type Emitter = { write(value: unknown): void; readonly buffer: string };

/**
 * First in a path: the rest is not a way through the variables, but the bounds of a range, a list to go
 * through, a number, or what the library makes text of.
 */
const RANGE = Symbol("range");
const LIST = Symbol("list");
const NUMBER = Symbol("number");
const SCALAR = Symbol("scalar");

export class PaidContext extends Context {
  readonly meter: Meter;

  constructor(variables: object, liquid: Liquid, meter: Meter) {
    const limits = { liquid, memoryLimit: meter.limiter, renderLimit: meter.limiter };
    super(variables, liquid.options, { sync: true }, limits);
    this.meter = meter;
  }

  override spawn(scope: object = {}): Context {
    this.meter.use(MISSING_UNITS / 10);
    return new PaidContext(scope, this.liquid as Liquid, this.meter);
  }

  /** Of loops. */
  override push(scope: object): number {
    const [drop] = Object.values(scope) as unknown[];
    if (drop instanceof Drop && "name" in drop) drop.name = String(drop.name).slice(0, LOOP_NAME_CHARS_MAX);
    return super.push(scope);
  }

  override _get(path: Path): IterableIterator<unknown> {
    const [first, low, high] = path as unknown[];
    if (first === RANGE) return just(this.#range(Number(this.#scalar(low)), Number(this.#scalar(high))));
    if (first === LIST) return just(this.#list(low));
    if (first === NUMBER) return just(numberOf(this.#scalar(low)));
    if (first === SCALAR) return just(this.#scalar(low));
    this.#payName(first);
    return super._get(path);
  }

  override _getFromScope(scope: unknown, path: Path | string, strict?: boolean): IterableIterator<unknown> {
    if (typeof path !== "string") return super._getFromScope(scope, path, strict);
    this.meter.use(path.length * SPLIT_UNITS_PER_CHAR);
    return super._getFromScope(scope, path.split("."), strict);
  }

  override readProperty(scope: Parameters<Context["readProperty"]>[0], name: string | number): unknown {
    this.#payName(name);
    const value: unknown = super.readProperty(scope, name);
    if (value === undefined) this.meter.use(MISSING_UNITS);
    else if (name === "size" && isCounted(scope)) this.meter.use((value as number) * KEY_UNITS);
    return value;
  }

  #payName(name: unknown): void {
    if (name !== null && typeof name === "object") throw new Error("a list or an object cannot name a field");
    const chars = typeof name === "string" ? name.length : 0;
    if (chars > FIELD_NAME_CHARS_MAX)
      throw new Error(`the name of a field has at most ${FIELD_NAME_CHARS_MAX} characters`);
    this.meter.use(LOOKUP_UNITS + chars / NAME_CHARS_PER_UNIT);
  }

  #range(low: number, high: number): number[] {
    if (Math.abs(low) > Number.MAX_SAFE_INTEGER || Math.abs(high) > Number.MAX_SAFE_INTEGER)
      throw new Error("a range goes from one whole number to another, both below 2^53");
    this.meter.use((high - low + 1) * RANGE_UNITS_PER_NUMBER);
    const numbers: number[] = [];
    for (let number = low; number <= high; number++) numbers.push(number);
    return numbers;
  }

  /** A loop copies what it goes through, also when its limit is 0. */
  #list(value: unknown): unknown {
    if (Array.isArray(value)) this.meter.use(value.length * ITEM_UNITS);
    else if (value !== null && typeof value === "object")
      this.meter.use(Object.keys(value).length * KEY_UNITS);
    return value;
  }

  #scalar(value: unknown): unknown {
    if (Array.isArray(value)) throw new Error("a list stands where a number or a text belongs");
    if (typeof value === "string") this.meter.use(value.length);
    return value;
  }
}

/** Of an object whose `size` is no field of its own, the library counts the fields. */
function isCounted(scope: unknown): boolean {
  return scope !== null && typeof scope === "object" && !Object.hasOwn(scope, "size");
}

/**
 * What the library takes for a number, as one. It compares and divides what it is given, and would read a
 * long text anew each time.
 */
export function numberOf(value: unknown): unknown {
  return value === undefined ? value : Number(toValue(value));
}

function* just(value: unknown): IterableIterator<unknown> {
  yield* [];
  return value;
}

/** With what one execution costs beside its values. */
type Priced = Template & { units?: number };

const BLOCK_UNITS = 40;
const STEP_UNITS = 120;
const TOKEN_UNITS = 60;
/** A loop makes its scope, what it goes through and its options, also when it then goes through nothing. */
const LOOP_UNITS = 1_000;
const CHARS_PER_UNIT = 4;
const EXPRESSION_DEPTH_MAX = 50;

/**
 * Prices what was parsed, and leads its ranges and lists through `PaidContext`; says how many tokens it has.
 */
export function prepare(template: Template): number {
  const tokens = template.arguments ? new Tokens(template.arguments()).count : 0;
  const isLoop = template instanceof ForTag || template instanceof TablerowTag;
  if (isLoop) {
    template.collection = new PathToken(template.collection, LIST, [template.collection]) as never;
    const { hash } = template instanceof ForTag ? template.hash : template.args;
    for (const [name, token] of Object.entries(hash))
      if (token) hash[name] = new PathToken(token, NUMBER, [token]) as never;
  }
  if (template instanceof CycleTag) groupByScalar(template as unknown as { group?: Token });
  let chars = template.token.size();
  if (template instanceof RawTag)
    for (const token of (template as unknown as { tokens: Token[] }).tokens) chars += token.size();
  (template as Priced).units =
    STEP_UNITS + (isLoop ? LOOP_UNITS : 0) + tokens * TOKEN_UNITS + chars / CHARS_PER_UNIT;
  return tokens;
}

function groupByScalar(cycle: { group?: Token }): void {
  if (cycle.group) cycle.group = new PathToken(cycle.group, SCALAR, [cycle.group]);
}

/** All tokens that one execution evaluates. */
class Tokens {
  count = 0;

  constructor(all: Arguments) {
    for (const one of all) this.#visitArgument(one);
  }

  #visitArgument(one: Value | Token): void {
    if (!(one instanceof Value) && !TypeGuards.isFilteredValueToken(one)) {
      this.#visit(one);
      return;
    }
    for (const token of one.initial.postfix) this.#visit(token);
    for (const { args } of one.filters) {
      this.count++;
      for (const given of args) this.#visit(Array.isArray(given) ? given[1] : given);
    }
  }

  #visit(token: Token | undefined, depth = 1): void {
    if (!token) return;
    if (depth > EXPRESSION_DEPTH_MAX)
      throw new Error(`an expression is nested more than ${EXPRESSION_DEPTH_MAX} deep`);
    this.count++;
    if (TypeGuards.isRangeToken(token)) {
      const { lhs, rhs } = token;
      this.#visit(lhs, depth + 1);
      this.#visit(rhs, depth + 1);
      Object.assign(token, new PathToken(token, RANGE, [lhs, rhs]));
    } else if (TypeGuards.isPropertyAccessToken(token)) {
      this.#visit(token.variable, depth + 1);
      for (const prop of token.props) this.#visit(prop, depth + 1);
    }
  }
}

/** Evaluated as a path of these, of which `PaidContext` decides what it means. */
class PathToken extends Token {
  readonly props: readonly unknown[];

  constructor({ input, begin, end, file }: Token, first: symbol, rest: readonly Token[]) {
    super(TokenKind.PropertyAccess, input, begin, end, file);
    this.props = [{ content: first }, ...rest];
  }
}

/** In place of the library's renderer. */
export const renderer = {
  *renderTemplates(
    templates: readonly Template[],
    context: Context,
    emitter: Emitter = new TextEmitter(),
  ): Generator<unknown, string, unknown> {
    const { meter } = context as PaidContext;
    meter.use(BLOCK_UNITS);
    for (const template of templates) {
      meter.use((template as Priced).units ?? STEP_UNITS);
      try {
        const text = yield template.render(context, emitter as Parameters<Template["render"]>[1]);
        if (text) emitter.write(text);
        if (context.breakCalled || context.continueCalled) break;
      } catch (error) {
        throw LiquidError.is(error) ? error : new RenderError(error as Error, template as never);
      }
    }
    return emitter.buffer;
  },
};

/** Values come as text; only the markup that tags write themselves may be something else. */
class TextEmitter implements Emitter {
  buffer = "";

  write(value: unknown): void {
    this.buffer += typeof value === "string" ? value : String(value ?? "");
  }
}
