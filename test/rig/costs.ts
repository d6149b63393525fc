/**
 * Hostile templates for the tests of cost: every filter and tag that the engine has, with values and
 * arguments of odd shapes.
 */
import fc from "fast-check";
import { TemplateFault } from "../../src/template/fault.ts";
import { html } from "../../src/template/language.ts";
import { SOURCE_CHARS_MAX } from "../../src/template/parse.ts";
import { compileAndRender, compiled } from "./rendering.ts";

export type CostCase = { name: string; source: string; variables: Record<string, unknown> };

/** Compiles and renders; a template that is refused has cost what it cost. */
export function* renderCase({ source, variables }: CostCase): Generator<void> {
  try {
    yield* compileAndRender({ html: source }, variables);
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
  }
}

/** Whether it was not refused. */
function isAllowed(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    return false;
  }
}

const pieces = fc.constantFrom(
  ..."a|ab|a |0|<|<a>|<script>|<!--|&|&amp;|\"|'|-|.|,|\n|\r\n|é|ß|İ|中|😀|\u0301|%C3%A9|%|0|1e9|\\|[|{|x.|\t\n |a.b|=|%B|%c|%9N|aaaaaaaab".split(
    "|",
  ),
);
const sizes = fc.constantFrom(0, 1, 3, 30, 300, 3_000, 30_000, 200_000);
const long = fc
  .tuple(pieces, sizes, fc.constantFrom("", "a", "b", "~", "150000"))
  .map(([piece, size, end]) => piece.repeat(Math.ceil(size / piece.length)) + end);
const scalar = fc.oneof(
  fc.constantFrom(null, true, false, 0, -1, 1, 2.5, 1e9, -1e9, 1e308, Number.MAX_SAFE_INTEGER, 2 ** 53),
  fc.constantFrom("a", "a.b", "now", "2026-11-20T23:30:00-05:00", "Europe/Rome", "%B %A %c %x %Z", "b"),
);
const item = fc.oneof(scalar, long, fc.constant({ a: 1 }), fc.constant({ a: { b: "x" } }));
const list = fc.oneof(
  fc
    .tuple(fc.array(item, { minLength: 1, maxLength: 4 }), fc.constantFrom(1, 10, 300, 3_000))
    .map(([some, size]) => Array.from({ length: size }, (_, n) => some[n % some.length])),
  fc
    .tuple(long, fc.constantFrom(10, 300, 3_000))
    .map(([text, size]) =>
      Array.from({ length: size }, (_, n) => `${text.slice(0, 2_000)}${(n * 7919) % size}`),
    ),
  fc
    .tuple(scalar, fc.constantFrom(300, 3_000))
    .map(([value, size]) => Array.from({ length: size }, (_, n) => ({ a: (n * 7919) % size, c: value }))),
  fc.constantFrom(1_000, 10_000).map((size) => Array.from({ length: size }, (_, n) => (n * 7919) % size)),
);
const nested = fc
  .tuple(list, fc.constantFrom(2, 30))
  .map(([inner, size]) => Array.from({ length: size }, () => inner.slice(0, 300)));
const object = fc
  .constantFrom(1, 100, 5_000)
  .map((size) => Object.fromEntries(Array.from({ length: size }, (_, n) => [`k${n}`, n])));
/** Many filters write a list as one text, with all that its items hold. */
const wrapped = long.map((text) => [text]);
/** Names that the language gives a meaning to, and that an object may have all the same. */
const misnamed = fc
  .tuple(long, fc.constantFrom("size", "first", "last", "length", "name", "index"))
  .map(([text, name]) => ({ [name]: text }));
const value = fc.oneof({ weight: 4, arbitrary: long }, wrapped, list, nested, object, misnamed, scalar);
const argument = fc.oneof(long, wrapped, scalar, scalar, list, object);

const looped = (body: string): string =>
  `{% for i in (1..3000) %}{% for j in (1..3000) %}${body}{% endfor %}{% endfor %}`;

/** As often as the budget lets it. */
export function filterCase(name: string): fc.Arbitrary<CostCase> {
  const ways = ["{% assign r = v | ~ %}", "{{ v | ~ }}", "{% capture r %}{{ v | ~ }}{% endcapture %}"];
  return fc
    .tuple(value, fc.array(argument, { maxLength: 3 }), fc.constantFrom(...ways), fc.constantFrom(...CHAINS))
    .map(([v, args, way, chain]) => {
      const names = args.map((_, n) => `a${n}`);
      const call = name + (names.length > 0 ? `: ${names.join(", ")}` : "") + chain;
      const variables = { v, ...Object.fromEntries(names.map((key, n) => [key, args[n]])) };
      return {
        name: `${name} ${shape(variables)} ${way}`,
        source: looped(way.replace("~", () => call)),
        variables,
      };
    });
}
const CHAINS = ["", "", " | size", " | join: a0", ' | default: ""'];

const expressions = fc.constantFrom(
  ..."v|w|v.size|v.a.b|w[v]|v.first|'x'|1|(1..9)|(1..v)|(w..v)|nobody|v == w|v contains w|v < w|w == empty|v or w and v|not v|blank|forloop|forloop == v|v.length".split(
    "|",
  ),
  Array(300).fill("v").join(" and "),
  Array(600).fill("1").join(" "),
  `v${".a".repeat(1_000)}`,
  `w${"[v]".repeat(100)}`,
  Array(40).fill("v == w").join(" or "),
);
/**
 * How each tag of the language is written, around an expression and a body; a tag without a way fails the
 * test.
 */
