/** What the pages in docs/ say of the code, where a program can compare the two. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { throughputChart } from "../../bench/report/throughput.ts";
import { readResults } from "../../bench/results.ts";
import { STATUS_OF } from "../../src/api/problem.ts";
import { everyCommand, makeProgram } from "../../src/cli/program.ts";
import { settingsTable } from "../../src/config.ts";
import { ENDINGS, OPEN_STATUSES } from "../../src/rules/email.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FLOW_FILES_MAX = 20;
const TERMS_MAX = 40;
const PAGES = [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  "SECURITY.md",
  "bench/README.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** `npx vitest run test/unit/the-docs-match-the-code.test.ts -u` writes the table and the chart anew. */
test("the table of settings is that of the code", async () => {
  const page = text("docs/settings.md");
  const [table = ""] = /^\| variable \| default [\s\S]*?(?=\n\n)/m.exec(page) ?? [];
  expect(table).not.toBe("");
  const generated = page.replace(table, () => settingsTable());
  await expect(generated).toMatchFileSnapshot(join(ROOT, "docs/settings.md"));
});

test("every error has its page, with its status", () => {
  const told = rowsOf(section("docs/errors.md", "## All names")).map(([name, status]) => [
    word(name),
    Number(status),
  ]);
  expect(Object.fromEntries(told)).toEqual(STATUS_OF);
});

test("the path of an e-mail names few files, and functions that are in them", () => {
  const path = rowsOf(text("docs/flow.md")).filter(([file = ""]) => file.startsWith("`src/"));
  const beside = rowsOf(section("docs/flow.md", "## Beside the path"));
  expect(path.length - beside.length).toBeGreaterThan(0);
  expect(new Set(path.map(([file]) => file)).size - beside.length).toBeLessThanOrEqual(FLOW_FILES_MAX);
  const missing = path.flatMap(([file, functions]) =>
    words(functions)
      .filter((name) => !declares(text(word(file)), name))
      .map((name) => `${file} has no ${name}`),
  );
  expect(missing).toEqual([]);
});

test("marks and statuses are those of rules/email.ts, in its order", () => {
  const marks = rowsOf(section("docs/states.md", "## Marks of a recipient")).map(([mark, status]) => [
    word(mark),
    status,
  ]);
  expect(marks).toEqual(ENDINGS.map((one) => [...one]));
  const statuses = rowsOf(section("docs/states.md", "## Statuses of an e-mail"));
  const final = (said: string) => statuses.filter(([, is]) => is === said).map(([status]) => word(status));
  expect(final("no")).toEqual([...OPEN_STATUSES]);
  expect(final("yes")).toEqual(ENDINGS.map(([, status]) => status));
});

test("waiting reasons are those of due rows", () => {
  const declared = /export type WaitReason = ([^;]+);/.exec(text("src/rules/reason.ts"))?.[1] ?? "";
  const reasons = [...declared.matchAll(/"(\w+)"/g)].map(([, reason]) => reason);
  expect(rowsOf(section("docs/states.md", "## Waiting reasons")).map(([reason]) => word(reason))).toEqual(
    reasons,
  );
});

test("the glossary has few terms, each once", () => {
  const [defined = ""] = text("docs/glossary.md").split("## Retired words");
  const terms = rowsOf(defined).map(([term]) => term);
  expect(terms.length).toBeLessThanOrEqual(TERMS_MAX);
  expect(new Set(terms).size).toBe(terms.length);
  expect(terms).toEqual([...terms].sort((a = "", b = "") => a.localeCompare(b)));
});

test("the chart is that of the published figures", async () => {
  const chart = throughputChart(readResults(join(ROOT, "bench/published.json")));
  await expect(chart).toMatchFileSnapshot(join(ROOT, "docs/throughput.svg"));
});

test("every metric is told of", () => {
  const declared = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => text(`src/${file}`).match(/(?<=")postrider_[a-z_]+(?=")/g) ?? []);
  expect(declared.length).toBeGreaterThan(20);
  expect(declared.filter((name) => !text("docs/metrics.md").includes(`\`${name}`))).toEqual([]);
});

test("links lead to pages that are there, and the README to each of them", () => {
  const dead = PAGES.flatMap((page) =>
    [...text(page).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)]
      .map(([, target = ""]) => target)
      .filter((target) => !existsSync(join(ROOT, dirname(page), target)))
      .map((target) => `${page} links ${target}`),
  );
  expect(dead).toEqual([]);
  const readme = text("README.md");
  expect(PAGES.filter((page) => page.startsWith("docs/") && !readme.includes(`](${page})`))).toEqual([]);
});

