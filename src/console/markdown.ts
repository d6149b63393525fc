/**
 * The Markdown that docs/ is written in, as HTML: headings, paragraphs, lists, tables, fenced code, links,
 * code, bold and italics. All text is escaped before anything else is looked at, so that no page can bring
 * markup of its own.
 */
export type PageSection = { id: string; title: string; level: number; text: string };
export type Rendered = { title: string; html: string; sections: PageSection[] };

/** `linkTo` says where a link of the page leads; null: its text stands alone. */
export function renderMarkdown(source: string, linkTo: (target: string) => string | null): Rendered {
  const sections: PageSection[] = [];
  const html: string[] = [];
  const inline = (text: string) => inlineHtml(text, linkTo);
  for (const block of blocksOf(source)) {
    const heading = /^(#{1,4}) +(.*)$/.exec(block.lines[0] ?? "");
    if (block.kind === "text" && heading) {
      const [, marks = "", title = ""] = heading;
      const id = slugOf(title);
      sections.push({ id, title: plainOf(title), level: marks.length, text: "" });
      html.push(`<h${marks.length} id="${id}">${inline(title)}</h${marks.length}>`);
      continue;
    }
    const last = sections.at(-1);
    if (last) last.text += ` ${wordsOf(block)}`;
    html.push(blockHtml(block, inline));
  }
  return { title: sections[0]?.title ?? "", html: html.join("\n"), sections };
}

/** What is searched: without the marks of links, tables and code. */
function wordsOf({ lines }: Block): string {
  const text = lines.filter((line) => !/^[|\s:-]+$/.test(line)).join(" ");
  return text
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[|`*\\]/g, " ")
    .replace(/\s+/g, " ");
}

type Block = { kind: "text" | "code" | "list" | "table"; lines: string[] };

function blocksOf(source: string): Block[] {
  const blocks: Block[] = [];
  let open: Block | null = null;
  for (const line of source.split("\n")) {
    if (open?.kind === "code") {
      if (/^ *```/.test(line)) open = null;
      else open.lines.push(line);
      continue;
    }
    if (/^ *```/.test(line)) {
      open = { kind: "code", lines: [] };
      blocks.push(open);
      continue;
    }
    if (line.trim() === "") {
      open = null;
      continue;
    }
    const kind = kindOf(line);
    const continues: boolean =
      open !== null && (open.kind === kind || (open.kind === "list" && kind === "text"));
    if (open && continues && !line.startsWith("#")) {
      open.lines.push(line);
      continue;
    }
    open = { kind, lines: [line] };
    blocks.push(open);
    if (line.startsWith("#")) open = null;
  }
  return blocks;
}

function kindOf(line: string): Block["kind"] {
  if (/^ *\|/.test(line)) return "table";
  return /^ *(?:[-*]|\d+\.) /.test(line) ? "list" : "text";
}

function blockHtml({ kind, lines }: Block, inline: (text: string) => string): string {
  switch (kind) {
    case "code":
      return `<pre tabindex="0"><code>${escapeHtml(lines.join("\n"))}</code></pre>`;
    case "table":
      return tableOf(lines, inline);
    case "list":
      return listHtml(lines, inline);
    case "text":
      return `<p>${inline(lines.map((line) => line.trim()).join(" "))}</p>`;
  }
}

function listHtml(lines: readonly string[], inline: (text: string) => string): string {
  const items: string[] = [];
  for (const line of lines) {
    const item = /^ *(?:[-*]|\d+\.) (.*)$/.exec(line)?.[1];
    if (item !== undefined) items.push(item);
    else items.push(`${items.pop() ?? ""} ${line.trim()}`);
  }
  const tag = /^ *\d/.test(lines[0] ?? "") ? "ol" : "ul";
  return `<${tag}>${items.map((item) => `<li>${inline(item)}</li>`).join("")}</${tag}>`;
}

/** A row that begins with a name in code can be linked to by that name. */
function tableOf(lines: readonly string[], inline: (text: string) => string): string {
  const [head = [], , ...rows] = lines.map(cellsOf);
  const body = rows.map((cells) => ({
    id: /^`([\w.-]+)`$/.exec(cells[0] ?? "")?.[1] ?? null,
    cells: cells.map(inline),
  }));
  return tableHtml(head.map(inline), body);
}

export type TableRow = { id: string | null; cells: readonly string[] };

/** Of HTML. On a narrow screen a row is a list of its cells, each behind the name of its column. */
export function tableHtml(head: readonly string[], rows: readonly TableRow[]): string {
  const names = head.map((cell) => `<th scope="col">${cell}</th>`).join("");
  const labels = head.map((cell) => cell.replace(/<[^>]*>/g, ""));
  const body = rows.map(({ id, cells }) => {
    const shown = cells.map((cell, n) => `<td data-column="${labels[n] ?? ""}">${cell}</td>`).join("");
    return `<tr${id === null ? "" : ` id="${id}"`}>${shown}</tr>`;
  });
  return `<div class="wide" tabindex="0"><table><thead><tr>${names}</tr></thead><tbody>${body.join("")}</tbody></table></div>`;
}

function cellsOf(line: string): string[] {
  return line
    .trim()
    .replace(/^\||\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function inlineHtml(text: string, linkTo: (target: string) => string | null): string {
  return text
    .split(/(`[^`]+`)/)
    .map((part) => (part.startsWith("`") && part.length > 1 ? codeHtml(part) : proseHtml(part, linkTo)))
    .join("");
}

function codeHtml(part: string): string {
  return `<code>${escapeHtml(part.slice(1, -1))}</code>`;
}

function proseHtml(part: string, linkTo: (target: string) => string | null): string {
  return escapeHtml(part)
    .replace(/!\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/\[([^\]]+)\]\(([^)\s]+)\)/g, (_, words: string, target: string) => {
      const to = linkTo(target);
      return to === null ? words : `<a href="${escapeHtml(to)}">${words}</a>`;
    })
    .replace(/\*\*([^*]+)\*\*/g, "<strong>$1</strong>")
    .replace(/(^|[\s(])\*([^*\s][^*]*)\*/g, "$1<em>$2</em>");
}

function plainOf(text: string): string {
  return text.replace(/[`*]/g, "").replace(/\[([^\]]+)\]\([^)]*\)/g, "$1");
}

/** As GitHub makes them. */
function slugOf(title: string): string {
  return plainOf(title)
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
