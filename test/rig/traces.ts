/** Looking for what should be nowhere: every table is looked through as text. */
import type { Sql } from "../../src/record/db/connect.ts";

/** The tables in which something matches, in any case. */
export async function tablesWith(sql: Sql, pattern: string): Promise<string[]> {
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`;
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await sql`select from ${sql(name)} t where to_jsonb(t)::text ~* ${pattern} limit 1`;
    if (rows.length > 0) found.push(name);
  }
  return found;
}
