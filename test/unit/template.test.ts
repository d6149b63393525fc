import { describe, expect, test } from "vitest";
import type { Compiled, Source } from "../../src/template/compile.ts";
import { TemplateFault } from "../../src/template/fault.ts";
import { EMAIL_UNITS_MAX } from "../../src/template/meter.ts";
import { RenderBudget, type RenderedEmail, renderInPieces } from "../../src/template/render.ts";
import { costOfLongest } from "../rig/held.ts";
import { atOnce, compileAndRender, compiled } from "../rig/rendering.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);

function letter(source: Partial<Source>, variables: Record<string, unknown> = {}): RenderedEmail {
  return rendered(compiled(source), variables, new RenderBudget(NOW));
}

function rendered(
  version: Compiled,
  variables: Record<string, unknown>,
  budget: RenderBudget,
): RenderedEmail {
  return atOnce(renderInPieces(version, variables, budget));
}

function html(source: string, variables: Record<string, unknown> = {}): string {
  return letter({ html: source }, variables).html;
}

/** Of its longest piece. */
function costOfRefusal(source: string, variables: Record<string, unknown>): number {
  return costOfLongest(function* () {
    const pieces = compileAndRender({ html: source }, variables);
    let isRefused = false;
    try {
      yield* pieces;
    } catch (error) {
      if (!(error instanceof TemplateFault)) throw error;
      isRefused = true;
    }
    expect(isRefused).toBe(true);
  }, 40);
}

function faultOf(work: () => unknown): TemplateFault {
  try {
    work();
  } catch (error) {
    if (error instanceof TemplateFault) return error;
    throw error;
  }
  throw new Error("there was no fault");
}

const given = {
  name: "<A&'\">",
  user: { name: "Ann" },
  items: [{ n: "<1>" }, { n: 2 }],
  empty: "",
  none: null,
};

