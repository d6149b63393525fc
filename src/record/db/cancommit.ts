/**
 * Whether mail could be committed: a transaction that is given a number, over the connections that commits
 * use.
 */
import type { Sql } from "./connect.ts";
import { isRefusal } from "./lost.ts";
import { boolean, text, typed } from "./rowshape.ts";

const READ_ONLY = "25006";
const STANDBY = "it accepts no writes: is it a standby?";

/** What is wrong, or null. */
export async function canCommit(commits: Sql): Promise<string | null> {
  try {
    const [row] = await commits.begin(
      (tx) => typed(tx, { xid: text, isReadOnly: boolean })`
        select pg_current_xact_id()::text as xid,
          current_setting(${"transaction_read_only"})::boolean as "isReadOnly"`,
    );
    return row?.isReadOnly ? STANDBY : null;
  } catch (error) {
    if (!isRefusal(error)) return "no answer";
    return error.code === READ_ONLY || /recovery/.test(error.message)
      ? STANDBY
      : `it refuses a transaction (${error.code})`;
  }
}
