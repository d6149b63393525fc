/**
 * The shape of the code, held by an ordinary test: imports point one way, what is special has one place, and
 * nothing is filed by kind. Sources are read as text; comments are left out of account.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

/**
 * A part is a folder or a file right under src. It imports from lower ranks, and from itself; never from its
 * own rank. Only rank 0 is one part: small files without I/O that may know each other, and know nothing else.
 */
const RANKS = [
  /* 0 */ [
    "config",
    "ids",
    "clock",
    "address",
    "turn",
    "connectioninturns",
    "agentsinturns",
    "tlsgroups",
    "atonce",
    "fairthread",
    "schemafault",
    "meter",
    "trace",
    "caught",
    "chars",
    "priority",
    "hmac",
    "names",
    "rules",
  ],
  /* 1 */ ["redis", "record", "message", "smtp", "returnpath", "networks"],
  /* 2 */ ["admission", "domain", "queue", "template", "suppression", "shaping"],
  /* 3 */ ["submit", "content", "outcome", "capacity", "audience", "transport", "webhooks"],
  /* 4 */ ["api", "automation", "console", "delivery", "inbound", "keeper", "submission"],
  /* 5 */ ["process", "cli", "embedded"],
];
/** Here the parts are put together: these may import everything, each other too, and they read the clock. */
const ROOT_RANK = 5;

const PLACES = [
  { thing: "the Postgres client", isUsed: imports("postgres"), place: "src/record/" },
  // `select 1` only asks whether anyone is there
  {
    thing: "SQL",
    isUsed: contains(
      /[\w)>]`\s*(?!select 1`)(select|insert|update|delete|with|create|alter|drop|truncate)\b/i,
    ),
    place: "src/record/",
  },
  { thing: "BullMQ", isUsed: imports("bullmq"), place: "src/queue/" },
  { thing: "uWebSockets.js", isUsed: imports("uWebSockets.js"), place: "src/api/" },
  { thing: "process.env", isUsed: contains(/\bprocess\.env\b/), place: "src/config.ts" },
];

/** Files below the root that may read the wall clock all the same, each with its reason. */
const CLOCK_READERS: Record<string, string> = {};

const FOLDERS_BY_KIND = [
  "utils",
  "util",
  "helpers",
  "services",
  "types",
  "interfaces",
  "classes",
  "common",
  "misc",
];

type Source = { path: string; text: string; imports: string[] };

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const src = sourcesBelow("src");
const tests = sourcesBelow("test");
const bench = sourcesBelow("bench");
const settings = [sourceOf(join(ROOT, "vitest.config.ts"))];

test("comments keep the width of the code", () => {
  const width = Number(
    /max_line_length = (\d+)/.exec(readFileSync(join(ROOT, ".editorconfig"), "utf8"))?.[1],
  );
  const isWideComment = (line: string) => line.length > width && /^ *(\/\/|\/?\*)/.test(line);
  const wide = ["src", "console", "bench", "test"]
    .flatMap((folder) => filesBelow(join(ROOT, folder)))
    .filter((file) => /\.tsx?$/.test(file))
    .flatMap((file) => {
      const lines = readFileSync(file, "utf8").split("\n");
      return lines.flatMap((line, n) => (isWideComment(line) ? [`${relative(ROOT, file)}:${n + 1}`] : []));
    });
  hold(`Break the line after ${width} characters, as .editorconfig has it.`, wide);
});

test("every part of src has a rank", () => {
  const unknown = src.filter(({ path }) => partOf(path) === null).map(({ path }) => path);
  hold(
    "Name the part in RANKS at the top of this file, at the lowest rank that lets it import what it needs.",
    unknown,
  );
});

test("imports point to lower ranks", () => {
  const wrong = src.flatMap(({ path, imports }) =>
    imports
      .filter((name) => name.startsWith("."))
      .map((name) => join(dirname(path), name))
      .filter((imported) => !mayImport(path, imported))
      .map(
        (imported) =>
          `${path} (rank ${rankOf(path)}) imports ${imported} (rank ${rankOf(imported) ?? "none"})`,
      ),
  );
  hold(
    "A part imports from lower ranks and from itself. Move what both need down, or hand it in from serve.ts.",
    wrong,
  );
});

test.each(PLACES)("$thing stays in $place", ({ thing, isUsed, place }) => {
  const elsewhere = src.filter((source) => isUsed(source) && !source.path.startsWith(place));
  hold(
    `${thing} belongs in ${place}: give that a function with a name, and call it.`,
    elsewhere.map(({ path }) => path),
  );
});

