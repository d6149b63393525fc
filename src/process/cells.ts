/**
 * Cells: the databases that one fleet serves, each with a Redis of its own. A file names them; the cell that
 * it calls home has the stores of the settings. A workspace and all its rows are in one cell, and the records
 * say in which.
 */
import { readFileSync } from "node:fs";
import { codeOf, messageOf } from "../caught.ts";
import { type Config, ConfigError, loadConfig } from "../config.ts";

/** The settings of a cell are those of the process with its own stores. */
export type Cell = { name: string; config: Config };

const CELLS_MAX = 64;
const NAME = /^[a-z][a-z0-9-]{0,31}$/;
/** What the file may say of a cell, and the setting that it stands for. */
const STORES = {
  database_url: "DATABASE_URL",
  redis_url: "REDIS_URL",
  read_database_url: "READ_DATABASE_URL",
} as const;

/** Home first; null: CELLS_FILE is not set, and there is one database. */
export function cellsOf(config: Config): readonly Cell[] | null {
  if (config.cellsFile === null) return null;
  const path = config.cellsFile;
  const refuse = (why: string): never => {
    throw new ConfigError(`CELLS_FILE ${path}: ${why}`);
  };
  const { home, cells } = objectOf(readJson(path, refuse), "the file", ["$schema", "home", "cells"], refuse);
  const named = objectOf(cells, "`cells`", null, refuse);
  const names = Object.keys(named);
  if (names.length > CELLS_MAX) refuse(`it has ${names.length} cells: at most ${CELLS_MAX} are served.`);
  for (const name of names)
    if (!NAME.test(name))
      refuse(
        `${JSON.stringify(name)} is not a name of a cell: use up to 32 lower-case letters, digits and hyphens, a letter first.`,
      );
  if (typeof home !== "string" || !names.includes(home))
    return refuse("`home` must be the name of one of its `cells`.");
  const others = names.filter((name) => name !== home);
  expectBare(named[home], home, refuse);
  const found = [
    { name: home, config },
    ...others.map((name) => ({ name, config: cellConfig(config, name, named[name], refuse) })),
  ];
  expectApart(found, refuse);
  return found;
}

/** The cell that a command names; without a name, home. */
export function cellNamed(config: Config, name: string): Cell {
  const cells = cellsOf(config);
  if (cells === null)
    throw new ConfigError(`There is no cell ${name}: CELLS_FILE is not set, so there is one database.`);
  const found = cells.find((cell) => cell.name === name);
  if (!found)
    throw new ConfigError(
      `There is no cell ${name}. CELLS_FILE has ${cells.map((cell) => cell.name).join(", ")}.`,
    );
  return found;
}

type Refuse = (why: string) => never;

function readJson(path: string, refuse: Refuse): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    // what Node says of JSON repeats its text, and there are passwords in it
    if (error instanceof SyntaxError) return refuse("it is not valid JSON.");
    const [code, message] = [codeOf(error), messageOf(error)];
    return refuse(code === "ENOENT" ? "there is no such file." : `it cannot be read (${message}).`);
  }
}

/** `allowed`: the names that it may have; null: any. */
function objectOf(
  value: unknown,
  what: string,
  allowed: readonly string[] | null,
  refuse: Refuse,
): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return refuse(`${what} must be a JSON object.`);
  const unknown = allowed && Object.keys(value).find((name) => !allowed.includes(name));
  if (unknown) refuse(`${what} has ${JSON.stringify(unknown)}, but only ${allowed.join(", ")} are read.`);
  return value as Record<string, unknown>;
}

/** One place for each url: a second one would be forgotten when the first changes. */
function expectBare(value: unknown, home: string, refuse: Refuse): void {
  if (Object.keys(objectOf(value, `\`cells.${home}\``, Object.keys(STORES), refuse)).length > 0)
    refuse(
      `\`cells.${home}\` must be {}: it is home, whose stores are DATABASE_URL, REDIS_URL and READ_DATABASE_URL.`,
    );
}

function cellConfig(config: Config, name: string, value: unknown, refuse: Refuse): Config {
  const given = objectOf(value, `\`cells.${name}\``, Object.keys(STORES), refuse);
  const env: Record<string, string> = { DATABASE_PREPARE: String(config.databasePrepare) };
  for (const [field, setting] of Object.entries(STORES)) {
    const url = given[field];
    if (url === undefined && field === "read_database_url") continue;
    if (url === undefined)
      return refuse(
        `\`cells.${name}.${field}\` is missing: each cell has a Postgres and a Redis of its own.`,
      );
    if (typeof url !== "string" || url === "") return refuse(`\`cells.${name}.${field}\` must be a URL.`);
    env[setting] = url;
  }
  try {
    const { databaseUrl, readDatabaseUrl, redisUrl } = loadConfig(env);
    // the folder of Postgres is that of home
    return { ...config, databaseUrl, readDatabaseUrl, redisUrl, postgresDataFolder: null };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const inFile = (text: string, [field, setting]: [string, string]) =>
      text.replace(new RegExp(`^${setting} `, "gm"), `\`cells.${name}.${field}\` `);
    return refuse(Object.entries(STORES).reduce(inFile, error.message));
  }
}

/** Names of the queue and of limits are the same in every cell. */
function expectApart(cells: readonly Cell[], refuse: Refuse): void {
  for (const [setting, field] of [
    ["databaseUrl", "database_url"],
    ["redisUrl", "redis_url"],
  ] as const) {
    const taken = new Map<string, string>();
    for (const { name, config } of cells) {
      const url = config[setting];
      if (url === null) continue;
      const other = taken.get(url);
      if (other !== undefined)
        refuse(`the cells ${other} and ${name} have the same ${field}: each needs one of its own.`);
      taken.set(url, name);
    }
  }
}
