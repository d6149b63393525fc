/**
 * The price of what a template does. The library counts some of the memory its filters take, but writes nested lists of
 * any size, compares them and runs several filters uncounted: a list that held another one twice, forty times over, hung
 * it. So every value is paid for here, by all that it holds, before it is written, filtered or compared; whoever runs
 * out of units is refused.
 */
import {
  CaptureTag,
  CaseTag,
  type Context,
  Drop,
  defaultOperators,
  Filter,
  type FilterImplOptions,
  type Liquid,
  type Parser,
  type TagToken,
  Tokenizer,
  type TopLevelToken,
  toValue,
} from "liquidjs";

/** Of one part of a letter: characters and items read and made. */
export const WORK_UNITS_MAX = 4 * 1024 * 1024;
/** The filters on lists do some work of their own for each item. */
const UNITS_PER_ITEM = 100;
/** Searching a text is paid by its length times that of what is searched for. */
const STEPS_PER_UNIT = 16;
const UNITS_PER_CODED_CHAR = 15;
const COMPARISONS = ["==", "!=", "<", ">", "<=", ">=", "contains"];

export type Handler = Extract<FilterImplOptions, (...args: never[]) => unknown>;
type Comparison = (left: unknown, right: unknown, context: Context) => unknown;

/** A token for filters that no source names. */
export const UNNAMED = new Tokenizer("it | raw").readFilteredValue().filters[0] as ConstructorParameters<
  typeof Filter
>[0];

/** A value as it is written. Lists are written item by item, and paid so. */
export function textOf(given: unknown, context: Context): string {
  const value = toValue(given);
  pay(context, typeof value === "string" ? value.length : 1);
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map((item) => textOf(item, context)).join("");
  if (typeof value === "object") throw new Error("an object cannot be written: name one of its fields");
  return String(value);
}

function pay(context: Context, units: number): void {
  context.memoryLimit.use(units);
}

/** All that a value holds, also what it holds more than once. */
function payWhole(context: Context, value: unknown): void {
  pay(context, typeof value === "string" ? value.length : 1);
  if (value === null || typeof value !== "object" || value instanceof Drop) return;
  if (Array.isArray(value)) {
    for (const item of value) payWhole(context, item);
    return;
  }
  for (const [name, item] of Object.entries(value)) {
    pay(context, name.length);
    payWhole(context, item);
  }
}

export function paySearch(context: Context, text: unknown, [searched]: unknown[]): void {
  if (typeof text === "string" && typeof searched === "string")
    pay(context, (text.length * searched.length) / STEPS_PER_UNIT);
}

/** Coding text runs at some 10 characters per µs, a tenth of what copying it does. */
export function payCoding(context: Context, text: unknown): void {
  if (typeof text === "string") pay(context, text.length * UNITS_PER_CODED_CHAR);
}

export function payItems(context: Context, list: unknown, args: unknown[]): void {
  if (Array.isArray(list)) pay(context, list.length * UNITS_PER_ITEM);
  // the value that items are compared with; lists are compared by all they hold, again and again
  if (Array.isArray(args[1])) throw new Error("items cannot be compared with a list");
}

type ExtraPrice = (context: Context, value: unknown, args: unknown[]) => void;

export function paid(handler: Handler, payMore: ExtraPrice = () => {}): Handler {
  return function (value: unknown, ...args: unknown[]) {
    this.context.renderLimit.check(performance.now());
    payWhole(this.context, value);
    payWhole(this.context, args);
    payMore(this.context, value, args);
    return handler.call(this, value, ...args);
  };
}

export function paidOperators(): typeof defaultOperators {
  const all = { ...defaultOperators };
  for (const name of COMPARISONS) {
    const compare = defaultOperators[name] as Comparison;
    all[name] = function* (left: unknown, right: unknown, context: Context) {
      payWhole(context, left);
      payWhole(context, right);
      if (name === "contains") paySearch(context, left, [right]);
      return (yield compare(left, right, context)) as boolean;
    };
  }
  return all;
}

/** What is captured is a value from then on: it may be no longer than one could pay for. */
export class PaidCapture extends CaptureTag {
  override *render(context: Context): Generator<unknown, void, string> {
    yield* super.render(context);
    const captured: unknown = context.getSync([this.variable]);
    if (typeof captured === "string") pay(context, captured.length);
  }
}

/** `case` compares by a way of its own that nobody pays for, so it only takes what is cheap to compare. */
export class ScalarCase extends CaseTag {
  constructor(token: TagToken, remaining: TopLevelToken[], liquid: Liquid, parser: Parser) {
    super(token, remaining, liquid, parser);
    const scalar: Handler = function (value: unknown) {
      if (Array.isArray(value)) throw new Error("a list cannot be the value of case");
      payWhole(this.context, value);
      return value;
    };
    this.value.filters.push(new Filter(UNNAMED, scalar, liquid));
  }
}
