/**
 * What the template language offers: Liquid without files, network, randomness and the wall clock, and with a
 * price on everything. Two dialects differ only in what `{{ }}` does to a value: `html` escapes it, `plain`
 * writes it as it is.
 */
import { Filter, Liquid, filters as libraryFilters, toValue } from "liquidjs";
import { numberOf, renderer } from "./context.ts";
import {
  type CostRule,
  dates,
  fields,
  free,
  type Handler,
  lists,
  meterOf,
  paid,
  paidOperators,
  ScalarCase,
  searches,
  sorts,
  textOf,
  texts,
  UNNAMED,
} from "./cost.ts";

/** Where the renderer leaves the time, in ms, for `"now" | date`. */
export const NOW = "now";

const TAGS_LEFT_OUT = ["include", "render", "layout", "block"];
/** Every filter of the library that the language has, with its price. */
const FILTERS: Record<string, CostRule> = {
  ...each("default first last size", free),
  ...each("abs at_least at_most ceil divided_by floor minus modulo plus round times", texts(4)),
  ...each("append prepend", texts(1)),
  ...each("capitalize downcase upcase", texts(6)),
  ...each("strip lstrip rstrip", texts(15, 15)),
  ...each("strip_newlines newline_to_br", texts(10)),
  ...each("strip_html", texts(20)),
  ...each("truncate", texts(4)),
  ...each("truncatewords", texts(20)),
  ...each("base64_encode", texts(2)),
  ...each("json", texts(8)),
  ...each("url_encode url_decode slugify", texts(40)),
  ...each("replace remove split", searches(12)),
  ...each("replace_first replace_last remove_first remove_last", searches(1)),
  ...each("array_to_sentence_string join", texts(3)),
  ...each("compact concat reverse slice", lists(20)),
  ...each("uniq", lists(60)),
  ...each("map sum find find_index has reject where", fields(300)),
  ...each("sort sort_natural", sorts(1, 100)),
};
/** Which arguments of a filter are numbers. */
const NUMBERS: Record<string, readonly number[]> = { slice: [0, 1], truncate: [0], truncatewords: [0] };
const OWN: Record<string, Handler> = { uniq };
const ESCAPING_FILTERS = "escape escape_once xml_escape".split(" ");
/** Of a character that becomes an entity. */
const ESCAPE_UNITS = 15;
const MARKUP = /[&<>"']/;
const ENTITIES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export type Dialect = { liquid: Liquid; isFilter(name: string): boolean };

function each(names: string, price: CostRule): Record<string, CostRule> {
  return Object.fromEntries(names.split(" ").map((name) => [name, price]));
}

function dialect(writer: Handler): Dialect {
  const liquid = new Liquid({
    strictFilters: true,
    strictVariables: true,
    lenientIf: true,
    ownPropertyOnly: true,
    templates: {},
    timezoneOffset: 0,
    locale: "en-US",
    operators: paidOperators(),
    outputEscape: writer as (value: unknown) => string,
  });
  for (const name of TAGS_LEFT_OUT) delete liquid.tags[name];
  Object.assign(liquid, { renderer });
  liquid.registerTag("case", ScalarCase);
  for (const name of Object.keys(liquid.filters)) liquid.unregisterFilter(name);
  for (const [name, price] of Object.entries(FILTERS))
    liquid.registerFilter(name, paid(library(name), price));
  // who escapes by hand does not want it twice
  for (const name of ESCAPING_FILTERS)
    liquid.registerFilter(name, { raw: true, handler: paid(library(name), texts(2 * ESCAPE_UNITS)) });
  liquid.registerFilter("raw", { raw: true, handler: asItIs });
  liquid.registerFilter("date", paid(date, dates));
  return { liquid, isFilter: (name) => name in liquid.filters };
}

/** The filter that `{{{ }}}` ends with. */
export function rawFilter(liquid: Liquid): Filter {
  return new Filter(UNNAMED, liquid.filters.raw, liquid);
}

const asItIs: Handler = function (value: unknown) {
  return textOf(value, meterOf(this.context), 1);
};

const escaped: Handler = function (value: unknown) {
  const meter = meterOf(this.context);
  const text = textOf(value, meter, 1);
  if (!MARKUP.test(text)) return text;
  meter.use(text.length * ESCAPE_UNITS);
  return text.replace(/[&<>"']/g, (found) => ENTITIES[found] ?? found);
};

function library(name: string): Handler {
  const filter = OWN[name] ?? libraryFilters[name];
  if (typeof filter !== "function") throw new Error(`liquidjs has no filter ${name}`);
  const numbers = NUMBERS[name];
  if (!numbers) return filter;
  return function (value: unknown, ...args: unknown[]) {
    return filter.call(this, value, ...args.map((arg, n) => (numbers.includes(n) ? numberOf(arg) : arg)));
  };
}

/**
 * The library's own keeps numbers in a Set, whose hash of a number is known to everybody: 8,000 numbers with
 * the same one took 70 ms. That of a text is a secret of the process, except of one that looks like a number.
 */
function uniq(value: unknown): unknown[] {
  const list: unknown = toValue(value);
  if (!Array.isArray(list)) return list === null || list === undefined ? [] : [list];
  const seen = new Set<unknown>();
  return list.filter((item: unknown) => seen.size < seen.add(hashable(item)).size);
}

function hashable(item: unknown): unknown {
  if (typeof item === "string") return `text ${item}`;
  return typeof item === "number" ? `number ${item}` : item;
}

const libraryDate = library("date");
const date: Handler = function (value: unknown, ...args: unknown[]) {
  const isNow = value === "now" || value === "today";
  return libraryDate.call(
    this,
    isNow ? Number(this.context.getRegister<number>(NOW)) / 1000 : value,
    ...args,
  );
};

export const html: Dialect = dialect(escaped);
export const plain: Dialect = dialect(asItIs);