describe("the language", () => {
  test.each([
    ["escapes", "{{name}}", "&lt;A&amp;&#39;&quot;&gt;"],
    ["escapes after filters", "{{ name | downcase }}", "&lt;a&amp;&#39;&quot;&gt;"],
    ["writes raw in three braces", "{{{name}}} {{{ name | downcase }}}", "<A&'\"> <a&'\">"],
    ["writes raw by a filter", "{{ name | raw }}", "<A&'\">"],
    ["does not escape twice", "{{ name | escape }}", "&lt;A&amp;&#39;&#34;&gt;"],
    ["escapes what is echoed", "{% echo name %}", "&lt;A&amp;&#39;&quot;&gt;"],
    ["escapes what cycles", "{% cycle name, user.name %}", "&lt;A&amp;&#39;&quot;&gt;"],
    ["escapes what loops", "{% for i in items %}{{i.n}},{% endfor %}", "&lt;1&gt;,2,"],
    ["escapes lists", "{{ items | map: 'n' }}", "&lt;1&gt;2"],
    ["falls back to words", "{{nobody|dear friend}}", "dear friend"],
    ["falls back to an apostrophe", "{{nobody|don't}} {{user.name}}", "don&#39;t Ann"],
    ["falls back to quoted words", "{{nobody|\"first\"}}{{nobody|'last'}}", "firstlast"],
    ["falls back to nothing", "{{nobody|}}", ""],
    ["falls back when empty", "{{empty|x}}{{none|y}}", "xy"],
    ["falls back in depth", "{{user.nick|x}}{{nobody.nick|y}}", "xy"],
    ["falls back by a filter", "{{ nobody | default: '<b>' }}", "&lt;b&gt;"],
    ["escapes fallbacks", "{{nobody|<b>}}{{{nobody|<b>}}}", "&lt;b&gt;<b>"],
    ["does not fall back when given", "{{user.name|friend}}", "Ann"],
    ["strips around fallbacks too", "a {{- user.name|x -}} b", "aAnnb"],
    ["takes filters for what they are", "{{ user.name | upcase }}", "ANN"],
    ["asks whether something is there", "{% if nobody %}y{% else %}n{% endif %}", "n"],
    ["leaves raw blocks alone", "{% raw %}{{ x }} {{{y|z}}}{% endraw %}", "{{ x }} {{{y|z}}}"],
    ["leaves comments out", "{% comment %}{{ x }}{% endcomment %}", ""],
    ["counts", "{{ items.size }}{{ items | size }}{{ user.name.size }}", "223"],
    ["compares", "{% if items.size == 2 and user.name contains 'nn' %}y{% endif %}", "y"],
    ["chooses", "{% case user.name %}{% when 'Bob' %}b{% when 'Ann' %}a{% endcase %}", "a"],
    ["sums", "{{ 2 | plus: 3 | times: 4 }}", "20"],
    ["joins", "{{ items | map: 'n' | join: ' and ' }}", "&lt;1&gt; and 2"],
    ["knows the time it was given", "{{ 'now' | date: '%Y-%m-%d %H:%M' }}", "2026-11-21 09:30"],
    ["writes dates in UTC", "{{ '2026-11-20T23:30:00-05:00' | date: '%d %b %H:%M' }}", "21 Nov 04:30"],
  ])("%s", (_, source, expected) => {
    expect(html(source, given)).toBe(expected);
  });

  test("looks through long lists for a long text", () => {
    const addresses = Array.from({ length: 2_000 }, (_, n) => `${"a".repeat(30)}${n}@example.com`);
    const source = "{% if addresses contains address %}y{% else %}n{% endif %}".repeat(5);
    expect(html(source, { addresses, address: `${"b".repeat(40)}@example.com` })).toBe("nnnnn");
  });

  test("escapes in html alone", () => {
    const rendered = letter(
      { subject: "{{name}} & {{{name}}}", html: "{{name}}", text: "{{name}}" },
      { name: "<" },
    );
    expect(rendered).toMatchObject({ subject: "< & <", html: "&lt;", text: "<" });
  });

  test("has declared fallbacks", () => {
    const declared = [
      { key: "a", fallback_value: 3 },
      { key: "b", fallback_value: null },
      { key: "__proto__", fallback_value: "x" },
    ];
    expect(letter({ html: "{{a}}", declared }).html).toBe("3");
    expect(letter({ html: "{{a}}", declared }, { a: null }).html).toBe("3");
    expect(letter({ html: "{{a}}", declared }, { a: "" }).html).toBe("");
    expect(faultOf(() => letter({ html: "{{b}}", declared }, {})).missing).toBe("b");
  });

  test("writes what the record can keep", () => {
    expect(html("{{ a | split: '' | join: '-' }}", { a: "😀" })).toBe("\ufffd-\ufffd");
    expect(faultOf(() => html('{{ "\\u0000" }}')).message).toContain("U+0000");
  });

  test("keeps a letter's changes to itself", () => {
    const counting = compiled({
      html: "{% increment n %}{% assign name = 'x' %}",
      text: "{% increment n %}",
    });
    const variables = { name: "y" };
    for (let n = 0; n < 2; n++)
      expect(rendered(counting, variables, new RenderBudget(NOW))).toMatchObject({
        html: "0",
        text: "0",
      });
    expect(variables).toEqual({ name: "y" });
  });

  test("lists the variables it asks for", () => {
    const { variables } = compiled({
      subject: "{{subject_line}}",
      html: `{% for item in items %}{{item.n}} {{forloop.index}}{% assign own = rate %}{{own}}{% endfor %}
        {{user.name}} {{list.size}} {{nick|friend}} {% if flag == other %}{% endif %} {{ a | append: b }} {{c[d]}}`,
      text: "{% comment %}{{note}}{{not|e}}{% endcomment %}{% raw %}{{as|is}}{% endraw %}{{user.name}} {% for i in (1..top) %}{% endfor %}",
    });
    expect(Object.fromEntries(variables.map(({ key, type }) => [key, type]))).toEqual({
      subject_line: "string",
      items: "list",
      rate: "string",
      user: "object",
      list: "string",
      nick: "string",
      flag: "string",
      other: "string",
      a: "string",
      b: "string",
      c: "object",
      d: "string",
      top: "string",
    });
    expect(variables.find(({ key }) => key === "nick")?.fallback_value).toBe("friend");
  });
});

