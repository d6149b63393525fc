/**
 * The price of each filter and comparison: the most that it can cost for a value of that size, whatever the
 * value holds, paid before it runs. `test/fuzz/cost.test.ts` compares all of them with the clock.
 */
import {
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
import { FIELD_NAME_CHARS_MAX, PaidContext } from "./context.ts";
import type { Meter } from "./meter.ts";

const ITEM_UNITS = 8;
const FIELD_UNITS = 30;
const COMPARED_ITEM_UNITS = 200;
/** Searching a text is paid by its length times that of what is searched for. */
const STEPS_PER_UNIT = 4;
/** Of a number, of true, and of an object, which is written as its kind. */
const SCALAR_CHARS_MAX = 25;
/** `forloop`, which the library writes as JSON to compare it; `empty` and `blank` cost nothing. */
const LOOP_UNITS = 500;
const DATE_CHARS_MAX = 500;
/** Names of days and months, and local formats, are looked up in tables of the language. */
const NAMED_DATE_UNITS = 15_000;
const COMPARISONS = ["==", "!=", "<", ">", "<=", ">=", "contains"];

export type Handler = Extract<FilterImplOptions, (...args: never[]) => unknown>;
export type CostRule = (meter: Meter, value: unknown, args: readonly unknown[]) => void;
type Comparison = (left: unknown, right: unknown, context: Context) => unknown;

/** A token for filters that no source names. */
export const UNNAMED = new Tokenizer("it | raw").readFilteredValue().filters[0] as ConstructorParameters<
  typeof Filter
>[0];

export function meterOf(context: Context): Meter {
  if (!(context instanceof PaidContext)) throw new Error("a template runs in a context that is paid for");
  return context.meter;
}

/** A value as it is written, at `units` a character. Lists are written item by item, and paid so. */
export function textOf(given: unknown, meter: Meter, units: number): string {
  const value = toValue(given);
  if (typeof value === "string") {
    meter.use(ITEM_UNITS + value.length * units);
    return value;
  }
  meter.use(ITEM_UNITS * 10);
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map((item) => textOf(item, meter, units)).join("");
  if (typeof value === "object") throw new Error("an object cannot be written: name one of its fields");
  return String(value);
}

/**
 * All that a value holds, also what it holds more than once: so much for a character, so much besides for an
 * item.
 */
function payWhole(meter: Meter, value: unknown, chars: number, items: number): void {
  if (typeof value === "string") {
    meter.use(ITEM_UNITS + value.length * chars);
    return;
  }
  meter.use(ITEM_UNITS);
  if (value === null || typeof value !== "object") return;
  if (value instanceof Drop) {
    if ("name" in value) meter.use(LOOP_UNITS);
    return;
  }
  if (Array.isArray(value)) {
    meter.use(value.length * items);
    for (const item of value) payWhole(meter, item, chars, items);
    return;
  }
  for (const name of Object.keys(value)) {
    meter.use(FIELD_UNITS + items + name.length * chars);
    payWhole(meter, (value as Record<string, unknown>)[name], chars, items);
  }
}

/** For filters that go through a text, or through a list they write as one. */
export function texts(chars: number, argumentChars = 1): CostRule {
  return (meter, value, args) => {
    payWhole(meter, value, chars, 50);
    payWhole(meter, args, argumentChars, 50);
  };
}

export function searches(chars: number): CostRule {
  const price = texts(chars, 2);
  return (meter, value, args) => {
    price(meter, value, args);
    paySearch(meter, value, args[0]);
  };
}

function paySearch(meter: Meter, text: unknown, searched: unknown): void {
  meter.use((charsOf(text) * charsOf(searched)) / STEPS_PER_UNIT);
}

/** At most, of a value that a filter writes as a text: a list as all of its items, in one. */
function charsOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (Array.isArray(value)) return value.reduce((chars: number, item) => chars + 1 + charsOf(item), 0);
  return SCALAR_CHARS_MAX;
}