test("every row of src/record is read by its shape", () => {
  const typedByHand = src
    .filter(({ path }) => path.startsWith("src/record/"))
    .flatMap(({ path, text }) => [
      ...(text.match(/(?<!=)>\s*`\s*(select|insert|update|delete|with)\b.{0,40}/gi) ?? []).map(
        (found) => `${path}: ${found}`,
      ),
      ...(text.match(/\.unsafe<.{0,40}/g) ?? []).map((found) => `${path}: ${found}`),
    ]);
  hold(
    "Write typed(sql, shape)`select ...`, see rowshape.ts: nothing checks a type that stands there by hand.",
    typedByHand,
  );
});

test("rules do no I/O", () => {
  const doing = src
    .filter(({ path }) => path.startsWith("src/rules/"))
    .filter(({ imports }) => imports.some((name) => !name.startsWith(".")));
  hold(
    "A rule decides from what it is given: let the caller read, and hand it in.",
    doing.map(({ path }) => path),
  );
});

test("what can be typed is known without what it does", () => {
  const heavy = src
    .filter(({ path }) => path === "src/cli/postrider.ts" || path.startsWith("src/cli/commands/"))
    .flatMap(({ path }) => [...packagesLoadedBy(path)].map((name) => `${path} loads ${name}`));
  hold(
    "Let the action import it, and a reader that needs it stand beside the action: see runs.ts.",
    heavy.filter((words) => !/ loads (commander|node:\S+)$/.test(words)),
  );
});

test("a type name has one meaning", () => {
  const homes = new Map<string, string[]>();
  for (const { path, text } of src)
    for (const [, name] of text.matchAll(/^(?:export )?(?:abstract )?(?:type|class|interface) (\w+)/gm))
      homes.set(name as string, [...(homes.get(name as string) ?? []), path]);
  const shared = [...homes].filter(([, paths]) => paths.length > 1);
  hold(
    "Name each after what it is.",
    shared.map(([name, paths]) => `${name}: ${paths.join(", ")}`),
  );
});

test("what is exported is used elsewhere", () => {
  const homes = new Map<string, Set<string>>();
  for (const { path, text } of [...src, ...bench, ...tests, ...settings])
    for (const word of text.match(/\w+/g) ?? []) homes.set(word, (homes.get(word) ?? new Set()).add(path));
  const named = /^export (?:async |abstract )*(?:const|function\*?|class) (\w+)/gm;
  hold(
    "Take `export` away, or all of it when its own file does not use it either.",
    [...src, ...bench, ...tests].flatMap(({ path, text }) =>
      [...text.matchAll(named)]
        .filter(([, name]) => homes.get(name as string)?.size === 1)
        .map(([, name]) => `${path}: ${name}`),
    ),
  );
});

test("a type that is exported is used", () => {
  const words = [...src, ...bench, ...tests].flatMap(({ text }) => text.match(/\w+/g) ?? []);
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  hold(
    "Remove it: its name stands nowhere else.",
    src.flatMap(({ path, text }) =>
      [...text.matchAll(/^export type (\w+)/gm)]
        .filter(([, name]) => counts.get(name as string) === 1)
        .map(([, name]) => `${path}: ${name}`),
    ),
  );
});

test("no file is in a cycle of imports, types included", () => {
  hold("Move what both need into a file of its own.", cyclesIn([...src, ...bench, ...tests]));
});

test("only the root reads the clock", () => {
  const readers = src.filter(
    ({ path, text }) =>
      rankOf(path) !== ROOT_RANK && !(path in CLOCK_READERS) && /\bDate\.now\b|\bnew Date\(\s*\)/.test(text),
  );
  hold(
    "Take `now` as a parameter, so that a test can say what time it is.",
    readers.map(({ path }) => path),
  );
});

test("no script negates a variable", () => {
  const negating = filesBelow(join(ROOT, "lua")).filter((file) =>
    /(?:[=,({]|\breturn)\s*-[a-z_(]/i.test(
      readFileSync(file, "utf8").replace(/--\[\[[\s\S]*?\]\]|--.*$/gm, ""),
    ),
  );
  hold(
    "Write `0 - n`: Lua sends the negative of zero as `-0`, which Redis does not take for an integer.",
    negating.map((file) => relative(ROOT, file)),
  );
});

test("there are no barrels", () => {
  const barrels = [...src, ...tests, ...bench].filter(
    ({ path, text }) => /(^|\/)index\.ts$/.test(path) || /^\s*export \* from/m.test(text),
  );
  hold(
    "Import from the file that has it.",
    barrels.map(({ path }) => path),
  );
});

test("no folder is named after a kind of thing", () => {
  const folders = [...src, ...tests, ...bench].filter(({ path }) =>
    dirname(path)
      .split("/")
      .some((folder) => FOLDERS_BY_KIND.includes(folder)),
  );
  hold(
    "Put the file where its subject is: folders are stages of the flow.",
    folders.map(({ path }) => path),
  );
});

test("every test runs", () => {
  const partial = tests.filter(({ text }) =>
    /\b(test|it|describe|suite)(\.\w+)*\.(skip|only|todo)\b/.test(text),
  );
  hold(
    "A test that does not run proves nothing: repair it or delete it.",
    partial.map(({ path }) => path),
  );
});

test("no test sleeps", () => {
  const sleepers = tests.filter(
    ({ path, text, imports }) =>
      !path.startsWith("test/rig/") &&
      (imports.includes("node:timers/promises") || /new Promise\b[^;]{0,60}\bsetTimeout\(/.test(text)),
  );
  hold(
    "Wait for the signal itself: test/rig has a ledger, a proxy and a clock to wait on.",
    sleepers.map(({ path }) => path),
  );
});

test("no test gives up after a second", () => {
  const hasty = tests.filter(
    ({ path, text }) => path !== "test/rig/eventually.ts" && /\bvi\.waitFor\b/.test(text),
  );
  hold(
    "A busy machine takes longer than Vitest waits: use eventually() of test/rig, or expect.poll().",
    hasty.map(({ path }) => path),
  );
});

function hold(advice: string, violations: string[]): void {
  expect(violations, `${advice}\n  ${violations.join("\n  ")}\n`).toEqual([]);
}

function mayImport(path: string, imported: string): boolean {
  const [from, to] = [rankOf(path), rankOf(imported)];
  if (from === null) return true; // an unranked part is reported by a test of its own
  if (to === null) return false;
  const isWithin = partOf(path) === partOf(imported) || (from === 0 && to === 0);
  return to < from || from === ROOT_RANK || isWithin;
}

/** Files from which imports lead back to themselves, one way round for each. */
function cyclesIn(sources: Source[]): string[] {
  const importsOf = new Map(
    sources.map(({ path, imports }) => [
      path,
      imports.filter((name) => name.startsWith(".")).map((name) => join(dirname(path), name)),
    ]),
  );
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (path: string, way: string[]): void => {
    if (way.includes(path)) cycles.push([...way.slice(way.indexOf(path)), path].join(" -> "));
    if (done.has(path) || way.includes(path)) return;
    for (const next of importsOf.get(path) ?? []) visit(next, [...way, path]);
    done.add(path);
  };
  for (const path of importsOf.keys()) visit(path, []);
  return cycles;
}

/** By the file and all that it imports at once; an `import()` and an `import type` load nothing. */
function packagesLoadedBy(path: string, seen = new Set<string>()): Set<string> {
  const found = new Set<string>();
  if (seen.has(path)) return found;
  seen.add(path);
  const { text = "" } = src.find((source) => source.path === path) ?? {};
  for (const [, name = ""] of text.matchAll(
    /^(?:import|export)\b(?! type\b)(?:[^"';]*?\bfrom)?\s*"([^"]+)"/gm,
  ))
    if (!name.startsWith(".")) found.add(name);
    else for (const one of packagesLoadedBy(join(dirname(path), name), seen)) found.add(one);
  return found;
}

function rankOf(path: string): number | null {
  const part = partOf(path);
  return part === null ? null : RANKS.findIndex((parts) => parts.includes(part));
}

function partOf(path: string): string | null {
  const part = path.replace(/^src\//, "").replace(/(\.ts$|\/.*)/, "");
  return RANKS.flat().includes(part) ? part : null;
}

function imports(name: string): (source: Source) => boolean {
  return (source) => source.imports.some((found) => found === name || found.startsWith(`${name}/`));
}

function contains(pattern: RegExp): (source: Source) => boolean {
  return ({ text }) => pattern.test(text);
}

function sourcesBelow(folder: string): Source[] {
  return filesBelow(join(ROOT, folder))
    .filter((file) => file.endsWith(".ts"))
    .map(sourceOf);
}

function sourceOf(file: string): Source {
  const text = withoutComments(readFileSync(file, "utf8"));
  return { path: relative(ROOT, file), text, imports: importsIn(text) };
}

function filesBelow(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** Whole-line comments and those at the end of a line; a `/*` within a line may well be a route. */
function withoutComments(text: string): string {
  return text.replace(/^\s*\/\*[\s\S]*?\*\//gm, "").replace(/(^|\s)\/\/ .*$/gm, "");
}

function importsIn(text: string): string[] {
  const statements = text.matchAll(
    /^\s*(?:import|export)\b[^"';]*?\bfrom\s*"([^"]+)"|\bimport\s*\(?\s*"([^"]+)"/gm,
  );
  return [...statements].map(([, from, bare]) => from ?? (bare as string));
}

test("migrations are numbered without holes, and no two alike", () => {
  const numbers = readdirSync(join(ROOT, "src/record/migrations")).map((name) => Number(name.slice(0, 4)));
  expect(numbers.sort((a, b) => a - b)).toEqual(numbers.map((_, n) => n + 1));
});
