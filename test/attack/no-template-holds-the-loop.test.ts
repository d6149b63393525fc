import { afterEach, describe, expect, test, vi } from "vitest";
import { TemplateFault } from "../../src/template/fault.ts";
import { RenderBudget, renderEmail, renderInPieces } from "../../src/template/render.ts";
import { costOf, costOfLongest } from "../rig/held.ts";
import { atOnce, compileAndRender, compiled } from "../rig/rendering.ts";

/** Of the 50 ms of a turn, what others worked in it before is 10. */
const PIECE_MS_MAX = 40;

function render(html: string, variables: Record<string, unknown>): string {
  return atOnce(compileAndRender({ html }, variables)).html;
}

/** Whether it was refused, and what the longest piece of it cost. */
function attempt(html: string, variables: Record<string, unknown>): { isRefused: boolean; ms: number } {
  let isRefused = false;
  const ms = costOfLongest(function* () {
    try {
      yield* compileAndRender({ html }, variables);
    } catch (error) {
      if (!(error instanceof TemplateFault)) throw error;
      isRefused = true;
    }
  }, PIECE_MS_MAX);
  return { isRefused, ms };
}

const objects = (count: number) => Array.from({ length: count }, (_, n) => ({ a: { b: n } }));
const alike = (count: number, chars: number) =>
  Array.from({ length: count }, (_, n) => `${"a".repeat(chars)}${(n * 7_919) % count}`);
const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]));
/** Of the same place in a hash table of V8, whose hash of a number is no secret. */
function ofOneHash(count: number): number[] {
  const found: number[] = [];
  for (let number = 0; found.length < count; number++)
    if ((hashOf(number) & 0x1fff) === 0) found.push(number);
  return found;
}

function hashOf(number: number): number {
  let hash = (~number + (number << 15)) | 0;
  hash ^= hash >>> 12;
  hash = (hash + (hash << 2)) | 0;
  hash ^= hash >>> 4;
  hash = Math.imul(hash, 2_057);
  return hash ^ (hash >>> 16);
}

const SEARCHED = { t: ["a".repeat(200_000)], s: [`${"a".repeat(100_000)}b`] };
const often = (body: string) =>
  `{% for i in (1..2000) %}{% for j in (1..2000) %}${body}{% endfor %}{% endfor %}`;

