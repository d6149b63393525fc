/** Whether mail could be committed: a transaction that is given a number, over the connections that commits use. */
import type { Sql } from "./connect.ts";
import { isRefusal } from "./lost.ts";

const READ_ONLY = "25006";

/** What is wrong, or null. */
export async function canCommit(commits: Sql): Promise<string | null> {
  try {
    await commits.begin(async (tx) => {
      await tx`select pg_current_xact_id() as xid, ${"asked with a parameter, as commits are"}::text as said`;
    });
    return null;
  } catch (error) {
    if (!isRefusal(error)) return "no answer";
    return error.code === READ_ONLY || /recovery/.test(error.message)
      ? "it takes no changes: is it a standby?"
      : `it refuses a transaction (${error.code})`;
  }
}
