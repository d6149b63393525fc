/**
 * What of a migration may break the version before, which serves beside this one during an upgrade. It is
 * read as text: statements inside of functions are left out, those of `do` blocks are not. Tables that these
 * migrations make are theirs alone.
 */
export type MigrationFile = { name: string; text: string };
/** A statement, and why the version before may not survive it. */
export type Danger = { migration: string; statement: string; why: string };

type Rule = { pattern: RegExp; why: string; isFine?(statement: string, others: readonly string[]): boolean };

const NAME = '(?:if (?:not )?exists )?(?:only )?"?([a-z0-9_.]+)"?';
const TABLE_OF = [
  new RegExp(`^alter table ${NAME}`),
  new RegExp(`^drop table ${NAME}`),
  new RegExp(`^create (?:unique )?index .*?\\bon ${NAME}`),
  new RegExp(`^(?:truncate|lock)(?: table)? ${NAME}`),
];
const MADE = new RegExp(`^create table ${NAME}`);

/** The same name is made anew in the same file. */
function isReplaced(what: string, of: RegExp) {
  return (statement: string, others: readonly string[]): boolean => {
    const [, name] = of.exec(statement) ?? [];
    return others.some((other) => new RegExp(`^create (?:or replace )?${what} "?${name}\\b`).test(other));
  };
}

const RULES: readonly Rule[] = [
  { pattern: /^drop table/, why: "the version before uses the table" },
  { pattern: /^truncate/, why: "the version before needs the rows" },
  { pattern: /\brename\b/, why: "the version before uses the former name" },
  {
    // behind `alter column x` it drops less than the column
    pattern:
      /\bdrop (?:column|(?!constraint|default|not null|expression|identity|table|index)(?:if exists )?"?\w+"?(?:,|$| cascade))/,
    why: "the version before uses the column",
  },
  {
    pattern: /^drop (?:view|materialized view|type|domain|sequence|schema)/,
    why: "the version before uses it",
  },
  {
    pattern: /^drop function/,
    why: "the version before uses the function",
    isFine: isReplaced("function", /^drop function (?:if exists )?"?([a-z0-9_]+)/),
  },
  {
    pattern: /^drop trigger/,
    why: "the version before relies on the trigger",
    isFine: isReplaced("trigger", /^drop trigger (?:if exists )?"?([a-z0-9_]+)/),
  },
  { pattern: /^drop index/, why: "the version before may need the index, also for ON CONFLICT" },
  { pattern: /\bdrop default\b/, why: "the version before leaves the column out" },
  { pattern: /\bset not null\b/, why: "the version before may write null" },
  {
    pattern: /\balter (?:column )?"?\w+"? (?:set data )?type\b/,
    why: "the version before reads the former type",
  },
  {
    pattern: /\badd (?:column )?(?!constraint|check|unique|primary|foreign|exclude)[^,]*\bnot null\b/,
    why: "the version before leaves the column out: give it a default",
    isFine: (statement) =>
      statement
        .split(/,(?![^(]*\))/)
        .every((part) => !/\badd\b.*\bnot null\b/.test(part) || /\b(?:default|generated)\b/.test(part)),
  },
  {
    pattern: /\badd (?:constraint \S+ )?(?:check|unique|primary key|foreign key|exclude)\b/,
    why: "the version before may write what this refuses",
  },
  { pattern: /^create unique index/, why: "the version before may write what this refuses" },
  { pattern: /^revoke/, why: "the version before may need the privilege" },
];

export function dangersOf(files: readonly MigrationFile[]): Danger[] {
  const all = files.map(({ name, text }) => ({ name, statements: statementsOf(text) }));
  const made = new Set(
    all.flatMap(({ statements }) => statements.flatMap((one) => MADE.exec(one)?.[1] ?? [])),
  );
  return all.flatMap(({ name, statements }) =>
    statements
      .filter((statement) => !made.has(tableOf(statement)))
      .flatMap((statement) =>
        RULES.filter(
          ({ pattern, isFine }) => pattern.test(statement) && !isFine?.(statement, statements),
        ).map(({ why }) => ({ migration: name, statement, why })),
      ),
  );
}

function tableOf(statement: string): string {
  for (const pattern of TABLE_OF) {
    const [, table] = pattern.exec(statement) ?? [];
    if (table) return table;
  }
  return "";
}

/** In lower case and on one line each, without comments, texts and the bodies of functions. */
function statementsOf(text: string): string[] {
  const bare = text.replace(/--[^\n]*/g, "").replace(/\/\*[\s\S]*?\*\//g, "");
  const blocks = [...bare.matchAll(/\bdo\s+(\$\w*\$)([\s\S]*?)\1/gi)].map(([, , block]) => block as string);
  const outside = bare.replace(/(\$\w*\$)[\s\S]*?\1/g, "''");
  return [outside, ...blocks]
    .join(";")
    .replace(/'(?:[^']|'')*'/g, "''")
    .split(";")
    .map((one) => one.replace(/\s+/g, " ").trim().toLowerCase())
    .map((one) => one.replace(/^(?:begin|then|loop|else) /, ""))
    .filter((one) => one !== "");
}
