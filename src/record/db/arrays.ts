/**
 * Columns of many rows as one parameter each. The driver would quote and escape every element of an array, and Postgres
 * would parse it byte by byte: for the columns of an e-mail this was a fifth of the cost of its insert.
 */
import { randomBytes } from "node:crypto";
import type { Sql, Statement, Tx } from "./connect.ts";

/**
 * Elements that need no quotes (ids, numbers, times, booleans, words of ours), as Postgres writes an array of any such
 * type.
 */
export function plainArray(elements: readonly (string | number | boolean | null)[]): string {
  return `{${elements.map((element) => element ?? "null").join()}}`;
}

type CellValue = string | number | boolean | null;
/** `word`: a text of ours, without quotes and backslashes; `text`: any. */
type ColumnType = "bool" | "float8" | "int" | "text" | "timestamptz" | "uuid" | "word";
export type Columns<Row> = Record<string, readonly [ColumnType, (row: Row) => CellValue]>;

/**
 * Columns of many rows, as a SELECT list without FROM. What is the same in all rows is one value, anything else an array
 * that is spread over them: the mails of a sender differ in little but id and text, and for them this saves a quarter of
 * what an insert costs Postgres. A tenth comes of there being no FROM, whose rows are copied once more.
 */
export function columns<Row>(tx: Sql | Tx, rows: readonly Row[], of: Columns<Row>) {
  return Object.entries(of).map(([name, [type, pick]], n) => {
    const values = rows.map(pick);
    const [first = null] = values;
    const isOne = values.length > 0 && values.every((value) => value === first);
    const column = isOne ? ONE[type](tx, first) : EACH[type](tx, values);
    return n === 0 ? tx`${column} as ${tx(name)}` : tx`, ${column} as ${tx(name)}`;
  });
}

const ONE: Record<ColumnType, (tx: Sql | Tx, value: CellValue) => Statement> = {
  bool: (tx, value) => tx`${value}::bool`,
  float8: (tx, value) => tx`${value}::float8`,
  int: (tx, value) => tx`${value}::int`,
  text: (tx, value) => tx`${value}::text`,
  timestamptz: (tx, value) => tx`${value}::timestamptz`,
  uuid: (tx, value) => tx`${value}::uuid`,
  word: (tx, value) => tx`${value}::text`,
};

const EACH: Record<ColumnType, (tx: Sql | Tx, values: readonly CellValue[]) => Statement> = {
  bool: (tx, values) => tx`unnest(${plainArray(values)}::bool[])`,
  float8: (tx, values) => tx`unnest(${plainArray(values)}::float8[])`,
  int: (tx, values) => tx`unnest(${plainArray(values)}::int[])`,
  text: (tx, values) => tx`unnest(${texts(tx, values as readonly (string | null)[])})`,
  timestamptz: (tx, values) => tx`unnest(${plainArray(values)}::timestamptz[])`,
  uuid: (tx, values) => tx`unnest(${plainArray(values)}::uuid[])`,
  word: (tx, values) =>
    tx`unnest(${plainArray(values.map((value) => (value === null ? null : `"${value}"`)))}::text[])`,
};

/** Separator of texts, and mark of null: random per process, so that no text from outside can contain it. */
const SECRET = randomBytes(16).toString("base64url");
const BETWEEN = `,${SECRET},`;
const NONE = `-${SECRET}-`;

/** Any texts, as a `text[]`. */
export function texts(tx: Sql | Tx, elements: readonly (string | null)[]) {
  const joined = elements.map((element) => element ?? NONE).join(BETWEEN);
  // of an empty text Postgres makes an array without elements
  if (joined === "" && elements.length === 1) return tx`array['']`;
  return tx`string_to_array(${joined}, ${BETWEEN}, ${NONE})`;
}
