/**
 * /docs: the guides of docs/ and the endpoints of the API, as plain pages that need no script and no network.
 * Each page is made when it is first asked for, and kept.
 */
import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { turn } from "../turn.ts";
import { escapeHtml, type Rendered, renderMarkdown } from "./markdown.ts";
import { type ApiDocument, type Endpoint, endpointHtml, endpointsOf, withCode } from "./operations.ts";
import { STYLE } from "./referencestyle.ts";
import { type ConsoleAnswer, deny } from "./refusal.ts";

const FOLDER = fileURLToPath(new URL("../../docs/", import.meta.url));
const QUERY_CHARS_MAX = 100;
const FOUND_MAX = 30;
const EXCERPT_CHARS = 160;
const DAY_SECONDS = 86_400;

type FoundPage = { title: string; href: string; text: string };

export class Reference {
  readonly #document: ApiDocument;
  readonly #baseUrl: string;
  readonly #endpoints: readonly Endpoint[];
  readonly #guides: ReadonlyMap<string, string>;
  readonly #pages = new Map<string, string>();
  #entries: Promise<readonly FoundPage[]> | null = null;

  constructor(document: ApiDocument, baseUrl: string, folder = FOLDER) {
    this.#document = document;
    this.#baseUrl = baseUrl;
    this.#endpoints = endpointsOf(document);
    this.#guides = guidesIn(folder);
  }

  /** `path` is below /docs, without a slash at either end. */
  async answer(path: string, query: URLSearchParams): Promise<ConsoleAnswer> {
    if (path === "style.css")
      return { status: 200, body: STYLE, headers: { "Content-Type": "text/css; charset=utf-8", ...KEPT } };
    if (path === "search") return htmlAnswer(await this.#search(query.get("q") ?? ""));
    const known = this.#pages.get(path) ?? this.#make(path);
    if (known === null) throw deny("not_found", "There is no such page. The pages are listed at /docs.");
    this.#pages.set(path, known);
    return htmlAnswer(known);
  }

  /** null: there is no such page. */
  #make(path: string): string | null {
    if (path === "") return this.#shell("Reference", this.#index());
    const guide = this.#guides.get(path);
    if (guide !== undefined) {
      const { title, html } = this.#render(guide);
      return this.#shell(title, html);
    }
    const tag = /^api\/([\w-]+)$/.exec(path)?.[1];
    const endpoints = this.#endpoints.filter((one) => one.tag === tag);
    if (tag === undefined || endpoints.length === 0) return null;
    const parts = endpoints.map((one) => endpointHtml(one, this.#document, this.#baseUrl));
    return this.#shell(`/${tag}`, `<h1>/${tag}</h1>${endpointList(endpoints)}${parts.join("\n")}`);
  }

  #index(): string {
    const intro =
      '<h1>Reference</h1><p>The guides, and every endpoint of the API with examples. <a href="/docs/errors">Errors</a> explains each name of a refusal.</p>';
    const groups = this.#tags().map(
      (tag) =>
        `<h2 id="${tag}"><a href="/docs/api/${tag}">/${tag}</a></h2>${endpointList(this.#endpoints.filter((one) => one.tag === tag))}`,
    );
    return `${intro}${groups.join("\n")}`;
  }

