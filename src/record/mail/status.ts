/** The status of an e-mail in SQL, made of the table that decides it (rules/email.ts). */
import { ENDINGS } from "../../rules/email.ts";
import type { Statement, Tx } from "../db/connect.ts";

/** What marks without an open one make of an e-mail. */
export function endingSql(tx: Tx, marks: Statement): Statement {
  return ENDINGS.reduceRight<Statement>(
    (otherwise, [mark, status]) =>
      tx`case when position(${mark} in ${marks}) > 0 then ${status} else ${otherwise} end`,
    tx`'canceled'`,
  );
}

/** The marks of an e-mail that ends before its open recipients were tried. */
export function withoutOpen(tx: Tx): Statement {
  return tx`replace(coalesce(marks, repeat('o', weight)), 'o', 'x')`;
}