describe("no letter is rendered that costs too much:", () => {
  test.each([
    [
      "items times the segments of a path",
      "{{ a | map: k | size }}",
      { a: objects(300), k: ".".repeat(1e6) },
    ],
    ["the same by sum", "{{ a | sum: k }}", { a: objects(300), k: "a.".repeat(5e5) }],
    ["the same by where", "{{ a | where: k, 1 | size }}", { a: objects(300), k: "a.".repeat(5e5) }],
    ["the same by find_index", "{{ a | find_index: k, 1 }}", { a: objects(300), k: "a.".repeat(5e5) }],
    ["a sort by the end of long texts", often("{{ a | sort | size }}"), { a: alike(500, 2_000) }],
    [
      "a sort by a field of long texts",
      "{{ a | sort_natural: k | size }}",
      { a: objects(5_000), k: "a.b".repeat(300) },
    ],
    ["a range that cannot be counted", "{% for i in (9007199254740992..9007199254740994) %}{% endfor %}", {}],
    [
      "the same in the path of a field",
      "{{ a | map: 'a' | where: k, 1 }}",
      { a: objects(3), k: "x[(9007199254740992..9007199254740994)]" },
    ],
    ["lists as bounds", often("{% assign r = (l..1) %}"), { l: Array(3_000).fill({ a: 1 }) }],
    ["the same from below", "{{ (n..m) | size }}", { n: "-9007199254740993", m: -9007199254740992 }],
    ["loops over nothing", often("{% for x in o limit: 0 %}{% endfor %}"), { o: keys(3_000) }],
    ["lists as limits", often("{% for x in (1..2) offset: l %}{% endfor %}"), { l: alike(1_000, 9) }],
    [
      "lists as columns",
      often("{% tablerow x in (1..2) cols: l %}{% endtablerow %}"),
      { l: alike(1_000, 9) },
    ],
    ["lists as groups", often("{% cycle l: 'a', 'b' %}"), { l: alike(1_000, 9) }],
    ["lists as names", often("{{ o[l] }}"), { o: {}, l: alike(1_000, 9) }],
    [
      "lists as names of what is found",
      often("{% assign r = v | find: l %}"),
      { v: [1, 2], l: alike(300, 2_000) },
    ],
    [
      "objects as names of what is sorted by",
      often("{{ v | sort: l }}"),
      { v: alike(1_000, 9), l: objects(3_000) },
    ],
    ["endless names", often("{% unless w[n] %}{% endunless %}"), { w: "Rome", n: "<a>".repeat(70_000) }],
    [
      "loops over one letter",
      often("{% for x in v limit: w offset: v reversed %}{% endfor %}"),
      { v: "a", w: "a.b" },
    ],
    ["counting the fields of an object", often("{{ o.size }}"), { o: keys(3_000) }],
    ["missing names", often("{% if nobody %}{% endif %}{{ none | default: 1 }}"), {}],
    ["long conditions", often(`{% if ${Array(500).fill("1").join(" and ")} %}{% endif %}`), {}],
    ["many values without a use", often(`{% assign x = ${"1 ".repeat(1_500)} %}`), {}],
    ["dates by name", often("{{ 'now' | date: f }}"), { f: "%A %B %c %x %X ".repeat(30) }],
    ["dates by the names in a list", "{{ 'now' | date: f }}", { f: Array(3_000).fill("%B%B") }],
    ["a list whose texts are searched", "{{ t | replace_last: s, '' }}", SEARCHED],
    ["a text in which those of a list are searched", "{{ t[0] | remove_last: s }}", SEARCHED],
    ["texts of a list that another may contain", "{% if t[0] contains s %}{% endif %}", SEARCHED],
    ["dates in time zones", often("{{ 'now' | date: '%Y', 'Europe/Rome' }}"), {}],
    [
      "lists that are compared",
      often("{% if l == m %}{% endif %}"),
      { l: alike(1_000, 3), m: alike(1_000, 3) },
    ],
    ["markup that is escaped", often("{{ t }}"), { t: "<\"'&>".repeat(3_000) }],
    ["indented JSON", often("{{ l | json: 10 }}"), { l: [[[[[[[[alike(300, 3)]]]]]]]] }],
    ["texts of one character", often("{{ t | split: '' | uniq | size }}"), { t: "abcdefghij".repeat(1_000) }],
    ["what a capture holds", often("{% capture t %}{{ t }}{{ t }}{% endcapture %}"), { t: "x" }],
  ])("%s", (_, source, variables) => {
    const { isRefused, ms } = attempt(source, variables);
    expect(isRefused).toBe(true);
    expect(ms).toBeLessThan(PIECE_MS_MAX);
  });
});

describe("what a value looks like makes no step dearer:", () => {
  const padded = (end: string) => `${"0".repeat(40_000)}${end}`;
  test.each([
    ["a number with many zeros that cuts a text", "{{ t | truncate: n }}"],
    ["the same in a list", "{{ t | truncate: l }}"],
    ["the same in a slice", "{{ t | slice: 0, n }}"],
    ["the same as columns", "{% tablerow x in (1..2000) cols: n %}{% endtablerow %}"],
    ["a size that is a text", "{% for i in (1..3000) %}{% if o.size %}{% endif %}{% endfor %}"],
    ["a size that is a list", "{% for i in (1..1000) %}{% if p.size %}{% endif %}{% endfor %}"],
    ["numbers of one hash", "{{ c | uniq | size }}"],
  ])("%s", (_, source) => {
    const t = "a".repeat(20_000);
    const sizes = { o: { size: padded("1") }, p: { size: Array(20_000).fill(1) } };
    const variables = { t, n: padded("15000"), l: [padded("15000")], c: ofOneHash(12_000), ...sizes };
    const { isRefused, ms } = attempt(source, variables);
    expect(isRefused).toBe(false);
    expect(ms).toBeLessThan(PIECE_MS_MAX);
  });

  test("the name of a loop", () => {
    const compared = Array(100).fill("forloop == 1").join(" or ");
    const loop = `{% for y in '${"\x01".repeat(2_500)}' %}{% if ${compared} %}{% endif %}{% endfor %}`;
    const source = `{% for x in (1..3000) %}${loop}{% endfor %}`;
    const { isRefused, ms } = attempt(source, {});
    expect(isRefused).toBe(true);
    expect(ms).toBeLessThan(PIECE_MS_MAX);
  });

  test("a text in place of a number does not become part of the sum of work", () => {
    const inEights = (tag: string) => `${tag.slice(0, -2).padEnd(38)}${tag.slice(-2)}`;
    const loop = `${inEights("{% for i in (1..30000) %}")}1234${inEights("{% endfor %}")}`;
    for (const first of ["{{ text | slice: 0, '1e-9' }}", "{% assign r = aged | date: '' %}"]) {
      const source = inEights(first) + loop;
      const { isRefused } = attempt(source, { text: "a", aged: { length: "1e-9" } });
      expect(isRefused).toBe(true);
    }
  });

  test("an object's own size is a value like any other", () => {
    expect(render("{{ f.size }}", { f: { size: 40_000_000 } })).toBe("40000000");
  });

  test("what counts is the number that is written", () => {
    const variables = { t: "abcdefghij", l: [1, 1.5, "1", 1, "1", null, null, true], n: "05" };
    expect(render("{{ t | slice: '1', '2' }} {{ t | truncate: n }}", variables)).toBe("bc ab...");
    expect(render("{{ l | slice: '1', '2' | json }}", variables)).toBe("[1.5,&quot;1&quot;]");
    expect(render("{{ l | uniq | json }}", variables)).toBe("[1,1.5,&quot;1&quot;,null,true]");
    expect(render("{% for x in (1..9) limit: '2' offset: '1' %}{{ x }}{% endfor %}", {})).toBe("23");
  });
});

