/**
 * What the template language offers: Liquid without files, network, randomness and the wall clock, and with a price on
 * everything. Two dialects differ only in what `{{ }}` does to a value: `html` escapes it, `plain` writes it as it is.
 */
import { Filter, Liquid, filters as libraryFilters } from "liquidjs";
import {
  type Handler,
  PaidCapture,
  paid,
  paidOperators,
  payCoding,
  payItems,
  paySearch,
  ScalarCase,
  textOf,
  UNNAMED,
} from "./price.ts";

/** Where the renderer leaves the time, in ms, for `"now" | date`. */
export const NOW = "now";

const TAGS_LEFT_OUT = ["include", "render", "layout", "block"];
const TEXT_FILTERS = [
  ..."append prepend capitalize downcase upcase strip lstrip rstrip strip_newlines strip_html".split(" "),
  ..."newline_to_br truncate truncatewords base64_encode json".split(" "),
];
const SEARCH_FILTERS = "replace replace_first replace_last remove remove_first remove_last split".split(" ");
const CODING_FILTERS = "url_encode url_decode slugify".split(" ");
const NUMBER_FILTERS = "abs at_least at_most ceil divided_by floor minus modulo plus round times".split(" ");
const LIST_FILTERS = [
  ..."array_to_sentence_string compact concat join map reverse slice sort sort_natural sum uniq".split(" "),
  ..."find find_index has reject where".split(" "),
];
const FREE_FILTERS = "default first last size".split(" ");
const ESCAPING_FILTERS = "escape escape_once xml_escape".split(" ");
const ENTITIES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export type Dialect = { liquid: Liquid; isFilter(name: string): boolean };

function dialect(written: (text: string) => string): Dialect {
  const liquid = new Liquid({
    strictFilters: true,
    strictVariables: true,
    lenientIf: true,
    ownPropertyOnly: true,
    templates: {},
    timezoneOffset: 0,
    locale: "en-US",
    operators: paidOperators(),
    outputEscape: writer(written) as (value: unknown) => string,
  });
  for (const name of TAGS_LEFT_OUT) delete liquid.tags[name];
  liquid.registerTag("capture", PaidCapture);
  liquid.registerTag("case", ScalarCase);
  for (const name of Object.keys(liquid.filters)) liquid.unregisterFilter(name);
  for (const name of FREE_FILTERS) liquid.registerFilter(name, library(name));
  for (const name of [...TEXT_FILTERS, ...NUMBER_FILTERS]) liquid.registerFilter(name, paid(library(name)));
  for (const name of CODING_FILTERS) liquid.registerFilter(name, paid(library(name), payCoding));
  for (const name of SEARCH_FILTERS) liquid.registerFilter(name, paid(library(name), paySearch));
  for (const name of LIST_FILTERS) liquid.registerFilter(name, paid(library(name), payItems));
  // who escapes by hand does not want it twice
  for (const name of ESCAPING_FILTERS)
    liquid.registerFilter(name, { raw: true, handler: paid(library(name)) });
  liquid.registerFilter("raw", { raw: true, handler: writer((text) => text) });
  liquid.registerFilter("date", paid(date));
  return { liquid, isFilter: (name) => name in liquid.filters };
}

/** The filter that `{{{ }}}` ends with. */
export function rawFilter(liquid: Liquid): Filter {
  return new Filter(UNNAMED, liquid.filters.raw, liquid);
}

function writer(written: (text: string) => string): Handler {
  return function (value: unknown) {
    return written(textOf(value, this.context));
  };
}

function library(name: string): Handler {
  const filter = libraryFilters[name];
  if (typeof filter !== "function") throw new Error(`liquidjs has no filter ${name}`);
  return filter;
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

export const html: Dialect = dialect((text) => text.replace(/[&<>"']/g, (found) => ENTITIES[found] ?? found));
export const plain: Dialect = dialect((text) => text);
