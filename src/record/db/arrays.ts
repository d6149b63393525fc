/**
 * Columns of many rows as one parameter each. The driver would quote and escape every element of an array,
 * and Postgres would parse it byte by byte: for the columns of an e-mail this was a fifth of the cost of its
 * insert.
 */
import { randomBytes } from "node:crypto";
import type { Sql, Statement, Tx } from "./connect.ts";

/**
 * Elements that need no quotes (ids, numbers, times, booleans, words of ours), as Postgres writes an array of
 * any such type.
 */
export function plainArray(elements: readonly (string | number | boolean | null)[]): string {
  return `{${elements.map((element) => element ?? "null").join()}}`;
}

type CellValue = string | number | boolean | null;
/** `word`: a text of ours, without quotes and backslashes; `text`: any. */
type ColumnType = "bool" | "float8" | "int" | "text" | "timestamptz" | "uuid" | "word";
export type Columns<Row> = Record<string, readonly [ColumnType, (row: Row) => CellValue]>;

/**
 * Columns of many rows, as a SELECT list without FROM. What is the same in all rows is one value, anything
 * else an array that is spread over them: the mails of a sender differ in little but id and text, and for
 * them this saves a quarter of what an insert costs Postgres. A tenth comes of there being no FROM, whose
 * rows are copied once more.
 */
export function columns<Row>(tx: Sql | Tx, rows: readonly Row[], of: Columns<Row>) {
  const cells = Object.values(of).map(([, pick]) => rows.map(pick));
  const shape = shapeFor(Object.keys(of).join(), cells.map(isSame));
  return Object.entries(of).map(([name, [type]], n) => {
    const values = cells[n] as CellValue[];
    const column = shape[n] ? ONE[type](tx, values[0] as CellValue) : EACH[type](tx, values);
    return n === 0 ? tx`${column} as ${tx(name)}` : tx`, ${column} as ${tx(name)}`;
  });
}

/** Of each column whether it is one value. */
type RowShape = readonly boolean[];

/**
 * Each shape is another statement, which every connection keeps with its plan: up to 0.7 MB for e-mails of 39
 * days, and senders could make thousands of shapes.
 */
const SHAPES_MAX = 24;
const SHAPES = new Map<string, RowShape[]>();

/** The shape that fits; of very many the known one that spreads the fewest columns more than it must. */
function shapeFor(names: string, fitting: RowShape): RowShape {
  const known = SHAPES.get(names) ?? [fitting.map(() => false)];
  SHAPES.set(names, known);
  const fits = known.filter((shape) => shape.every((isOne, n) => !isOne || fitting[n]));
  const best = fits.reduce((most, shape) => (ones(shape) > ones(most) ? shape : most));
  if (ones(best) === ones(fitting) || known.length >= SHAPES_MAX) return best;
  known.push(fitting);
  return fitting;
}

function ones(shape: RowShape): number {
  return shape.filter(Boolean).length;
}

function isSame(values: readonly CellValue[]): boolean {
  return values.length > 0 && values.every((value) => value === values[0]);
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
