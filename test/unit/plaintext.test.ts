import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { plaintextOf } from "../../src/message/plaintext.ts";
import { costOf } from "../rig/held.ts";

describe("plain text of HTML", () => {
  test.each([
    ["text as it is", "Hello", "Hello"],
    ["white space as a browser folds it", "  a \n\t b&nbsp; c  ", "a b c"],
    ["inline elements join their text", "<b>a</b>b <i>c</i> d", "ab c d"],
    ["paragraphs", "<p>a</p>\n\n<p>b</p><p></p><p>c</p>", "a\n\nb\n\nc"],
    ["headings", "<h1>Title</h1>text", "Title\n\ntext"],
    ["blocks", "<div>a</div><div><div>b</div></div>c", "a\nb\nc"],
    ["line breaks, at most one blank line", "a<br>b<br/><br><br><br>c", "a\nb\n\nc"],
    ["rules", "a<hr>b", "a\n\n---\n\nb"],
    ["lists", "a<ul><li>b</li><li>c</li></ul>d", "a\n\n- b\n- c\n\nd"],
    ["ordered lists", "<ol><li>a<li>b</ol>", "1. a\n2. b"],
    ["nested lists", "<ul><li>a<ol><li>b</li></ol></li><li>c</li></ul>", "- a\n  1. b\n- c"],
    ["paragraphs in lists", "<ul><li><p>a</p></li></ul>", "- a"],
    ["tables", "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "a b\n1 2"],
    ["quotes", "<blockquote>a<br>b</blockquote>c", "> a\n> b\n\nc"],
    ["preformatted text", "<pre>a\n  b\n\n\n\nc <b>d</b></pre>e", "a\n  b\n\nc d\n\ne"],
    ["links", '<a href="https://x.com/a?b=1&amp;c=2">Go</a>.', "Go (https://x.com/a?b=1&c=2)."],
    ["links that name themselves", '<a href="https://x.com/">x.com</a>', "x.com"],
    [
      "mail and phone links",
      '<a href="mailto:a@x.com?subject=s">a@x.com</a> <a href="tel:+1">call</a>',
      "a@x.com call (+1)",
    ],
    ["links without target", '<a name="x">a</a> <a href="#x">b</a> <a href="javascript:x()">c</a>', "a b c"],
    ["links without text", '<a href="https://x.com"><img src="a.png"></a>', "https://x.com"],
    [
      "links around images",
      '<a href="https://x.com"><img alt="Logo" src="a.png"></a>',
      "Logo (https://x.com)",
    ],
    ["links that never end", '<a href="https://x.com">a', "a (https://x.com)"],
    ["images", "a <img alt='b &amp; c'> d <img>", "a b & c d"],
    ["unquoted attributes", "<a class=x href=https://x.com/y>a</a>", "a (https://x.com/y)"],
    ["attributes inside others", `<a title="> href='n'" href="y">a</a>`, "a (y)"],
    ["entities", "&lt;b&gt; &amp;amp; &euro; &uuml;&Eacute;&szlig; &hellip; &copy;", "<b> &amp; € üÉß … ©"],
    ["numeric entities", "&#65;&#x42;&#8364;&#128512;&#151;&#xD800;&#0;", "AB€😀—\ufffd\ufffd"],
    ["what is no entity", "AT&T &unknown; &; a&b", "AT&T &unknown; &; a&b"],
    ["a lone angle bracket", "1 < 2 <3 a<b", "1 < 2 <3 a"],
    ["soft hyphens", "Donau&shy;dampf&#8203;schiff", "Donaudampfschiff"],
    ["head, style and script", "<head><title>t</title><style>p{}</style></head><script>a<b</script>c", "c"],
    [
      "comments and declarations",
      "<!DOCTYPE html><!-- a > b --><![if !mso]>c<![endif]><!--[if mso]>d<![endif]-->",
      "c",
    ],
    ["capital letters", "<P>a</P><STYLE>x</style><BR>b", "a\n\nb"],
    ["hidden elements", '<div style="display: none">a<div>b</div></div>c<img style="display:none">d', "cd"],
    [
      "previews of templates",
      '<div data-skip-in-text="true">Preview<div>&zwnj;&nbsp;</div></div>Hello',
      "Hello",
    ],
    ["a hidden element that never ends", '<div style="display:none">a<p>b', "a\n\nb"],
    ["drawings", "<svg><text>a</text></svg>b<svg/>c", "bc"],
    ["nothing", "", ""],
    ["only a picture", '<p><img src="x"></p>', ""],
    ["what never ends", '<p>a</p><a href="', "a"],
  ])("%s", (_, html, text) => {
    expect(plaintextOf(html)).toBe(text);
  });

  test("a whole mail", () => {
    const html = `<!DOCTYPE html><html><head><title>Order</title><style>td { color: red }</style></head>
      <body><div style="display:none">Your order is on its way</div>
      <table width="100%"><tr><td align="center"><table><tr><td>
        <a href="https://shop.example.com"><img src="logo.png" alt="Example Shop"></a>
        <h1>Thank you, Jane!</h1>
        <p>Your order <strong>#10234</strong>
           is on its way.</p>
        <table><tr><td>Blue mug</td><td>9.90 &euro;</td></tr><tr><td>Filters</td><td>14.00 &euro;</td></tr></table>
        <p><a href="https://shop.example.com/o/10234" style="color:#fff">Track your parcel</a></p>
      </td></tr></table></td></tr></table>
      <p>Example Shop<br>1 Main Street</p></body></html>`;
    expect(plaintextOf(html)).toBe(
      [
        "Example Shop (https://shop.example.com)",
        "",
        "Thank you, Jane!",
        "",
        "Your order #10234 is on its way.",
        "",
        "Blue mug 9.90 €",
        "Filters 14.00 €",
        "",
        "Track your parcel (https://shop.example.com/o/10234)",
        "",
        "Example Shop",
        "1 Main Street",
      ].join("\n"),
    );
  });

  const tag = fc.constantFrom(
    ..."<p>|</p>|<div>|</div>|<ul>|</ul>|<ol>|<li>|</li>|<blockquote>|</blockquote>|<pre>|</pre>|<a href='x'>|</a>|<br>|<hr>|<td>".split(
      "|",
    ),
    ...[
      '<a href="',
      "<a b='",
      "<!--",
      "-->",
      "<",
      "</",
      ">",
      "&amp;",
      "&#",
      "<style>",
      "</style>",
      "<b style='display:none'>",
    ],
    ...[" ", "\n", "a", "word", "é", "😀", '"', "'", "=", "\0", "\ud800"],
  );
  const soup = fc.array(tag, { maxLength: 60 }).map((pieces) => pieces.join(""));

  test("whatever the HTML, the text is tidy", () => {
    fc.assert(
      fc.property(fc.oneof(soup, fc.string({ unit: "binary" })), (html) => {
        const text = plaintextOf(html);
        expect(text).not.toMatch(/\n\n\n|^\n|[ \n]$|[ \t]\n/);
      }),
      { numRuns: 5_000 },
    );
  });

  const hostile: [string, (length: number) => string][] = [
    ["open brackets", (n) => "<".repeat(n)],
    ["unfinished tags", (n) => "<a ".repeat(n / 3)],
    ["unfinished quotes", (n) => '<a b="'.repeat(n / 6)],
    ["alternating quotes", (n) => `<a b="'" c='"'`.repeat(n / 14)],
    ["comments that never end", (n) => "<!--".repeat(n / 4)],
    ["scripts that never end", (n) => "<script></".repeat(n / 10)],
    ["hidden elements that never end", (n) => '<i style="display:none">'.repeat(n / 24)],
    ["one tag of spaces", (n) => `<a${" ".repeat(n)}href=x>a</a>`],
    ["one tag of names", (n) => `<a${" b".repeat(n / 2)}>a</a>`],
    ["nested quotes", (n) => "<blockquote>a".repeat(n / 13)],
    ["nested lists", (n) => "<ul><li>a".repeat(n / 9)],
    ["links", (n) => '<a href="x">a</a>'.repeat(n / 17)],
    ["one link around everything", (n) => `<a href="x">${"<p>a</p>".repeat(n / 8)}</a>`],
    ["ampersands", (n) => "&".repeat(n)],
    ["numeric entities", (n) => "&#1;".repeat(n / 4)],
    ["spaces", (n) => " ".repeat(n)],
    ["spaces and words", (n) => "  a".repeat(n / 3)],
    ["display without none", (n) => `<a ${"display: ".repeat(n / 9)}>`],
  ];

  const FLOOR_MS = 1;
  const REPEATS = 5;
  test.each(hostile)("%s take time in proportion", (_, make) => {
    const [short, long] = [make(50_000), make(200_000)];
    const limitMs =
      10 *
      Math.max(
        costOf(() => plaintextOf(short), FLOOR_MS, REPEATS),
        FLOOR_MS,
      );
    expect(costOf(() => plaintextOf(long), limitMs, REPEATS)).toBeLessThan(limitMs); // 16 times if it grew with the square
  });

  test("the output is bounded", () => {
    expect(plaintextOf("<p>word</p>".repeat(200_000)).length).toBeLessThanOrEqual(256 * 1_024);
    expect(plaintextOf("a".repeat(1_000_000)).length).toBe(256 * 1_024);
  });
});
