/**
 * Columns of many rows as one parameter each. The driver would quote and escape every element of an array, and Postgres
 * would parse it byte by byte: for the columns of an e-mail this was a fifth of the cost of its insert.
 */
import { randomBytes } from "node:crypto";
import type { Sql, Tx } from "./connect.ts";

/**
 * Elements that need no quotes (ids, numbers, times, booleans, words of ours), as Postgres writes an array of any such
 * type.
 */
export function plainArray(elements: readonly (string | number | boolean | null)[]): string {
  return `{${elements.map((element) => element ?? "null").join()}}`;
}

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
