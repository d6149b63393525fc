/**
 * Rows as Postgres answers them. A shape names the columns of a row and the kind of each, once; the type of
 * the row is inferred from it: `type CapPolicyRow = RowOf<typeof capPolicy>`.
 *
 * In tests and development every answer is held to its shape: a column that is missing, that nobody expects
 * or that is of another type in Postgres, and a null where none may be, reject the statement. In production
 * nothing is checked, and `typed` hands back what it was given.
 *
 * Does not look into JSON: what that holds is promised by who writes it.
 */
import { CHECKS_ROWS } from "../../config.ts";
import { type Statement, type StatementValue, type Tx, Unsent } from "./statement.ts";

/** What values of a column are. `T` is their type in TypeScript. */
export type ColumnKind<T> = {
  readonly name: string;
  /** The types of Postgres that the client reads as `T`; empty: any. */
  readonly oids: readonly number[];
  /** Their array types, as far as the client reads them: see arraytypes.ts. */
  readonly arrayOids: readonly number[];
  isOf(value: unknown): value is T;
};

/** The columns of a row. */
export type RowKinds = Readonly<Record<string, ColumnKind<unknown>>>;

export type RowOf<S extends RowKinds> = {
  -readonly [Column in keyof S]: S[Column] extends ColumnKind<infer T> ? T : never;
};

/** A shape of rows whose type is declared elsewhere, where those decide who know nothing of Postgres. */
export type ShapeFor<Row> = { readonly [Column in keyof Row]-?: ColumnKind<Row[Column]> };

export function pick<S extends RowKinds, Column extends keyof S>(
  shape: S,
  ...columns: readonly Column[]
): Pick<S, Column> {
  return Object.fromEntries(columns.map((column) => [column, shape[column]])) as Pick<S, Column>;
}

export function omit<S extends RowKinds, Column extends keyof S>(
  shape: S,
  ...columns: readonly Column[]
): Omit<S, Column> {
  const left: RowKinds & Partial<S> = { ...shape };
  return Object.fromEntries(
    Object.entries(left).filter(([column]) => !columns.some((one) => one === column)),
  ) as Omit<S, Column>;
}

const isText = (value: unknown): value is string => typeof value === "string";

/** text, varchar, name, "char", uuid; and words that Postgres writes without a type. */
const TEXT_OIDS = [25, 1043, 19, 18, 2950, 705];
const TEXT_ARRAY_OIDS = [1009, 1015, 2951];

export const text: ColumnKind<string> = {
  ...{ name: "text", oids: TEXT_OIDS, arrayOids: TEXT_ARRAY_OIDS },
  isOf: isText,
};

/**
 * int2, int4, oid; and what a statement casts to float8 because it may be larger: times in ms, places in a
 * log.
 */
export const integer: ColumnKind<number> = {
  ...{ name: "integer", oids: [21, 23, 26, 701], arrayOids: [1005, 1007, 1022] },
  isOf: (value): value is number => Number.isInteger(value),
};

/** float4, float8. */
export const float: ColumnKind<number> = {
  ...{ name: "float", oids: [700, 701], arrayOids: [1021, 1022] },
  isOf: (value): value is number => typeof value === "number",
};

/** int8 and numeric come as text, since a number of JavaScript cannot hold each of them. */
export const bigint: ColumnKind<string> = {
  ...{ name: "bigint", oids: [20, 1700], arrayOids: [1016, 1231] },
  isOf: (value): value is string => isText(value) && /^-?\d/.test(value),
};

export const boolean: ColumnKind<boolean> = {
  ...{ name: "boolean", oids: [16], arrayOids: [1000] },
  isOf: (value): value is boolean => typeof value === "boolean",
};

/** timestamptz, timestamp, date. */
export const timestamp: ColumnKind<Date> = {
  ...{ name: "timestamp", oids: [1184, 1114, 1082], arrayOids: [1185] },
  isOf: (value): value is Date => value instanceof Date,
};

export const bytes: ColumnKind<Buffer> = {
  ...{ name: "bytes", oids: [17], arrayOids: [] },
  isOf: (value): value is Buffer => Buffer.isBuffer(value),
};

/** One of few words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): ColumnKind<Word> {
  const known: ReadonlySet<unknown> = new Set(words);
  return { ...text, name: words.join(" | "), isOf: (value): value is Word => known.has(value) };
}

/** json, jsonb: of what we wrote ourselves. */
export function json<T>(): ColumnKind<T> {
  return {
    ...{ name: "json", oids: [114, 3802], arrayOids: [] },
    isOf: (value): value is T => value !== null && value !== undefined,
  };
}

