import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { renderMarkdown } from "../../src/console/markdown.ts";

const DOCS = new URL("../../docs/", import.meta.url);
const PAGES = readdirSync(DOCS).filter((name) => name.endsWith(".md"));

/** What a reader sees, but for code. */
function proseOf(html: string): string {
  // a heading may have a number
  return html
    .replace(/<pre.*?<\/pre>|<code>.*?<\/code>|(?<=<h\d[^>]*>)\d+\. /gs, "")
    .replace(/<[^>]+>/g, "\n");
}

describe.each(PAGES)("%s", (name) => {
  const source = readFileSync(new URL(name, DOCS), "utf8");
  const { title, html, sections } = renderMarkdown(source, (target) => target);

  test("is shown without a mark of Markdown", () => {
    expect(title).not.toBe("");
    const left = proseOf(html)
      .split("\n")
      .filter((line) => /\*\*|`|\]\(|^\s*#{1,6} |^\s*\||^\s*[-*] |^\s*\d+\. |^\s*>|!\[/.test(line));
    expect(left).toEqual([]);
  });

  test("shows every block once: headings, code, rows and items", () => {
    const fences = source.match(/^ *```/gm)?.length ?? 0;
    const outside = source.replace(/^ *```.*?^ *```$/gms, "");
    const count = (pattern: RegExp, text = html) => text.match(pattern)?.length ?? 0;
    expect(count(/<pre /g)).toBe(fences / 2);
    expect(count(/<h[1-4] /g)).toBe(count(/^#{1,4} /gm, outside));
    expect(count(/<li>/g)).toBe(count(/^ *(?:[-*]|\d+\.) /gm, outside));
    // the line between head and rows is none
    expect(count(/<tr/g)).toBe(count(/^ *\|(?![ :|]*-[-:| ]*$)/gm, outside));
    expect(new Set(sections.map(({ id }) => id)).size).toBe(sections.length);
  });

  test("has no list in a list, which would be shown as one", () => {
    expect(source.replace(/^ *```.*?^ *```$/gms, "").match(/^ +(?:[-*]|\d+\.) .*$/gm) ?? []).toEqual([]);
  });
});
