/**
 * Whatever a variable holds, it stays text in the html; whatever a template holds, it renders or says what is
 * wrong.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { TemplateFault } from "../../src/template/fault.ts";
import { html as dialect } from "../../src/template/language.ts";
import { atOnce, compileAndRender } from "../rig/rendering.ts";

const ENTITY = /&(amp|lt|gt|quot|#34|#39);/g;
const MARKUP = /[<>"'&]/;

function render(html: string, variables: Record<string, unknown>): string {
  return atOnce(compileAndRender({ html }, variables)).html;
}

/** null when the template says what is wrong with it; anything else it throws is a bug. */
function rendered(html: string, variables: Record<string, unknown>): string | null {
  try {
    return render(html, variables);
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    if (error.line !== null) expect(error.line).toBeLessThanOrEqual(html.split("\n").length);
    return null;
  }
}

function decoded(html: string): string {
  return html.replace(ENTITY, (entity) => DECODED[entity] as string);
}

const DECODED: Record<string, string> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#34;": '"',
  "&#39;": "'",
};

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 20 }),
  fc.stringMatching(/^[<>"'&;#a-z0-9/=]{0,20}$/),
  fc.constantFrom(
    "<script>",
    "</p>",
    "&lt;",
    "&amp;lt;",
    "'\"",
    "{{name}}",
    "{% if %}",
    "%3Cb%3E",
    "PGI+",
    "<!--",
  ),
);
const value: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 5, arbitrary: text },
  { weight: 1, arbitrary: fc.oneof(fc.integer(), fc.double(), fc.boolean(), fc.constant(null)) },
  { weight: 2, arbitrary: fc.array(text, { maxLength: 4 }) },
  { weight: 1, arbitrary: fc.array(fc.array(text, { maxLength: 3 }), { maxLength: 3 }) },
  { weight: 1, arbitrary: fc.array(fc.record({ name: text, a: text }), { maxLength: 3 }) },
);
const argument = fc.oneof(
  fc.constantFrom("b", "c", "0", "1", "3", "'a'", "'name'", "'<'", "'&'", "''"),
  text.filter((one) => !/['{}\\\r\n]/.test(one)).map((one) => `'${one}'`),
);
const filter = fc
  .tuple(
    fc.constantFrom(...Object.keys(dialect.liquid.filters).filter((name) => name !== "raw")),
    fc.array(argument, { maxLength: 3 }),
  )
  .map(([name, args]) => (args.length > 0 ? `| ${name}: ${args.join(", ")}` : `| ${name}`));

test("two braces write no markup, whatever filters a value passes", () => {
  let count = 0;
  fc.assert(
    fc.property(value, value, value, fc.array(filter, { maxLength: 4 }), (a, b, c, filters) => {
      const written = rendered(`{{ a ${filters.join(" ")} }}`, { a, b, c });
      if (written === null) return;
      count++;
      expect(written.replace(ENTITY, "")).not.toMatch(MARKUP);
    }),
    { numRuns: 5_000 },
  );
  expect(count).toBeGreaterThan(500);
});

test("a fallback is text too", () => {
  const words = text.filter((one) => /^[^{}|:\r\n-]+$/.test(one) && !dialect.isFilter(one.trim()));
  fc.assert(
    fc.property(words, (fallback) => {
      expect(render(`{{nobody|${fallback}}}`, {}).replace(ENTITY, "")).not.toMatch(MARKUP);
    }),
  );
});

test("every way to write a variable escapes it, and it reads as it was given", () => {
  const ways = [
    "{{ a }}",
    "{{a}}",
    "{{- a -}}",
    "{{ a | default: 'x' }}",
    "{% echo a %}",
    "{% cycle a %}",
    "{% for one in l %}{{ one }}{% endfor %}",
    "{% assign b = a %}{{ b }}",
    "{% if true %}{{ o.a }}{% endif %}",
    '{{ o["a"] }}',
    "{% liquid echo a %}",
    "{% case 1 %}{% when 1 %}{{ a }}{% endcase %}",
  ];
  const full = text.filter((one) => one !== "");
  fc.assert(
    fc.property(full, fc.constantFrom(...ways), (a, way) => {
      const written = render(way, { a, l: [a], o: { a } });
      expect(written.replace(ENTITY, ""), way).not.toMatch(MARKUP);
      expect(decoded(written), way).toBe(a);
    }),
    { numRuns: 2_000 },
  );
});

test("three braces write what was given", () => {
  fc.assert(
    fc.property(text, (a) => {
      expect(render("{{{a}}}{{{ a }}}", { a })).toBe(a + a);
    }),
  );
});

test("text without braces stays as it is", () => {
  const still = fc.string({ unit: "binary" }).filter((one) => !/[{\0]/.test(one));
  fc.assert(
    fc.property(still, (source) => {
      expect(render(source, {})).toBe(source);
    }),
  );
});

test("any template renders or names what is wrong, in time", () => {
  const piece = fc.oneof(
    fc.constantFrom(
      ..."{{|}}|{{{|}}}|{%|%}|{{-|-}}|{%-|-%}|{{ a }}|{{a|b}}|{{{a|b}}}|{{ a | upcase }}|{{ l }}|{{ o.x.y }}".split(
        "|",
      ),
      ..."{% if a %}~{% elsif b %}~{% else %}~{% endif %}~{% for i in l %}~{% endfor %}~{% endcase %}".split(
        "~",
      ),
      ..."{% case a %}~{% when 'x' %}~{% assign a = l | first %}~{% capture c %}~{% endcapture %}".split("~"),
      ..."{% raw %}~{% endraw %}~{% comment %}~{% endcomment %}~{% liquid~{% cycle a, b %}~{% break %}".split(
        "~",
      ),
      ..."{% tablerow i in (1..3) %}~{% endtablerow %}~{% increment a %}~{% unless a %}~{% endunless %}".split(
        "~",
      ),
      ..."{{ (1..9) | join }}~{{ a[b[l]] }}~{{ l[0] }}~{{ o['x'] }}~ | ~: ~'~\"~\\~\n~..~[~]~(~)~=~,".split(
        "~",
      ),
    ),
    text,
  );
  const began = performance.now();
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), value, (pieces, b) => {
      rendered(pieces.join(""), { a: "x", b, l: ["x", ["y"]], o: { x: { y: "z" } } });
    }),
    { numRuns: 3_000 },
  );
  expect(performance.now() - began).toBeLessThan(60_000);
});