export function arrayOf<T>(element: ColumnKind<T>): ColumnKind<T[]> {
  return {
    ...{ name: `array of ${element.name}`, oids: element.arrayOids, arrayOids: [] },
    isOf: (value): value is T[] => Array.isArray(value) && value.every((one) => element.isOf(one)),
  };
}

export function orNull<T>(kind: ColumnKind<T>): ColumnKind<T | null> {
  return {
    ...kind,
    name: `${kind.name} or null`,
    isOf: (value): value is T | null => value === null || kind.isOf(value),
  };
}

/** Writes statements whose rows are of one type. */
type Typed<Row extends object> = (
  template: TemplateStringsArray,
  ...values: readonly (StatementValue | readonly StatementValue[])[]
) => Statement<Row[]>;

/** Statements on `tx` whose rows have this shape: typed(sql, capPolicy)`select version, ...`. */
export function typed<S extends RowKinds>(tx: Tx, shape: S): Typed<RowOf<S>> {
  if (!CHECKS_ROWS) return tx;
  return (template, ...values) => {
    const statement = tx<RowOf<S>[]>(template, ...values);
    // what a test puts in place of Postgres is not checked
    if (statement instanceof Unsent) statement.check = (rows) => holdTo(shape, rows);
    return statement;
  };
}

/** The same of what a client that is not one of our pools has answered. */
export function rowsOf<S extends RowKinds>(shape: S, rows: readonly object[] & Described): RowOf<S>[] {
  if (CHECKS_ROWS) holdTo(shape, rows);
  return rows as unknown as RowOf<S>[];
}

/** The columns of a shape that are columns of a table, for a select list: `applied_at as "appliedAt"`. */
export function columnsOf(tx: Tx, shape: RowKinds, table = ""): Statement {
  const prefix = table === "" ? "" : `${table}.`;
  const named = Object.keys(shape).map((name) => {
    const column = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return column === name ? `${prefix}${column}` : `${prefix}${column} as "${name}"`;
  });
  return tx.unsafe(named.join(", "));
}

/** The row of a statement that always answers one. */
export function onlyRow<Row extends object>([row]: readonly Row[]): Row {
  if (!row) throw new Error("Postgres answered a query without a row");
  return row;
}

/** A row is not what its shape declares: a mistake of ours. */
export class WrongRow extends Error {
  override readonly name = "WrongRow";
}

/** What the client says of an answer, also of one without rows. */
type Described = {
  columns?: readonly { name: string; type: number }[] | null;
  statement?: { string?: string } | null;
};

/** Throws when an answer is not of this shape. */
export function holdTo(shape: RowKinds, rows: readonly object[] & Described): void {
  const wrong = wrongColumns(shape, rows.columns ?? []) ?? wrongValue(shape, rows);
  if (wrong !== null) throw new WrongRow(`${wrong} in: ${(rows.statement?.string ?? "").trim()}`);
}

function wrongColumns(shape: RowKinds, columns: NonNullable<Described["columns"]>): string | null {
  const came = new Set(columns.map(({ name }) => name));
  const missing = Object.keys(shape).find((name) => !came.has(name));
  if (missing !== undefined) return `column "${missing}" is declared and does not come`;
  for (const [n, { name, type }] of columns.entries()) {
    const kind = shape[name];
    if (!kind) return `column "${name}" comes and is not declared`;
    if (columns.findIndex((one) => one.name === name) < n) return `column "${name}" comes twice`;
    if (kind.oids.length > 0 && !kind.oids.includes(type))
      return `column "${name}" is declared ${kind.name} and comes as the type with oid ${type}`;
  }
  return null;
}

function wrongValue(shape: RowKinds, rows: readonly object[]): string | null {
  const kinds = Object.entries(shape);
  for (const row of rows) {
    const values = new Map<string, unknown>(Object.entries(row));
    for (const [name, kind] of kinds)
      if (!kind.isOf(values.get(name)))
        return `column "${name}" is declared ${kind.name} and comes as ${shown(values.get(name))}`;
  }
  return null;
}

/** Its type, and no contents: they may be somebody's. Short words are ours. */
function shown(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "string") return /^[\w -]{1,32}$/.test(value) ? `"${value}"` : "another text";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return Array.isArray(value) ? "an array with other elements" : typeof value;
}
