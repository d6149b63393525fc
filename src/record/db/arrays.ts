/**
 * Columns of many rows as one parameter each. The driver would quote and escape every element of an array, and Postgres
 * read it back octet by octet: with the columns of an e-mail that was a fifth of what its insert cost.
 */
import { randomBytes } from "node:crypto";
import type { Sql, Tx } from "./connect.ts";

/** Elements that need no quotes (ids, numbers, times, booleans, words of ours), as Postgres writes an array of any such type. */
export function plainArray(elements: readonly (string | number | boolean | null)[]): string {
  return `{${elements.map((element) => element ?? "null").join()}}`;
}

/** What stands between two texts, and for none: nobody outside of this process can know it, and so write it into a text. */
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
