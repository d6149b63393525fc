/** What a Postgres server says of itself. */
import type { Sql } from "./connect.ts";

export async function majorVersion(sql: Sql): Promise<number> {
  const [row] = await sql<{ version: number }[]>`
    select current_setting('server_version_num')::int / 10000 as version`;
  return (row as { version: number }).version;
}