/** For filters that go through a list, and through no more of its items than a field. */
export function lists(items: number): CostRule {
  return (meter, value, args) => {
    payWhole(meter, value, 1, 0);
    payWhole(meter, args, 1, 0);
    if (Array.isArray(value)) meter.use(value.length * items);
  };
}

/** `name` is the path of a field, which is read anew for each item. */
export function fields(items: number): CostRule {
  const price = lists(items);
  return (meter, list, args) => {
    const [name, expected] = args;
    if (name !== null && typeof name === "object") throw new Error("a list or an object cannot name a field");
    if (typeof name === "string" && (name.length > FIELD_NAME_CHARS_MAX || /[()[\]]/.test(name)))
      throw new Error(`a field is named by at most ${FIELD_NAME_CHARS_MAX} characters, without brackets`);
    // lists are compared by all they hold, again and again
    if (Array.isArray(expected)) throw new Error("items cannot be compared with a list");
    price(meter, list, args);
    if (!Array.isArray(list)) return;
    const chars = typeof name === "string" ? name.length : 0;
    meter.use(list.length * (chars * 40 + (typeof expected === "string" ? expected.length / 8 : 0)));
  };
}

/** Each item is compared as often as its list has binary digits, by all that it holds. */
export function sorts(chars: number, items: number): CostRule {
  const price = fields(items);
  return (meter, list, args) => {
    price(meter, list, args);
    if (!Array.isArray(list)) return;
    const times = 2 * Math.ceil(Math.log2(list.length + 1));
    payWhole(meter, list, chars * times, 10 * times);
  };
}

export const dates: CostRule = (meter, value, args) => {
  const [format] = args;
  if (format !== null && typeof format === "object") throw new Error("the format of a date is a text");
  if (typeof format === "string" && format.length > DATE_CHARS_MAX)
    throw new Error(`the format of a date has at most ${DATE_CHARS_MAX} characters`);
  payWhole(meter, value, 4, 50);
  payWhole(meter, args, 40, 50);
  const named = typeof format === "string" ? (format.match(/[aAbBhcxXZ]/g)?.length ?? 0) : 3;
  meter.use((1 + named + (args.length > 1 ? 10 : 0)) * NAMED_DATE_UNITS);
};

export const free: CostRule = () => {};

export function paid(handler: Handler, price: CostRule): Handler {
  return function (value: unknown, ...args: unknown[]) {
    price(meterOf(this.context), value, args);
    return handler.call(this, value, ...args);
  };
}

export function paidOperators(): typeof defaultOperators {
  const all = { ...defaultOperators };
  for (const name of COMPARISONS) {
    const compare = defaultOperators[name] as Comparison;
    all[name] = function* (left: unknown, right: unknown, context: Context) {
      const meter = meterOf(context);
      payWhole(meter, left, 1, COMPARED_ITEM_UNITS);
      payWhole(meter, right, 1, COMPARED_ITEM_UNITS);
      // of a list each item is compared, and none is searched
      if (name === "contains" && !Array.isArray(left)) paySearch(meter, left, right);
      return (yield compare(left, right, context)) as boolean;
    };
  }
  return all;
}

/** `case` compares by a way of its own that nobody pays for, so it only takes what is cheap to compare. */
export class ScalarCase extends CaseTag {
  constructor(token: TagToken, remaining: TopLevelToken[], liquid: Liquid, parser: Parser) {
    super(token, remaining, liquid, parser);
    const times = this.branches.reduce((sum, { values }) => sum + values.length, 1);
    const scalar: Handler = function (value: unknown) {
      if (Array.isArray(value)) throw new Error("a list cannot be the value of case");
      payWhole(meterOf(this.context), value, times / 4, 1);
      return value;
    };
    this.value.filters.push(new Filter(UNNAMED, scalar, liquid));
  }
}
