/** A pooler between us and Postgres that takes no settings with a connection. */
import { isRefusedByPooler, type Sql } from "./connect.ts";
import { boolean, onlyRow, typed } from "./rowshape.ts";

/**
 * It refuses the settings or, told to ignore them, leaves them out without a word: then statements have no
 * limits, and those that are prepared are another's.
 */
export async function isBehindPooler(commits: Sql): Promise<boolean> {
  try {
    const rows = await typed(commits, { isSet: boolean })`
      select current_setting('plan_cache_mode') = 'force_generic_plan' as "isSet"`;
    return !onlyRow(rows).isSet;
  } catch (error) {
    if (isRefusedByPooler(error)) return true;
    throw error;
  }
}