describe("a fault names line and column:", () => {
  test.each([
    ["a block without end", "a\n  {% if x %}", 2, 3, "not closed"],
    ["an end without block", "a\n{% endif %}", 2, 1, "endif"],
    ["open braces", "a\n\n b {{ x", 3, 4, "not closed"],
    ["three open braces", "{{{ x }}", 1, 1, "not closed"],
    ["an unknown filter", "a\n{{ x | nope: 1 }}", 2, 1, "undefined filter: nope"],
    ["an unknown tag", "{% foo %}", 1, 1, '"foo" not found'],
    ["a file", "\n{% include 'a' %}", 2, 1, '"include" not found'],
    ["another file", "\n{% render 'a' %}", 2, 1, '"render" not found'],
    ["a layout", "{% layout 'a' %}", 1, 1, '"layout" not found'],
    ["two words", "\n{{ first name }}", 2, 1, "one value"],
    ["a loop over nothing", "\n\n{% for x %}{% endfor %}", 3, 1, "illegal tag"],
  ])("%s", (_, source, line, column, reason) => {
    const fault = faultOf(() => compiled({ html: source }));
    expect(fault).toMatchObject({ part: "html", line });
    expect(fault.message).toContain(reason);
    expect(fault.column).toBe(column);
  });

  test("a missing variable", () => {
    const text = "a\n {{ user.name }}";
    const fault = faultOf(() => letter({ text }, { user: {} }));
    expect(fault).toMatchObject({ part: "text", line: 2, column: 5, missing: "user.name" });
    expect(fault.place).toBe("text, line 2, column 5");
  });

  test("an object where text belongs", () => {
    expect(faultOf(() => html("{{ user }}", given)).message).toContain("name one of its fields");
  });
});