  #tags(): string[] {
    return [...new Set(this.#endpoints.map(({ tag }) => tag))].sort();
  }

  #render(source: string): Rendered {
    return renderMarkdown(source, (target) => this.#linkTo(target));
  }

  /** Other pages, and the web; files of the repository are not here. */
  #linkTo(target: string): string | null {
    if (/^https?:\/\//.test(target) || target.startsWith("#")) return target;
    const [, name = "", rest = ""] = /^([\w-]+)\.md(#.*)?$/.exec(target) ?? [];
    return this.#guides.has(name) ? `/docs/${name}${rest}` : null;
  }

  async #search(given: string): Promise<string> {
    const wanted = given.trim().slice(0, QUERY_CHARS_MAX);
    this.#entries ??= this.#makeEntries();
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length === 0 ? [] : ranked(await this.#entries, words);
    const items = found.map(
      ({ title, href, text }) =>
        `<li><a href="${href}">${escapeHtml(title)}</a><p>${escapeHtml(excerpt(text, words[0] ?? ""))}</p></li>`,
    );
    const result =
      items.length > 0 ? `<ol class="found">${items.join("")}</ol>` : "<p>Nothing was found.</p>";
    return this.#shell("Search", `<h1>Search</h1>${result}`, wanted);
  }

  /** Others have their turn between two guides. */
  async #makeEntries(): Promise<readonly FoundPage[]> {
    const entries: FoundPage[] = this.#endpoints.map(({ method, path, tag, operation }) => ({
      title: `${method} ${path}: ${operation.summary}`,
      href: `/docs/api/${tag}#${operation.operationId}`,
      text: operation.description.replaceAll("`", ""),
    }));
    for (const [name, source] of this.#guides) {
      const { title, sections } = this.#render(source);
      for (const section of sections)
        entries.push({
          title: section.level === 1 ? title : `${title}: ${section.title}`,
          href: `/docs/${name}#${section.id}`,
          text: section.text,
        });
      await turn();
    }
    return entries;
  }

  #shell(title: string, content: string, query = ""): string {
    const guides = [...this.#guides].map(([name, source]) => link(`/docs/${name}`, titleOf(source) || name));
    const groups = this.#tags().map((tag) => link(`/docs/api/${tag}`, `/${tag}`));
    return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)} - Postrider</title><link rel="stylesheet" href="/docs/style.css"></head><body>
<a class="skip" href="#content">To the content</a><header><a href="/docs">Reference</a> <a href="/console">Console</a>
<form action="/docs/search" role="search"><label for="q">Search</label> <input id="q" name="q" type="search" value="${escapeHtml(query)}"> <button>Search</button></form></header>
<div class="columns"><nav aria-label="Pages"><h2>Guides</h2><ul>${guides.join("")}</ul><h2>API</h2><ul>${groups.join("")}</ul></nav>
<main id="content" tabindex="-1">${content}</main></div></body></html>`;
  }
}

const KEPT = { "Cache-Control": `public, max-age=${DAY_SECONDS}` };

function htmlAnswer(body: string): ConsoleAnswer {
  const headers = { "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache" };
  return { status: 200, body, headers };
}

/** None where the files were left out. */
function guidesIn(folder: string): Map<string, string> {
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => name.endsWith(".md"));
  } catch {
    names = [];
  }
  return new Map(names.sort().map((name) => [basename(name, ".md"), readFileSync(folder + name, "utf8")]));
}

function titleOf(source: string): string {
  return /^# +(.*)$/m.exec(source)?.[1]?.replace(/[`*]/g, "") ?? "";
}

function endpointList(endpoints: readonly Endpoint[]): string {
  const items = endpoints.map(
    ({ method, path, tag, operation }) =>
      `<li><a href="/docs/api/${tag}#${operation.operationId}"><code>${method} ${escapeHtml(path)}</code></a> ${withCode(operation.summary)}</li>`,
  );
  return `<ul class="endpoints">${items.join("")}</ul>`;
}

function link(href: string, words: string): string {
  return `<li><a href="${href}">${escapeHtml(words)}</a></li>`;
}

/** Every word must be there; one in a title is worth more. */
function ranked(entries: readonly FoundPage[], words: readonly string[]): FoundPage[] {
  const scored = entries.map((entry) => {
    const [title, text] = [entry.title.toLowerCase(), entry.text.toLowerCase()];
    const scores = words.map((word) => (title.includes(word) ? 10 : text.includes(word) ? 1 : 0));
    return { entry, score: scores.includes(0) ? 0 : scores.reduce<number>((sum, one) => sum + one, 0) };
  });
  return scored
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, FOUND_MAX)
    .map(({ entry }) => entry);
}

/** Around the word, in whole words; dots stand for what is left out. */
function excerpt(text: string, word: string): string {
  const whole = text.trim();
  const found = Math.max(0, whole.toLowerCase().indexOf(word) - EXCERPT_CHARS / 4);
  const from = found === 0 ? 0 : Math.max(0, whole.indexOf(" ", found));
  const rest = whole.slice(from).trim();
  const shown =
    rest.length > EXCERPT_CHARS ? `${rest.slice(0, rest.lastIndexOf(" ", EXCERPT_CHARS))} …` : rest;
  return from === 0 ? shown : `… ${shown}`;
}