const TAG_WAYS: Record<string, (e: string, body: string) => string> = {
  assign: (e) => `{% assign r = ${e} %}`,
  for: (e, body) =>
    `{% for x in ${e.split(" ")[0]} limit: w offset: v reversed %}${body}{% else %}${body}{% endfor %}`,
  capture: (_e, body) => `{% capture v %}{{ v }}${body}{% endcapture %}`,
  case: (e, body) =>
    `{% case v %}{% when ${e.split(" ").join(", ")} %}${body}{% when v, w %}{% else %}{% endcase %}`,
  comment: (e, body) => `{% comment %}${e}${body}{% endcomment %}`,
  decrement: () => "{% decrement n %}",
  increment: () => "{% increment n %}",
  cycle: (e) => `{% cycle ${e.split(" ").join(", ")} %}{% cycle v: 'a', 'b' %}`,
  if: (e, body) => `{% if ${e} %}${body}{% elsif ${e} %}${`{% elsif ${e} %}`.repeat(20)}{% endif %}`,
  raw: (e, body) => `{% raw %}${e}${body.replaceAll("%", "")}{% endraw %}`,
  tablerow: (e, body) => `{% tablerow x in ${e.split(" ")[0]} cols: w limit: v %}${body}{% endtablerow %}`,
  unless: (e, body) => `{% unless ${e} %}${body}{% elsif ${e} %}{% else %}{% endunless %}`,
  break: (_e, body) => `{% for x in (1..3) %}${body}{% break %}{% endfor %}`,
  continue: (_e, body) => `{% for x in (1..3) %}${body}{% continue %}{% endfor %}`,
  echo: (e) => `{% echo ${e} %}`,
  liquid: (e) => `{% liquid\n${`echo ${e}\n`.repeat(5)}%}`,
  "#": (e) => `{% # ${e}${"\n".repeat(1_000)} %}`,
};

export function tagCase(name: string): fc.Arbitrary<CostCase> {
  const way = TAG_WAYS[name];
  if (!way) throw new Error(`test/rig/costs.ts does not say how the tag ${name} is written`);
  const body = fc.constantFrom("", "x", "{{ v }}", "{{ w | size }}", "x".repeat(1_000), "{{ x }}");
  return fc.tuple(expressions, body, value, argument).map(([e, inner, v, w]) => ({
    name: `${name} ${e.slice(0, 40)} ${inner.slice(0, 20)} ${shape({ v, w })}`,
    source: looped(way(e, inner)),
    variables: { v, w },
  }));
}

const OUTPUT_WAYS: Record<string, (e: string) => string> = {
  "{{ e }}": (e) => `{{ ${e} }}`,
  "{{{ e }}}": (e) => `{{{${e}}}}`,
  "{{ e | filter }}": (e) => `{{ ${e} | upcase }}`,
  "{{ e | filter | filter ... }}": (e) => `{{ ${e}${" | append: 'b'".repeat(100)} }}`,
  "{{ e | filter: e, e, ... }}": (e) => `{{ v | default: ${Array(100).fill(e).join(", ")} }}`,
  "{{ name|words }}": (e) => `{{v|${e.replaceAll("|", "")}}}`,
};
const MANY = ["v", "'x'", "v.a", "1", "v[w]", "(1..9)", "nobody.b.c.d"].flatMap((one) =>
  [30, 300, 900].map((times) => Array(times).fill(one).join(" ")),
);
export const COMPILED = [...Object.keys(TAG_WAYS), ...Object.keys(OUTPUT_WAYS)];

/** One way of the language again and again, as often as compiling it is allowed. */
export function compiledCase(name: string): fc.Arbitrary<CostCase> {
  const way = TAG_WAYS[name] ?? OUTPUT_WAYS[name];
  if (!way) throw new Error(`test/rig/costs.ts does not say how ${name} is written`);
  const body = fc.constantFrom("", "x", "{{ v }}", "x".repeat(1_000));
  return fc.tuple(fc.oneof(expressions, fc.constantFrom(...MANY)), body).map(([e, inner]) => {
    const piece = way(e, inner);
    const times = mostThat(Math.floor(SOURCE_CHARS_MAX / piece.length), (n) =>
      isAllowed(() => compiled({ html: piece.repeat(n) })),
    );
    return {
      name: `${name} ${e.slice(0, 40)} ${inner.slice(0, 20)}`,
      source: piece.repeat(times),
      variables: {},
    };
  });
}

/** What holds for a number must hold for all below it. */
function mostThat(max: number, holds: (n: number) => boolean): number {
  let [least, most] = [0, max];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (holds(middle)) least = middle;
    else most = middle - 1;
  }
  return least;
}

export const FILTERS = Object.keys(html.liquid.filters);
export const TAGS = Object.keys(html.liquid.tags);

function shape(variables: Record<string, unknown>): string {
  return Object.entries(variables)
    .map(([key, one]) => `${key}=${brief(one)}`)
    .join(" ");
}

function brief(value: unknown): string {
  if (Array.isArray(value)) return `[${brief(value[0])} x ${value.length}]`;
  if (typeof value === "string" && value.length > 20) return `"${value.slice(0, 20)}..."(${value.length})`;
  if (value !== null && typeof value === "object") return `{${Object.keys(value).length}}`;
  return JSON.stringify(value);
}
