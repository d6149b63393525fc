/** What a Postgres server says of itself. */
import type { Sql } from "./connect.ts";

export async function askServer(sql: Sql): Promise<{ version: number; now: Date }> {
  const [row] = await sql<{ version: number; now: Date }[]>`
    select current_setting('server_version_num')::int / 10000 as version, clock_timestamp() as now`;
  return row as { version: number; now: Date };
}
