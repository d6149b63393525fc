/**
 * CELLS_FILE: each cell has stores of its own, home has those of the settings, and what is wrong is said
 * without a password.
 */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Compile } from "typebox/schema";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { cellNamed, cellsOf } from "../../src/process/cells.ts";

const file = join(mkdtempSync(join(tmpdir(), "postrider-cells-file-")), "cells.json");
const DATABASE_URL = "postgres://u:secret@db1/postrider";
const REDIS_URL = "redis://redis1:6379";
const WEST = { database_url: "postgres://u:secret@db2/postrider", redis_url: "redis://redis2:6379" };

function settings(more: Record<string, string> = {}) {
  return loadConfig({ DATABASE_URL, REDIS_URL, CELLS_FILE: file, ...more });
}

function read(contents: unknown) {
  writeFileSync(file, typeof contents === "string" ? contents : JSON.stringify(contents));
  return cellsOf(settings());
}

test("without a file there are no cells", () => {
  expect(cellsOf(loadConfig({ DATABASE_URL, REDIS_URL }))).toBeNull();
});

test("home comes first and has the stores of the settings; the others have their own", () => {
  const read_database_url = "postgres://u:secret@standby/postrider";
  const cells = read({ home: "east", cells: { west: { ...WEST, read_database_url }, east: {} } });
  expect(cells?.map(({ name }) => name)).toEqual(["east", "west"]);
  expect(cells?.[0]?.config).toMatchObject({
    databaseUrl: DATABASE_URL,
    redisUrl: REDIS_URL,
    readDatabaseUrl: null,
  });
  expect(cells?.[1]?.config).toMatchObject({
    databaseUrl: WEST.database_url,
    redisUrl: WEST.redis_url,
    readDatabaseUrl: read_database_url,
    postgresDataFolder: null,
  });
});

test("what holds of connections to Postgres holds in every cell", () => {
  read({ home: "east", cells: { east: {}, west: WEST } });
  const [, west] = cellsOf(settings({ DATABASE_PREPARE: "false" })) ?? [];
  expect(west?.config.databaseUrl).toBe(`${WEST.database_url}?prepare=false`);
});

test("a command names its cell", () => {
  read({ home: "east", cells: { east: {}, west: WEST } });
  expect(cellNamed(settings(), "west").config.databaseUrl).toBe(WEST.database_url);
  expect(() => cellNamed(settings(), "north")).toThrow("There is no cell north. CELLS_FILE has east, west.");
  const alone = loadConfig({ DATABASE_URL, REDIS_URL });
  expect(() => cellNamed(alone, "west")).toThrow("CELLS_FILE is not set");
});

test.each([
  ["{", "it is not valid JSON."],
  ["[]", "the file must be a JSON object."],
  [{ home: "east", cells: { east: {} }, shards: 2 }, 'the file has "shards"'],
  [{ home: "east", cells: [] }, "`cells` must be a JSON object."],
  [{ home: "east", cells: { west: WEST } }, "`home` must be the name of one of its `cells`."],
  [{ cells: { west: WEST } }, "`home` must be the name of one of its `cells`."],
  [{ home: "East!", cells: { "East!": {} } }, '"East!" is not a name of a cell'],
  [{ home: "east", cells: { east: { database_url: DATABASE_URL } } }, "`cells.east` must be {}"],
  [
    { home: "east", cells: { east: {}, west: { database_url: WEST.database_url } } },
    "`cells.west.redis_url` is missing: each cell has a Postgres and a Redis of its own.",
  ],
  [{ home: "east", cells: { east: {}, west: { ...WEST, url: "x" } } }, '`cells.west` has "url"'],
  [
    { home: "east", cells: { east: {}, west: { ...WEST, database_url: "mysql://u:secret@db2/x" } } },
    "`cells.west.database_url` must be a URL that starts with",
  ],
  [
    { home: "east", cells: { east: {}, west: { ...WEST, redis_url: REDIS_URL } } },
    "the cells east and west have the same redis_url",
  ],
  [
    { home: "east", cells: { east: {}, west: { ...WEST, database_url: DATABASE_URL } } },
    "the cells east and west have the same database_url",
  ],
])("%j is refused", (contents, words) => {
  expect(() => read(contents)).toThrow(`CELLS_FILE ${file}: ${words}`);
  expect(() => read(contents)).not.toThrow(/secret@/);
});

test("a file that is not there is named", () => {
  expect(() => cellsOf(settings({ CELLS_FILE: "/nowhere/cells.json" }))).toThrow(
    "CELLS_FILE /nowhere/cells.json: there is no such file.",
  );
});

test("editors accept and refuse what is read and refused", () => {
  const schema = Compile(JSON.parse(readFileSync("ops/cells.schema.json", "utf8")));
  const example = /```json\n([^`]*"home"[^`]*)```/.exec(readFileSync("docs/cells.md", "utf8"))?.[1] ?? "";
  const good = [
    JSON.parse(example),
    { $schema: "./cells.schema.json", home: "east", cells: { east: {} } },
    { home: "east", cells: { east: {}, west: WEST } },
  ];
  for (const contents of good) {
    expect(read(contents)).not.toBeNull();
    expect(schema.Errors(contents)[1]).toEqual([]);
  }
  const bad = [
    [],
    { cells: { east: {} } },
    { home: "east", cells: [] },
    { home: "east", cells: {} },
    { home: "East!", cells: { "East!": {} } },
    { home: "east", cells: { east: {} }, shards: 2 },
    { home: "east", cells: { east: {}, west: { ...WEST, url: "x" } } },
    { home: "east", cells: { east: {}, west: { database_url: WEST.database_url } } },
    { home: "east", cells: { east: {}, west: { ...WEST, database_url: "mysql://u:secret@db2/x" } } },
  ];
  for (const contents of bad) {
    expect(() => read(contents)).toThrow(`CELLS_FILE ${file}: `);
    expect([contents, schema.Check(contents)]).toEqual([contents, false]);
  }
});