describe("no template is compiled that costs too much:", () => {
  test.each([
    ["open braces", "{{".repeat(250_000)],
    ["one open brace after many lines", `${"x\n".repeat(249_000)}{{`],
    ["statements in one tag", `{% liquid\n${"echo a\n".repeat(550)}%}`.repeat(120)],
    ["branches", `{% if a %}${"{% elsif a == b or c %}".repeat(4_900)}{% endif %}`],
    ["values to choose from", `{% case a %}${`{% when ${"1,".repeat(1_900)}1 %}`.repeat(120)}{% endcase %}`],
    ["blocks in blocks", ("{% if a %}".repeat(49) + "{% endif %}".repeat(49)).repeat(60)],
    ["paths", `{{ a${".b".repeat(1_900)} }}`.repeat(120)],
    ["brackets", `{{ ${"a[".repeat(45)}1${"]".repeat(45)} }}`.repeat(3_000)],
    ["brackets in brackets", `{{ ${"a[".repeat(1_200)}1${"]".repeat(1_200)} }}`],
    ["filters", "{{ a | upcase | upcase | upcase | upcase | upcase }}".repeat(4_000)],
    ["lines of a comment", `{% # ${"\n".repeat(3_900)}x %}`.repeat(120)],
    ["raw text", `{% raw %}${"{% endraw ".repeat(40_000)}`],
    ["fallbacks", `{{a|${"x".repeat(3_900)}}}`.repeat(120)],
    ["pieces", "{{a}}".repeat(100_000)],
  ])("%s", (_, html) => {
    const { isRefused, ms } = attempt(html.slice(0, 500_000), {});
    expect(isRefused).toBe(true);
    expect(ms).toBeLessThan(PIECE_MS_MAX);
  });

  test("a long text without expressions costs nothing", () => {
    const html = "{ % } x".repeat(70_000);
    expect(attempt(html, {}).isRefused).toBe(false);
    expect(costOf(() => compiled({ html, text: html }), 15)).toBeLessThan(15);
  });
});

describe("a slow machine", () => {
  afterEach(() => vi.restoreAllMocks());

  test("lets others have their turn while an e-mail is rendered", async () => {
    const version = compiled({ html: "{% for i in (1..3000) %}{{ i | plus: 1 }}{% endfor %}" });
    const pieces = [...renderInPieces(version, {}, new RenderBudget(0))].length;
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => {
      now += 4;
      return now;
    });
    let turns = 0;
    let goesOn = true;
    const count = () => {
      turns++;
      if (goesOn) setImmediate(count);
    };
    setImmediate(count);
    await renderEmail(version, {}, new RenderBudget(0));
    goesOn = false;
    expect(turns).toBeGreaterThan(pieces / 4);
    expect(pieces).toBeGreaterThan(5);
  });

  test("refuses no more than others", () => {
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => {
      now += 60_000;
      return now;
    });
    expect(render("{% for i in (1..100) %}{{ i }}{% endfor %}", {})).toHaveLength(192);
  });

  test("the same template is refused after the same work, each time", () => {
    const source = (count: number) => `{% for i in (1..${count}) %}{{ 'a' | upcase }}{% endfor %}`;
    const isRefused = (count: number) => attempt(source(count), {}).isRefused;
    let [fits, fails] = [1, 100_000];
    while (fails - fits > 1) {
      const middle = Math.floor((fits + fails) / 2);
      if (isRefused(middle)) fails = middle;
      else fits = middle;
    }
    expect(fits).toBeGreaterThan(1_000);
    for (let n = 0; n < 5; n++) expect([isRefused(fits), isRefused(fails)]).toEqual([false, true]);
  });
});