test("files that are named are there", () => {
  const named = PAGES.flatMap((page) => words(text(page)).map((path) => ({ page, path })));
  const ofTable = rowsOf(section("CONTRIBUTING.md", "## How to add"))
    .flatMap(([, sources]) => words(sources))
    .map((path) => ({ page: "CONTRIBUTING.md", path: `src/${path}` }));
  const missing = [...named, ...ofTable]
    .filter(({ path }) => FILE.test(path) && !existsSync(join(ROOT, path)))
    .map(({ page, path }) => `${page}: ${path}`);
  expect(missing).toEqual([]);
});
const FILE = /^(src|test|docs|ops|caps|console|lua|bench)\/[\w./-]+$/;

test("links to a part of a page name a heading that is there", () => {
  const dead = PAGES.flatMap((page) =>
    [...text(page).matchAll(/\]\(([^)#:]*)#([^)]+)\)/g)]
      .filter(([, target = "", anchor = ""]) => {
        const linked = target === "" ? page : join(dirname(page), target);
        return !anchorsOf(text(linked)).includes(anchor);
      })
      .map(([, target, anchor]) => `${page} links ${target}#${anchor}`),
  );
  expect(dead).toEqual([]);
});

test("commands that are named are there", () => {
  const commands = readdirSync(join(ROOT, "src/cli/commands"))
    .map((file) => text(`src/cli/commands/${file}`))
    .join("\n");
  const isKnown = (name: string) => new RegExp(`Command\\("${name}"\\)`).test(commands);
  const isBelow = (name?: string) => name === undefined || new RegExp(`"${name}[" ]`).test(commands);
  const unknown = PAGES.flatMap((page) =>
    [...text(page).matchAll(/(?:`|^|exec api )postrider ([a-z][a-z-]*)(?: ([a-z]+)\b)?/gm)]
      .filter(([, name = "", below]) => name !== "help" && !(isKnown(name) && isBelow(below)))
      .map(([said]) => `${page}: ${said}`),
  );
  expect(unknown).toEqual([]);
  const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };
  const noScript = PAGES.flatMap((page) =>
    [...text(page).matchAll(/npm run (?:-s )?([a-z:-]+)/g)]
      .map(([, name = ""]) => name)
      .filter((name) => !(name in scripts))
      .map((name) => `${page}: npm run ${name}`),
  );
  expect(noScript).toEqual([]);
});

test("options of commands that are named are there", async () => {
  const program = await makeProgram();
  const unknown = PAGES.flatMap((page) =>
    [...said(page).matchAll(/(?:`|^|exec api )postrider (?:--cell \S+ )?([a-z][^`#\n]*)/gm)].flatMap(
      ([command, typed = ""]) => {
        const words = typed.split(/\s+/);
        const known = optionsOf(program, typed.includes("|") ? words.slice(0, 1) : words);
        return (typed.match(/(?<=[\s([])--[a-z][a-z0-9-]*/g) ?? [])
          .filter((option) => !known.includes(option))
          .map((option) => `${page}: ${option} of ${command}`);
      },
    ),
  );
  expect(unknown).toEqual([]);
});

/** The table of commands has them without the first word. */
function said(page: string): string {
  return page === "docs/command-line.md" ? text(page).replace(/^\| `|, `/gm, "$&postrider ") : text(page);
}

/** Of the command that the words name, and of those below it. */
function optionsOf(program: Command, typed: readonly string[]): string[] {
  let at = program;
  for (const word of typed) at = at.commands.find((one) => namesOf(one).includes(word)) ?? at;
  return [program, ...everyCommand(at)].flatMap(({ options }) => options.map(({ long }) => long ?? ""));
}

function namesOf(command: Command): string[] {
  return [command.name(), ...command.aliases()];
}

function text(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** From a heading to the next of its level. */
function section(page: string, heading: string): string {
  const [, after] = text(page).split(`${heading}\n`);
  if (after === undefined) throw new Error(`${page} has no "${heading}"`);
  return after.split(/^## /m)[0] as string;
}

/** The cells of all tables, without their heads. */
function rowsOf(markdown: string): string[][] {
  const lines = markdown.split("\n").filter((line) => line.startsWith("|"));
  return lines
    .filter((line, n) => !line.startsWith("|---") && !lines[n + 1]?.startsWith("|---"))
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );
}

/** As GitHub makes them of headings. */
function anchorsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}

function words(cell = ""): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, one]) => one as string);
}

function word(cell?: string): string {
  return words(cell)[0] ?? "";
}

function declares(source: string, name: string): boolean {
  return new RegExp(`(?:function|class) ${name}\\b|^ +(?:async )?${name}(?:<[^>]*>)?\\(`, "m").test(source);
}