describe("nobody reaches", () => {
  const names = [
    "constructor",
    "__proto__",
    "toString",
    "hasOwnProperty",
    "prototype",
    "valueOf",
    "__defineGetter__",
  ];

  test.each(names)("%s", (name) => {
    for (const source of [
      `{{ ${name} }}`,
      `{{ text.${name} }}`,
      `{{ object["${name}"] }}`,
      `{{ list.${name} }}`,
    ]) {
      const variables = { text: "x", object: {}, list: [1] };
      expect(faultOf(() => html(source, variables)).missing, source).toContain(name);
    }
    expect(html(`{% if ${name} %}there{% endif %}{{ ${name} | default: "none" }}`)).toBe("none");
  });

  test("what nobody gave, even when it is named so", () => {
    const variables = JSON.parse('{"__proto__": {"polluted": "x"}, "constructor": "plain"}');
    expect(html("{{ __proto__.polluted }} {{ constructor }}", variables)).toBe("x plain");
    expect(faultOf(() => html("{{ polluted }}", variables)).missing).toBe("polluted");
    expect(
      html("{% assign __proto__ = 'x' %}{% capture constructor %}y{% endcapture %}{{ constructor }}"),
    ).toBe("y");
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  test("the machinery of a loop", () => {
    const loop = (path: string) => `{% for i in (1..2) %}{{ forloop.${path} }}{% endfor %}`;
    expect(() => html(loop("constructor"))).toThrow(TemplateFault);
    expect(() => html(loop("constructor.constructor"))).toThrow(TemplateFault);
    expect(() => html(loop("__proto__.constructor"))).toThrow(TemplateFault);
  });
});

describe("a bomb is defused in time:", () => {
  const long = "x".repeat(1_000_000);
  const doubled = (times: number, step: string) => `{% for i in (1..${times}) %}${step}{% endfor %}`;
  const nested = `{% if x %}`.repeat(3_000) + "{% endif %}".repeat(3_000);

  test.each([
    ["a loop", "{% for i in (1..1000000) %}{% for j in (1..1000000) %}{% endfor %}{% endfor %}", {}],
    ["an empty loop", "{% for i in (1..4000000) %}{% endfor %}", {}],
    ["a range", "{% for i in (1..1000000000000) %}{% endfor %}", {}],
    ["a range of text", "{% for i in (1..n) %}{% endfor %}", { n: "1e400" }],
    ["output", `{% for i in (1..1000000) %}${"x".repeat(1_000)}{% endfor %}`, {}],
    ["output of variables", "{% for i in (1..1000) %}{{ long }}{% endfor %}", { long }],
    [
      "text that doubles",
      `{% assign a = long %}${doubled(60, "{% assign a = a | append: a %}")}{{ a }}`,
      { long },
    ],
    [
      "captures that double",
      doubled(60, "{% capture a %}{{ a | default: 'x' }}{{ a }}x{% endcapture %}"),
      { a: "x" },
    ],
    ["a capture", `{% capture a %}${doubled(1_000_000, "x".repeat(1_000))}{% endcapture %}`, {}],
    [
      "lists that double",
      `{% assign a = l %}${doubled(60, "{% assign a = a | concat: a %}")}{{ a }}`,
      { l: [[long]] },
    ],
    [
      "lists of one long list",
      "{% assign a = l | concat: l | concat: l | concat: l | concat: l %}{{ a }}",
      { l: [[long]] },
    ],
    [
      "lists that are compared",
      "{% assign a = l | concat: l %}{% for i in (1..100000) %}{% if a == a %}{% endif %}{% endfor %}",
      { l: Array(50_000).fill("x") },
    ],
    ["a search", "{{ a | replace: b, 'x' }}", { a: "a".repeat(1e6), b: `${"a".repeat(5e5)}b` }],
    [
      "a search by operator",
      "{% if a contains b %}{% endif %}",
      { a: "a".repeat(1e6), b: `b${"a".repeat(5e5)}` },
    ],
    ["a search by split", "{{ a | split: b }}", { a: "a".repeat(1e6), b: `${"a".repeat(5e5)}b` }],
    ["padding", "{{ 1 | date: '%1000000000Y' }}", {}],
    ["coding", "{{ a | url_encode }}{{ a | slugify }}", { a: "é ".repeat(2e6) }],
    [
      "a long list that is sorted",
      "{{ l | sort | size }}",
      { l: Array.from({ length: 300_000 }, (_, n) => -n) },
    ],
    [
      "many items that are compared",
      "{{ l | where: 'a', 'b' | size }}",
      { l: Array(300_000).fill({ a: "c" }) },
    ],
    ["items compared with a list", "{{ l | where: 'a', m | size }}", { l: [{ a: [1] }], m: [1] }],
    ["a list chosen by", "{% case l %}{% when l %}{% endcase %}", { l: [1] }],
    ["depth", nested, { x: 1 }],
    ["depth in one tag", `{% liquid\n${"if x\n".repeat(400)}${"endif\n".repeat(300)}%}`, { x: 1 }],
    ["depth of an expression", `{{ ${"a[".repeat(5_000)}1${"]".repeat(5_000)} }}`, { a: {} }],
    ["many pieces", "{{a}}".repeat(20_000), { a: 1 }],
    ["many filters", `{{ a ${"| upcase ".repeat(10_000)} }}`, { a: "x" }],
    ["many variables", Array.from({ length: 201 }, (_, n) => `{{v${n}|x}}`).join(""), {}],
    ["a long source", "x".repeat(500_001), {}],
  ])("%s", (_, source, variables) => {
    expect(costOfRefusal(source, variables)).toBeLessThan(40);
  });

  test.each([
    ["open braces", "{{".repeat(100_000)],
    ["half a fallback", `{{a|${" ".repeat(400_000)}`],
    ["a long fallback", `{{a|${"x ".repeat(200_000)}}}`],
    ["spaces", `{{${" ".repeat(400_000)}`],
  ])("%s", (_, source) => {
    expect(costOfRefusal(source, {})).toBeLessThan(40);
  });

  test("one budget holds for all letters of a request", () => {
    const page = compiled({ html: "x".repeat(450_000) });
    const budget = new RenderBudget(NOW);
    for (let n = 0; n < 9; n++) rendered(page, {}, budget);
    expect(faultOf(() => rendered(page, {}, budget)).message).toContain("4194304");
    const wide = compiled({ html: "ö".repeat(450_000) });
    const half = new RenderBudget(NOW);
    for (let n = 0; n < 4; n++) rendered(wide, {}, half);
    expect(faultOf(() => rendered(wide, {}, half)).message).toContain("4194304 bytes");
    const endless = compiled({ html: "{% for i in (1..4000000) %}{% endfor %}" });
    const spent = new RenderBudget(NOW, 2 * EMAIL_UNITS_MAX + 1);
    const work = `${EMAIL_UNITS_MAX} units of work`;
    for (let n = 0; n < 2; n++) expect(faultOf(() => rendered(endless, {}, spent)).message).toContain(work);
    expect(faultOf(() => rendered(compiled({ html: "x" }), {}, spent)).message).toContain("together");
  });
});
